"""The checks of lab 40; ranks as if they were on other nodes, pieces that count their calls,
checkpoints."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import horovod.torch as hvd
import numpy as np
import torch
from labkit import check, data, expect, launch, nets

# ------------------------------------------------------------------------------------------ 40.1

# What is said of the nodes, ranks on each, GPUs on each.
NODES = [
    ("of two ranks and four GPUs", 2, 4),
    ("of three ranks and two GPUs", 3, 2),
    ("of two ranks and one GPU", 2, 1),
    ("without GPUs", 2, 0),
]


def begin_on_nodes(begin, my_rows, ranks):
    """For each of NODES: was Horovod started, the device, the GPUs made current; then this rank's
    rows, what is wrong with them as an index, and was the global batch left as it was."""
    tried = []
    batch = global_batch(ranks)
    given = batch.copy()
    for _, on_node, gpus in NODES:
        with nodes_of(on_node) as asked:  # notes set_device: this machine may lack those GPUs
            device = begin(gpus)
            tried.append((asked.started, device, asked.current))
            rows = my_rows(given)
    no_index = what_is_no_index(rows, int(batch.max()) + 1)
    if no_index:
        return tried, [], no_index, True, 0
    with in_all(2 * hvd.size()):
        of_many = my_rows(np.arange(24 * ranks))
    rows = np.asarray(rows).tolist()
    return tried, rows, "", np.array_equal(batch, given), len(of_many)


def global_batch(ranks):
    """12 row numbers for each rank, in no order. Each has the same remainder by the number of
    ranks: the place of a row decides whose it is, not its number."""
    return 100 + ranks * np.random.default_rng(40).permutation(12 * ranks)


def what_is_no_index(rows, count):
    """Why images[rows], of so many images, is not the images of several rows; "" if it is."""
    of = f" of {rows.dtype}" if hasattr(rows, "dtype") else ""
    got = f"`my_rows` returned this type: {type(rows).__name__}{of}"
    wanted = "It has to return several row numbers, in an array, a list or a tensor."
    images = torch.zeros(count, 2)
    try:
        several = images[rows].shape == (len(rows), 2)
    except (IndexError, TypeError, ValueError) as error:
        return f"{got}. {wanted} `images[my_rows(rows)]` raised {type(error).__name__}: {error}"
    whole = np.asarray(rows).dtype.kind in "iu" or not len(rows)
    return "" if several and whole else f"{got}. {wanted}"


@check.exercise("40.1")
def begins(begin, my_rows, ranks, patience):
    """On nodes of several kinds hvd.init(), the device and the current GPU; other rows by rank."""
    results = launch.run(begin_on_nodes, begin, my_rows, ranks, ranks=ranks, timeout=patience)
    for place, (kind, on_node, gpus) in enumerate(NODES):
        started, devices, current = zip(*[of_rank[0][place] for of_rank in results], strict=True)
        first = (
            f"Nodes {kind}: Horovod was not started. Call hvd.init() before any other function of"
            " Horovod."
        )
        expect(all(started), first)
        numbers = [rank % on_node % gpus if gpus else None for rank in range(ranks)]
        want = ["cpu" if number is None else f"cuda:{number}" for number in numbers]
        expect.equal(list(devices), want, f"devices by rank, on nodes {kind}")
        made_current = [[device] if gpus else [] for device in want]
        why = "torch.cuda.set_device makes a rank's GPU the current one, where there are GPUs"
        expect.equal(
            list(current), made_current, f"GPUs made current by rank, on nodes {kind}", because=why
        )
    _, parts, no_index, untouched, with_many = zip(*results, strict=True)
    expect(not any(no_index), next(filter(None, no_index), ""))
    expect(
        all(untouched),
        "`my_rows` changed the global batch itself, which its caller still needs. Take this rank's"
        " rows from it, and leave it as it is.",
    )
    seen = np.concatenate(parts)
    expect(
        len(set(seen.tolist())) == len(seen),
        "Two ranks take the same samples: their parts of the batch overlap.",
    )
    counts = [len(part) for part in parts]
    by_number = [0] * ranks
    by_number[100 % ranks] = 12 * ranks
    slips = {"choose a rank's rows by their places in the array, not by their numbers": by_number}
    subject = f"images by rank, of {12 * ranks} in the batch"
    expect.equal(counts, [12] * ranks, subject, slips=slips)
    expect.equal(np.sort(seen), np.sort(global_batch(ranks)), "The rows of all ranks together")
    subject = f"images by rank, of {24 * ranks} in the batch, with twice as many ranks"
    expect.equal(
        list(with_many), [12] * ranks, subject, because="hvd.size() tells how many ranks there are"
    )


# ------------------------------------------------------------------------------------------ 40.2


def net_with_running_mean(seed=0):
    """A network whose state_dict has more than its parameters."""
    digits = nets.torch_digits(nets.start_weights(seed))
    return torch.nn.Sequential(torch.nn.BatchNorm1d(64), digits)


def sums(net, optimizer):
    """What a rank has, each as one number."""
    return {
        "weights": sum(weights.sum().item() for weights in net.parameters()),
        "running mean of the batch normalization": net[0].running_mean.sum().item(),
        "number of batches that the batch normalization saw": net[0].num_batches_tracked.item(),
        "momentum": sum(
            state["momentum_buffer"].sum().item() for state in optimizer.state.values()
        ),
        "learning rate": optimizer.param_groups[0]["lr"],
    }


def before_and_after(begin_equal, begin):
    """What this rank had, and what it has then. Each has other weights, rate and running mean; rank
    0 has momentum, as if it had read a checkpoint."""
    begin(0)
    net = net_with_running_mean(hvd.rank())
    rate = 0.1 * (1 + hvd.rank())
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, weight_decay=0.1)
    pictures = torch.arange(128.0).reshape(2, 64) * (1 + hvd.rank())
    net(pictures)[:, hvd.rank() % 10].sum().backward()  # a large job has more ranks than digits
    net[0].num_batches_tracked.add_(hvd.rank())
    if hvd.rank() == 0:
        optimizer.step()
    before = sums(net, optimizer)
    begin_equal(net, optimizer)
    return before, sums(net, optimizer)


@check.exercise("40.2")
def begins_equal(begin_equal, begin, ranks, patience):
    """On all ranks the net's tensors, the momentum and the learning rate that rank 0 had."""
    results = launch.run(before_and_after, begin_equal, begin, ranks=ranks, timeout=patience)
    decay = [1] + [1 - 0.1 * before["learning rate"] for before, _ in results[1:]]
    for name, of_rank_0 in results[0][0].items():
        own = [before[name] for before, _ in results]
        slips = {"nothing was sent, so each rank kept its own": own}
        slips |= {f"these are rank {rank}'s": [own[rank]] * ranks for rank in range(1, ranks)}
        if name == "weights":
            # Where broadcast_optimizer_state takes its step, only the weight decay changes them.
            decayed = np.multiply(own, decay)
            kept = "the net's tensors were not sent: each rank kept its own, which the step changed"
            order = "send the tensors last, because broadcast_optimizer_state can change weights"
            slips |= {kept: decayed, order: np.multiply(of_rank_0, decay)}
            slips |= {
                f"these are rank {rank}'s, not rank 0's": [decayed[rank]] * ranks
                for rank in range(1, ranks)
            }
        subject = f"The {name} by rank (expected: that of rank 0)"
        by_rank = [after[name] for _, after in results]
        expect.close(by_rank, [of_rank_0] * ranks, subject, slips=slips)


