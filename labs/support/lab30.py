"""The checks of lab 30, what they see of the learner's functions on a rank, what the runs with a
mistake show, and a step's two parts, timed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from labkit import (
    check,
    data,
    expect,
    launch,
    nets,
    placement,
    plots,
    predict,
    record,
    timing,
    workloads,
    world,
)
from labkit.counting import CallLog, on_every_size
from labkit.errors import counted
from torch.nn.utils import vector_to_parameters


@check.exercise("30.1")
def equal_shares(my_share, batch, to_vector, new_net):
    """The parts are equal, they are of the batch's own rows, and each row is on exactly one
    rank."""
    rows = data.batches(1536, batch, epoch=0)[-1]
    wholes = [(size, batch - batch % size) for size in (1, 2, 4, 8) if size <= batch]
    for size, images in (*wholes, (3, min(24, batch - batch % 3))):
        given = rows[:images].copy()
        parts = [my_share(given, rank, size) for rank in range(size)]
        shares = [np.array(part) for part in parts]
        ranks = counted(size, "rank")
        if images != batch:
            ranks += f" and a batch of {images} images"
        expect.unchanged(rows[:images], given, f"With {ranks}, the array `rows`")
        numbers = all(share.ndim == 1 and share.dtype.kind in "iu" for share in shares)
        expect(numbers, "`my_share` has to return image numbers: a list or an array of integers.")
        places = "A tuple cannot pick images: `images[(3, 5)]` is a single value. Return a list."
        expect(not any(isinstance(part, tuple) for part in parts), places)
        lengths = [len(share) for share in shares]
        expect.equal(lengths, [images // size] * size, f"Images on each of {ranks}")
        together = np.concatenate(shares)
        of_batch = np.isin(together, given).all()
        expect(of_batch, f"With {ranks}, some rows are not of this batch at all.")
        twice = len(together) - len(set(together))
        expect(not twice, f"With {ranks}, {twice} images are seen twice, and as many by nobody.")
    net_values = to_vector(new_net(seed=0).parameters())
    predict.right(
        "30.1", images_per_rank=len(my_share(rows, 0, 4)), values_averaged=len(net_values)
    )


@check.exercise("30.2")
def equal_start(start_equal, ranks, patience):
    """Nets that differ from rank to rank are, afterwards, what rank 0's was."""
    try_start = partial(started, start_equal=start_equal)
    by_rank = launch.run(on_every_size, try_start, ranks=ranks, timeout=patience)
    for size in by_rank[0]:
        group = [tried[size] for tried in by_rank[:size]]
        for rank, seen in enumerate(group):
            for name, weights in seen.after.items():
                slips = {"unchanged: it is what this rank drew itself": seen.own[name]}
                slips |= {
                    f"it is what rank {r} drew": own[name] for r, (own, _) in enumerate(group)
                }
                because = "it should be what rank 0 began with"
                what = f"{counted(size, 'rank')}, rank {rank}, {name}"
                expect.equal(weights, group[0].own[name], what, slips=slips, because=because)


@check.exercise("30.3")
def mean_by_one_call(average_gradients, ranks, patience):
    """On every number of ranks all gradients are their mean, after one call of MPI."""
    try_average = partial(expect_average, average=average_gradients)
    calls = launch.run(on_every_size, try_average, ranks=ranks, timeout=patience)[0]
    for size, names in ((size, names) for size, of_nets in calls.items() for names in of_nets):
        many = f"the mean is right, but it took {len(names)} calls of MPI. Use one vector for all."
        expect(len(names) <= 1, f"{counted(size, 'rank')}: {many}")
        array = "it serializes a Python object; the call for arrays is written with a capital."
        pickled = f"comm.{names[0]}: {array}" if names else ""
        expect(not names or names[0][0].isupper(), pickled)