# ------------------------------------------------------------------------------------------ 40.3


def two_steps(make_optimizer, begin, rate_per_rank):
    """The learning rate; by how much each number of each tensor falls in two steps; the rates of
    twice as many ranks and of twice rate_per_rank. None if another optimizer is returned than
    Horovod's.

    The numbers are large: a decay of them would show. The gradient of the first is rank + 1.
    """
    begin(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 2))
    for weights in net.parameters():
        torch.nn.init.constant_(weights, 1000)
    with nodes_of(1), calls_of(hvd, "DistributedOptimizer") as distributed:
        optimizer = make_optimizer(net)
    if any(given is optimizer for given in distributed.given):
        return None
    with in_all(2 * hvd.size()):
        of_many = make_optimizer(torch.nn.Linear(1, 1, bias=False)).param_groups[0]["lr"]
    with parameters_of(make_optimizer, rate_per_rank=2 * rate_per_rank):
        of_other = make_optimizer(torch.nn.Linear(1, 1, bias=False)).param_groups[0]["lr"]
    places = [numbers_of(net)]
    for _ in range(2):
        optimizer.zero_grad()
        loss_with_gradients(net, hvd.rank(), hvd.size()).backward()
        optimizer.step()
        places.append(numbers_of(net))
    first, second = -np.diff(places, axis=0)
    return optimizer.param_groups[0]["lr"], first, second, of_many, of_other


def loss_with_gradients(net, rank, ranks):
    """A loss whose gradient by number i of a tensor is 1 + (rank + i) % ranks: over the
    ranks these are 1 to `ranks`, for each number in another order, so that no rank's gradient is a
    multiple of another's."""
    losses = []
    for weights in net.parameters():
        gradient = 1 + (rank + torch.arange(weights.numel())) % ranks
        losses.append((weights.flatten() * gradient).sum())
    return sum(losses)


def numbers_of(net):
    """All numbers of a net's tensors, in one array."""
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy().copy()


@check.exercise("40.3")
def steps_together(make_optimizer, begin, rate_per_rank, ranks, patience):
    """A rate that grows with the ranks, the mean gradient, and no momentum in the second step."""
    answers = make_optimizer, begin, rate_per_rank
    results = launch.run(two_steps, *answers, ranks=ranks, timeout=patience)
    expect(
        None not in results,
        "`make_optimizer` returns the plain optimizer. Return what hvd.DistributedOptimizer"
        " returned for it.",
    )
    by_kind = [np.array(part) for part in zip(*results, strict=True)]
    rates, moves, second, of_many, of_other = by_kind
    expect.close(
        rates, [rate_per_rank * ranks] * ranks, "learning rate by rank (it grows with the ranks)"
    )
    subject = "learning rate by rank, with twice as many ranks"
    expect.close(of_many, [rate_per_rank * 2 * ranks] * ranks, subject)
    subject = f"learning rate by rank, with rate_per_rank = {2 * rate_per_rank:g}"
    expect.close(
        of_other, [2 * rate_per_rank * ranks] * ranks, subject, because="use the parameter's name"
    )
    own = np.arange(1, ranks + 1)  # of a tensor's first number, a rank's own gradient is rank + 1
    slips = {
        "Each rank used its own gradient, so nothing was averaged": own,
        "The gradients were summed, not averaged": [own.sum()] * ranks,
    }
    subject = f"gradient used, by rank: the mean of 1 to {ranks}"
    rule = (
        "the gradient is computed from the change of the weight and the rate, for plain SGD without"
        " weight decay"
    )
    used = moves / rates[:, None]
    still = "`make_optimizer` left out some of the net's tensors. Give it all of net.parameters()."
    expect(used.any(axis=0).all() or not used.any(), still)
    expect.close(used[:, 0], [own.mean()] * ranks, subject, rtol=1e-3, slips=slips, because=rule)
    subject = "gradient used on rank 0, for each number in the net's tensors"
    expect.close(used[0], np.full(used.shape[1], own.mean()), subject, rtol=1e-3, because=rule)
    plain = (
        "With the same gradient, plain SGD changes the weight as much in the second step as in the"
        " first"
    )
    expect.close(second[:, 0], moves[:, 0], "second move, by rank", rtol=1e-3, because=plain)


# ------------------------------------------------------------------------------------------ 40.4


# The cross entropy of a network that gives each digit the same probability. Its last digits would
# not survive numbers of 16 bits.
LOSS = 2.302585