@check.exercise("30.4")
def trains_as_one_process(train, average_gradients, alone, batch, ranks, patience):
    """Every loss is that of one process, on every rank and on any number of ranks; and all ranks'
    weights stay equal.
    """
    fits = max(1, batch // ranks) * ranks
    cure = f"use 2 or 4 ranks, or batch = {fits} (in a job: SET=batch={fits})"
    expect(batch % ranks == 0, f"{batch} images do not make {ranks} equal parts: {cure}.")
    trained = launch.run(watched, train, average_gradients, ranks=ranks, timeout=patience)
    for seen in trained:
        expect_step(seen, len(alone), batch // ranks)
    losses = trained[0].losses
    same = ranks > 1 and np.array_equal(trained[0].gradient, trained[1].gradient)
    expect(
        not same,
        "All ranks find the same gradient: each works on the whole batch, not on its part.",
    )
    by_rank = "The losses of the ranks: [rank][step]"
    one = "all ranks note the loss of the global batch; the loss on a rank is that of its own part"
    expect.equal([seen.losses for seen in trained], [losses] * ranks, by_rank, because=one)
    first = "The loss of the first step, before any update, against one process"
    summed = {"this is the sum of the ranks' losses, not their mean": alone[0] * ranks}
    mean = "it should be the mean of the losses of all ranks' parts"
    expect.close(losses[0], alone[0], first, slips=summed, because=mean)
    after = "The loss after one update, against one process"
    suspects = (
        "look at three things: is the average before the update, is the rate as it was, and is"
        " `backward()` called on the mean loss of the rank's own part?"
    )
    expect.close(losses[1], alone[1], after, because=suspects)
    cleared = "are the gradients of the step before cleared?"
    expect.close(
        losses[2], alone[2], "The loss after two updates, against one process", because=cleared
    )
    expect.close(losses, alone, "The loss of every step against one process", rtol=1e-3)
    for rank in range(ranks):
        what = f"At the end, rank {rank}'s weights against rank 0's"
        expect.equal(trained[rank].weights, trained[0].weights, what)
    in_groups_of_one = launch.run(
        watched_alone, train, average_gradients, ranks=ranks, timeout=patience, rate=0.0
    )
    fewer = "Where comm is a group of 1 rank, the loss of the first step"
    size = "is something divided by a number of ranks other than comm.size?"
    expect.close(in_groups_of_one[0].losses[0], alone[0], fewer, because=size)
    moves = "With rate=0.0 the weights still move: the update has to use `rate`."
    expect(not in_groups_of_one[0].moved, moves)


def expect_step(seen: Seen, steps: int, part: int) -> None:
    """Each part of a step is there, in its place. part: images of a rank in a step."""
    times = (
        f"`average(comm, net)` was called {seen.averages} times in {steps} steps, not once in each."
    )
    expect(seen.averages == steps, times)
    later = "Either `backward()` comes later, or `zero_grad()` clears them after it."
    expect(not seen.missing, f"When `average` is called there are no gradients. {later}")
    twice = f"{seen.images[0]} images go through each rank's net in a step, not its part of {part}."
    expect(all(images == part for images in seen.images), twice)
    expect(seen.moved, "The weights never move: `optimizer.step()` is missing.")
    expect.equal(len(seen.losses), steps, "Losses, one for each step")
    tensors = any(torch.is_tensor(loss) for loss in seen.losses)
    expect(not tensors, "`losses` holds tensors: `loss.item()` is the number.")
    arrays = [np.shape(loss) for loss in seen.losses if np.ndim(loss)]
    shape = f"`losses` holds arrays of shape {arrays[0]}, not numbers." if arrays else ""
    expect(not arrays, shape)


class Started(NamedTuple):
    """A rank's weights by name, flat: its own at first, and those after `start_equal`."""

    own: dict[str, np.ndarray]
    after: dict[str, np.ndarray]


def started(comm, start_equal: Callable) -> Started:
    """What start_equal(comm, net) makes of nets whose weights and biases differ from rank to
    rank."""
    net = nets.torch_digits(nets.start_weights(seed=comm.rank)).to(world.device())
    with torch.no_grad():
        for weight in net.parameters():
            weight += 0.1 * (comm.rank + 1)  # biases differ, too; and no seed draws rank 0's
    own = by_name(net)
    log = CallLog(comm)
    start_equal(log, net)
    log.expect_waited()
    for name, weight in net.named_parameters():
        what = f"{counted(comm.size, 'rank')}, rank {comm.rank}: {name}"
        expect_float32(weight, f"{what} is now")
        expect(weight.requires_grad, f"{what} no longer takes a gradient (`requires_grad`).")
    return Started(own, by_name(net))


def expect_float32(tensor, what: str) -> None:
    dtype = str(tensor.dtype).removeprefix("torch.")
    expect(dtype == "float32", f"{what} {dtype}, while the network computes in float32.")


def expect_average(comm, average: Callable) -> list[list[str]]:
    """Fail unless average(comm, net) leaves the mean in all gradients of nets of six and of ten.

    Returns the calls of MPI it made for each net.
    """
    calls = []
    for net, of_net in ((nets.torch_digits(), ""), (nets.torch_conv(), " of a convolutional net")):
        log = CallLog(comm)
        expect_mean(log, net.to(world.device()), of_net, average)
        calls.append(log.calls)
    return calls


def expect_mean(log: CallLog, net, of_net: str, average: Callable) -> None:
    """Fail unless average(log, net) leaves the mean in all gradients of the net. of_net: which
    net, for messages."""
    comm = log.comm
    for weight in net.parameters():
        draw = torch.Generator().manual_seed(comm.rank)
        weight.grad = torch.rand(weight.shape, generator=draw).to(weight)
    own = {name: flat(weight.grad) for name, weight in net.named_parameters()}
    before = by_name(net)
    ranks = counted(comm.size, "rank")
    average(log, net)
    log.expect_waited()
    for name, weight in net.named_parameters():
        expect.unchanged(before[name], flat(weight), f"{ranks}: the weight {name} itself")
        total = sum(comm.allgather(own[name]))
        what = f"{ranks}, rank {comm.rank}, gradient of {name}{of_net}"
        expect(weight.grad is not None, f"{what}: there is none after the call.")
        factor = flat(weight.grad).sum() / total.sum()
        slips = {
            "this is the sum, not the mean": total,
            "this is the mean times one factor: divide the sum by comm.size, once": factor * total,
            f"the gradient of {name} is still this rank's own": own[name],
            "this is the rank's own gradient, divided by comm.size": own[name] / comm.size,
        }
        expect.close(flat(weight.grad), total / comm.size, what, slips=slips)
        expect_float32(weight.grad, f"{what} is right, but")


class Seen(NamedTuple):
    """A training on a rank, and what was seen whenever the gradients were about to be averaged.

    losses: of every step, as the learner's function returns them. weights: at the end, flat.
    averages: calls of average. missing: of these, how often there were no gradients. images: images
    that went through the net between two calls. moved: have the weights moved since the start, at
    the second call? gradient: the flat gradient at the first call.
    """

    losses: list
    weights: np.ndarray
    averages: int
    missing: int
    images: list[int]
    moved: bool
    gradient: np.ndarray


def watched(comm, train: Callable, average: Callable, **options) -> Seen:
    """train(comm, average=…, **options), watched. `average` is called as the learner's function
    calls it."""
    images: list[int] = []
    through = [0]
    missing = [0]
    gradients: list[np.ndarray] = []
    weights_seen: list[np.ndarray] = []

    def count_images(net, inputs) -> None:
        through[0] += len(inputs[0])

    def watch(comm, net) -> None:
        if not weights_seen:
            net.register_forward_pre_hook(count_images)
        else:
            images.append(through[0])
        through[0] = 0
        weights_seen.append(flat(*net.parameters()))
        if any(weight.grad is None for weight in net.parameters()):
            missing[0] += 1
            return
        if not gradients:
            gradients.append(flat(*(weight.grad for weight in net.parameters())))
        average(comm, net)

    losses, weights = train(comm, average=watch, **options)
    moved = len(weights_seen) < 2 or not np.array_equal(*weights_seen[:2])
    gradient = gradients[0] if gradients else np.zeros(0, np.float32)
    return Seen(losses, weights, len(weights_seen), missing[0], images, moved, gradient)


def watched_alone(comm, train: Callable, average: Callable, **options) -> Seen:
    """The same, where every rank is a group of its own."""
    return watched(comm.Split(comm.rank), train, average, **options)


def by_name(net) -> dict[str, np.ndarray]:
    return {name: flat(weight) for name, weight in net.named_parameters()}


def flat(*tensors) -> np.ndarray:
    """The numbers of tensors in one array, copied."""
    return np.concatenate([tensor.detach().cpu().numpy().ravel() for tensor in tensors])


def show_runs(runs: dict[str, list], alone: list, net, dataset: str) -> dict[str, list[float]]:
    """Print and record a row for each of {name: what `train` returned on each rank}.

    alone: the losses of one process. net: takes the weights. Returns {name: percent of the test
    images that each rank's net gets right}.
    """
    images, labels = (torch.tensor(part, device=world.device()) for part in data.load(dataset)[2:])
    right = {}
    wide = max(18, *(4 * len(ranks_of) - 2 for ranks_of in runs.values()))  # "95, " for each rank
    print(f"{'':>17}  {'test images right,':>{wide}}  weights  first step that differs")
    print(f"{'':>17}  {'by rank (%)':>{wide}}    apart  from one process")
    for name, ranks_of in runs.items():
        percents = []
        for _, weights in ranks_of:
            vector_to_parameters(torch.tensor(weights, device=world.device()), net.parameters())
            hits = net(images).argmax(dim=1) == labels
            percents.append(100 * hits.float().mean().item())
        right[name] = percents
        apart = float(max(np.linalg.norm(weights - ranks_of[0][1]) for _, weights in ranks_of))
        losses = ranks_of[0][0]
        off = [step for step, loss in enumerate(losses) if abs(loss - alone[step]) > 1e-3]
        by_rank = ", ".join(f"{percent:.0f}" for percent in percents)
        print(f"{name:>17}  {by_rank:>{wide}}  {apart:>7.2f}  {off[0] if off else 'never'}")
        ranks = len(ranks_of)
        record.add("broken", unit="%", way=name, ranks=ranks, right=percents, apart=apart)
    return right


def show_steps(times: dict[int, dict], batch: int) -> dict[str, float]:
    """Plot, print and record {ranks: what step_times returned}. Returns {net: how many times as
    fast two ranks are as one}."""
    gains = {}
    for net in times[1]:
        bars = {}
        lines = []
        for size in sorted(times):
            parts = times[size][net]
            bars[f"p = {size}"] = {part: 1e3 * timed.samples for part, timed in parts.items()}
            medians = {part: 1e3 * timed.median for part, timed in parts.items()}
            by_part = ", ".join(f"{part} {median:.2f} ms" for part, median in medians.items())
            lines.append(f"{net}, p = {size}: {by_part}")
            library = placement.through_numpy().fields()
            record.add("step", unit="ms", net=net, ranks=size, **medians, **library)
        plots.bars(bars, title=f"A step of {net}, {batch} images", name=f"step {net}")
        print(*lines, sep="\n")
        one, two = (
            sum(part.median for part in times[size][net].values())
            for size in (1, min(2, max(times)))
        )
        gains[net] = one / two
    return gains


def step_times(comm, share: Callable, average: Callable, batch: int) -> dict[str, dict]:
    """{net: {"compute": Measurement, "average": Measurement}} of one step on the ranks of comm.

    Nets: lab 10's on the digits, and `nets.torch_conv` on random pictures of 3 x 32 x 32.
    share(rows, rank, size), average(comm, net): the learner's. batch: images of all ranks together.
    """
    device = world.device()
    rows = np.asarray(share(np.arange(batch), comm.rank, comm.size))
    digits, labels, *_ = data.digits()
    pictures = np.random.default_rng(0).standard_normal((batch, 3, 32, 32), np.float32)
    cases = {
        "the digits' net": (nets.torch_digits(), digits[:batch]),
        "a convolutional net": (nets.torch_conv(), pictures),
    }
    classes = torch.tensor(labels[:batch][rows], device=device)
    times: dict[str, dict] = {}
    for name, (net, images) in cases.items():
        net = net.to(device)
        own = torch.tensor(images[rows], device=device)

        def compute(net=net, own=own) -> None:
            torch.nn.functional.cross_entropy(net(own), classes).backward()

        def exchange(net=net) -> None:
            average(comm, net)

        calls = {"compute": compute, "average": exchange}
        times[name] = timing.in_turns(calls, comm=comm, device=device, seconds=2.0)
    return times


def workload_speeds(comm, average: Callable, name: str) -> dict[str, workloads.Speed]:
    """{way: speed} of a training step of a workload on each rank, averaged by average(comm, net),
    and without."""
    load = workloads.load(name, placement.take_device(), contiguous=True, comm=comm)
    optimizer = torch.optim.SGD(load.net.parameters(), lr=0.01)

    def step(exchange: bool) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(load.net(load.inputs), load.labels).backward()
        if exchange:
            average(comm, load.net)
        optimizer.step()

    steps = {"averaged": partial(step, True), "no exchange": partial(step, False)}
    return load.speeds(steps, comm=comm, control="no exchange")