def report_and_save(mean_over_ranks, save, begin, checkpoint):
    """Means of a list, calls for them, what this rank's file holds if it wrote one, what is right,
    and what the file held after the first of two calls.

    Every rank gives `save` another file name: that shows who wrote.
    """
    begin(0)
    net = net_with_running_mean()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    path = checkpoint.with_suffix(f".try{hvd.rank()}")
    path.unlink(missing_ok=True)
    with nodes_of(2):
        save(net, optimizer, path)
        first = read_checkpoint(path)
        net[0].bias.data.add_(1)  # trained on: a second call overwrites the file of the first
        save(net, optimizer, path)
    want = summary({"net": net.state_dict(), "optimizer": optimizer.state_dict()})
    with calls_of(hvd, "allreduce") as allreduce:
        means = mean_over_ranks([1.0 * hvd.rank(), LOSS])
    of_seven = [3.0, 5.0]
    if allreduce.calls:
        with seven_alike():
            of_seven = mean_over_ranks(of_seven)
    return means, allreduce.calls, of_seven, read_checkpoint(path), want, first


@check.exercise("40.4")
def reports_once(mean_over_ranks, save, begin, checkpoint, ranks, patience):
    """The mean over all ranks; one file of one rank, with both states in it."""
    answers = mean_over_ranks, save, begin, checkpoint
    results = launch.run(report_and_save, *answers, ranks=ranks, timeout=patience)
    means, calls, of_seven, files, right, first = zip(*results, strict=True)
    tensors = any(torch.is_tensor(of_rank) for of_rank in means)
    expect(not tensors, "`mean_over_ranks` returns a tensor, not a list. Call its .tolist().")
    lists = [of_rank for of_rank in means if isinstance(of_rank, (list, tuple))]
    tensors = any(torch.is_tensor(mean) for of_rank in lists for mean in of_rank)
    expect(not tensors, "`mean_over_ranks` returns a list of tensors, not of floats.")
    want = np.array([(ranks - 1) / 2, LOSS])
    slips = {
        "This is the sum over the ranks, not the mean": ranks * want,
        "This was divided by the number of ranks twice": want / ranks,
    }
    for rank, of_rank in enumerate(means):
        subject = f"mean_over_ranks([rank, {LOSS}]) on rank {rank}"
        expect.close(of_rank, want, subject, slips=slips)
    subject = "Means of [3, 5] over seven ranks that all hold these"
    expect.close(
        of_seven[0], [3.0, 5.0], subject, because="hvd.size() tells how many ranks there are"
    )
    expect(
        max(calls) <= 1,
        "Average all values of the list in one call of hvd.allreduce, because each call sends"
        " messages.",
    )
    writers = [rank for rank in range(ranks) if files[rank]]
    expect.equal(
        writers,
        [0],
        "Ranks that wrote the checkpoint (all have the same state, so rank 0 is enough)",
    )
    subject = (
        "The content of the checkpoint: the sum of each tensor of the network, and the optimizer's"
        " state"
    )
    slips = {"save has to overwrite the file of an earlier call": first[0]}
    expect.equal(files[0], right[0], subject, slips=slips)


# ------------------------------------------------------------------------------------------ 40.5


def one_training(train, pieces, begin, new_net, checkpoint, dataset, images_per_rank, epochs):
    """Losses, calls of each piece, did `start` get the optimizer of `optimize`, calls of allreduce
    and of torch.save, weights in the file and in the net before and after; steps of many, and
    those with other parameters.

    pieces: those that `train` gets as arguments; they are counted.
    """
    begin(0)
    path = checkpoint.with_suffix(".try")
    if hvd.rank() == 0:
        path.unlink(missing_ok=True)
    counted = {name: Counted(piece) for name, piece in pieces.items()}
    counted["optimize"].only = "Call `optimize` once, before the loops."
    net = new_net(seed=hvd.rank())
    new = summary({"net": net.state_dict()})["net"]
    images, labels = (torch.tensor(part) for part in data.load(dataset)[:2])
    with calls_of(hvd, "allreduce") as allreduce, calls_of(torch, "save") as saves:
        losses = train(net, images, labels, path, **counted)
    calls = {name: piece.calls for name, piece in counted.items()}
    in_order = any(given is counted["optimize"].returned for given in counted["start"].given)
    # Rank 0 wrote the file; another rank may come here while it still does.
    saved = read_checkpoint(path).get("net") if hvd.rank() == 0 else None
    trained = summary({"net": net.state_dict()})["net"]
    # Blank images: with twice as many ranks, one step an epoch.
    count = 2 * images_per_rank * hvd.size()
    blank = torch.zeros(count, images.shape[1])
    none = labels.new_zeros(count)
    of_many, of_others = Counted(pieces["part"]), Counted(pieces["part"])
    with in_all(2 * hvd.size()):
        train(new_net(), blank, none, checkpoint.with_suffix(".many"), part=of_many)
    with parameters_of(train, epochs=epochs + 1, images_per_rank=2 * images_per_rank):
        train(new_net(), blank, none, checkpoint.with_suffix(".many"), part=of_others)
    steps = of_many.calls, of_others.calls
    return losses, calls, in_order, allreduce.calls, saves.calls, saved, new, trained, steps


@check.exercise("40.5")
def trains(
    train,
    make_optimizer,
    begin_equal,
    my_rows,
    begin,
    new_net,
    checkpoint,
    dataset,
    images_per_rank,
    epochs,
    alone,
    ranks,
    patience,
):
    """The pieces that were given, as many steps as one process makes, its losses, and a file."""
    pieces = {"optimize": make_optimizer, "start": begin_equal, "part": my_rows}
    what = train, pieces, begin, new_net, checkpoint, dataset, images_per_rank, epochs
    by_rank = launch.run(one_training, *what, ranks=ranks, timeout=4 * patience)
    losses, calls, in_order, messages, saves, saved, new, trained, steps = by_rank[0]
    expect(losses is not None, "train returned nothing. It has to return the losses.")
    without = [rank for rank in range(ranks) if by_rank[rank][0] is None]
    expect(not without, f"train returned nothing on ranks {without}. All ranks return the losses.")
    of_one_rank = epochs * (len(data.load(dataset).train_x) // images_per_rank)
    slips = {"the global batch has images_per_rank images for each of all ranks": of_one_rank}
    expect.equal(len(losses), len(alone), f"Losses of {epochs} epochs", slips=slips)
    want = {"optimize": 1, "start": 1, "part": len(alone)}
    because = "train has to call its arguments, not make_optimizer, begin_equal or my_rows by name"
    if any(calls[name] > want[name] for name in want):
        because = "call `optimize` and `start` once, before the loops, and `part` once in each step"
    expect.equal(calls, want, "Calls of the pieces that train was given", because=because)
    expect(
        in_order,
        "`start` did not get the optimizer that `optimize` returns. Create that optimizer first.",
    )
    expect(
        messages <= 1,
        "Average the losses of a whole run in one call after the last step, because each call sends"
        " messages.",
    )
    subject = f"Steps of {epochs} epochs of one global batch, with twice as many ranks"
    expect.equal(steps[0], epochs, subject, because="hvd.size() tells how many ranks there are")
    other = f"epochs = {epochs + 1} and images_per_rank = {2 * images_per_rank}"
    subject = f"Steps on {2 * images_per_rank * ranks} images, with {other}"
    expect.equal(steps[1], epochs + 1, subject, because="use the parameters' names")
    subject = (
        "The first loss (did all ranks begin with rank 0's network, use the same global batch, and"
        " average?)"
    )
    expect.close(losses[0], alone[0], subject, rtol=1e-4)
    subject = (
        "The losses, beside those of one process (the same batches in the same order? its own"
        " rows?)"
    )
    expect.close(losses, alone, subject, rtol=1e-3)
    expect(trained != new, "`train` did not train the network that it was given as `net`.")
    expect(saved, "No rank saved. Call save(net, optimizer, path) after the last step.")
    because = "call save(net, optimizer, path) after the last step, when the network is trained"
    expect.equal(saves, 1, "Files that rank 0 wrote", because=because)
    expect.equal(saved, trained, "Sums of the tensors in the file", because=because)


# ---------------------------------------------------------------------------- what they try with


@dataclass
class Asked:
    """What a block of code asked for. started: hvd.init() was called. current: "cuda:1" for each
    call of torch.cuda.set_device, in order."""

    started: bool = False
    current: list[str] = field(default_factory=list)


@contextmanager
def nodes_of(ranks: int) -> Iterator[Asked]:
    """On a rank: while the block runs, hvd.local_rank() and hvd.local_size() are those on nodes of
    so many ranks, in the order of ranks. torch.cuda.set_device is only noted, as this machine may
    lack that GPU.

    Raises what Horovod raises (ValueError) when it is asked before hvd.init().
    """
    asked = Asked()
    own = {
        name: getattr(hvd, name) for name in ("init", "is_initialized", "local_rank", "local_size")
    }
    set_device = torch.cuda.set_device

    def init(*arguments, **options):
        asked.started = True
        own["init"](*arguments, **options)

    def note(device):
        asked.current.append(name_of(device))

    hvd.init = init
    hvd.is_initialized = lambda: asked.started
    hvd.local_rank = lambda: hvd.rank() % ranks
    hvd.local_size = lambda: min(ranks, hvd.size() - hvd.rank() // ranks * ranks)
    torch.cuda.set_device = note
    try:
        yield asked
    finally:
        for name, function in own.items():
            setattr(hvd, name, function)
        torch.cuda.set_device = set_device


@contextmanager
def in_all(ranks: int) -> Iterator[None]:
    """On a rank: while the block runs, hvd.size() returns `ranks`. For what is computed, not for
    messages."""
    own = hvd.size
    hvd.size = lambda: ranks
    try:
        yield
    finally:
        hvd.size = own


@contextmanager
def parameters_of(answer: Callable, **values: object) -> Iterator[None]:
    """On a rank: while the block runs, the lab's parameters that an answer names have these
    values."""
    names = getattr(answer, "__globals__", {})
    own = {name: names[name] for name in values if name in names}
    names.update({name: values[name] for name in own})
    try:
        yield
    finally:
        names.update(own)


@contextmanager
def seven_alike() -> Iterator[None]:
    """On a rank: while the block runs, hvd.allreduce answers as among seven ranks that give the
    same."""
    own = hvd.allreduce

    def allreduce(tensor, average=None, name=None, compression=None, op=None, **options):
        return 7 * tensor if op == hvd.Sum or average is False else tensor

    hvd.allreduce = allreduce
    try:
        with in_all(7):
            yield
    finally:
        hvd.allreduce = own


def name_of(device) -> str:
    """ "cuda:1" of what torch.cuda.set_device takes: 1, "cuda:1" or torch.device("cuda", 1)."""
    return str(torch.device("cuda", device) if isinstance(device, int) else torch.device(device))


class Counted:
    """Calls `piece` and returns what it returns. calls: how often that was. given, returned: of the
    last call. only: what to say of a second call, if there may be only one."""

    def __init__(self, piece: Callable):
        self.piece = piece
        self.only = ""
        self.calls = 0
        self.given = []
        self.returned = None

    def __call__(self, *arguments, **options):
        self.calls += 1
        expect(not self.only or self.calls == 1, self.only)
        self.given = [*arguments, *options.values()]
        self.returned = self.piece(*arguments, **options)
        return self.returned


@contextmanager
def calls_of(module: ModuleType, name: str) -> Iterator[Counted]:
    """On a rank: this function of a module as a Counted, in its place while the block runs."""
    own = getattr(module, name)
    counted = Counted(own)
    setattr(module, name, counted)
    try:
        yield counted
    finally:
        setattr(module, name, own)


def summary(saved: object) -> dict:
    """{name: state} of what was or is to be saved; each tensor of a state as the sum of its
    numbers.

    What is no dict is told by its type: {"no keys: a Sequential": None}.
    """
    if not isinstance(saved, Mapping):
        return {f"no keys: {kind_of(saved)}": None}
    return {name: state_of(state) for name, state in saved.items()}


def read_checkpoint(path: Path) -> dict:
    """The summary of what torch.save wrote to path; {} if there is no file.

    A whole net in it is not rebuilt, as that would run code that the file names.
    """
    if not path.exists():
        return {}
    try:
        return summary(torch.load(path, weights_only=True))
    except pickle.UnpicklingError:
        return {"a whole object, of which weights_only=True reads nothing": None}


def state_of(state: object) -> dict | str:
    if not isinstance(state, Mapping):
        return kind_of(state)
    return {
        name: value.double().sum().item() if torch.is_tensor(value) else value
        for name, value in state.items()
    }


def kind_of(value: object) -> str:
    return f"a {type(value).__name__}"
