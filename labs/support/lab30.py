"""The checks of lab 30, what they see of the learner's functions on a rank, and a step's two parts,
timed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from labkit import check, data, expect, launch, nets, placement, predict, timing, workloads, world
from labkit.counting import CallLog, on_every_size
from labkit.errors import counted


@check.exercise("30.1")
def equal_shares(my_share, batch, to_vector, new_net):
    """The parts are equal, they are of the batch's own rows, and each row is on exactly one
    rank."""
    rows = data.batches(1536, batch, epoch=0)[1]
    for size, images in ((1, batch), (2, batch), (4, batch), (8, batch), (3, 24)):
        given = rows[:images].copy()
        shares = [np.array(my_share(given, rank, size)) for rank in range(size)]
        ranks = counted(size, "rank")
        if images != batch:
            ranks += f" and a batch of {images} images"
        expect.unchanged(rows[:images], given, f"With {ranks}, the array `rows`")
        numbers = all(share.ndim == 1 and share.dtype.kind in "iu" for share in shares)
        expect(numbers, "`my_share` has to return image numbers: a list or an array of integers.")
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
    for rank, seen in enumerate(launch.run(started, start_equal, ranks=ranks, timeout=patience)):
        for name, weights in seen.after.items():
            slips = {"unchanged: it is what this rank drew itself": seen.own[name]}
            because = "it should be what rank 0 began with"
            expect.equal(
                weights, seen.of_rank_0[name], f"Rank {rank}: {name}", slips=slips, because=because
            )


@check.exercise("30.3")
def mean_by_one_call(average_gradients, ranks, patience):
    """On every number of ranks all gradients are their mean, after one call of MPI."""
    try_average = partial(expect_average, average=average_gradients)
    calls = launch.run(on_every_size, try_average, ranks=ranks, timeout=patience)[0]
    for size, names in calls.items():
        many = f"the mean is right, but it took {len(names)} calls of MPI. Use one vector for all."
        expect(len(names) <= 1, f"{counted(size, 'rank')}: {many}")
        pickled = (
            f"comm.{names[0]} pickles; the call for arrays is written with a capital."
            if names
            else ""
        )
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
    expect.close(losses[0], alone[0], first, slips=summed)
    after = "The loss after one update, against one process"
    suspects = "look at two things: is the average before the update, and is the rate as it was?"
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


class Started(NamedTuple):
    """A rank's weights by name, flat: its own at first, rank 0's at first, and those after
    `start_equal`."""

    own: dict[str, np.ndarray]
    of_rank_0: dict[str, np.ndarray]
    after: dict[str, np.ndarray]


def started(comm, start_equal: Callable) -> Started:
    """What start_equal(comm, net) makes of nets whose weights and biases differ from rank to
    rank."""
    net = nets.torch_digits(nets.start_weights(seed=comm.rank)).to(world.device())
    with torch.no_grad():
        for weight in net.parameters():
            weight += 0.1 * (comm.rank + 1)  # biases differ, too; and no seed draws rank 0's
    own = by_name(net)
    of_rank_0 = comm.bcast(own, root=0)
    start_equal(comm, net)
    return Started(own, of_rank_0, by_name(net))


def expect_average(comm, average: Callable) -> list[str]:
    """Fail unless average(comm, net) leaves the mean in all gradients. Returns the calls of MPI it
    made."""
    net = nets.torch_digits().to(world.device())
    for weight in net.parameters():
        draw = torch.Generator().manual_seed(comm.rank)
        weight.grad = torch.rand(weight.shape, generator=draw).to(weight)
    own = {name: flat(weight.grad) for name, weight in net.named_parameters()}
    before = by_name(net)
    log = CallLog(comm)
    ranks = counted(comm.size, "rank")
    average(log, net)
    for name, weight in net.named_parameters():
        total = sum(comm.allgather(own[name]))
        factor = flat(weight.grad).sum() / total.sum()
        slips = {
            "this is the sum, not the mean": total,
            "this is the mean times one factor: divide the sum by comm.size, once": factor * total,
            f"the gradient of {name} is still this rank's own": own[name],
        }
        what = f"{ranks}, rank {comm.rank}, gradient of {name}"
        expect.close(flat(weight.grad), total / comm.size, what, slips=slips)
        expect.unchanged(before[name], flat(weight), f"{ranks}: the weight {name} itself")
    return log.calls


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
    load = workloads.load(name, placement.take_device(), contiguous=True)
    optimizer = torch.optim.SGD(load.net.parameters(), lr=0.01)

    def step(exchange: bool) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(load.net(load.inputs), load.labels).backward()
        if exchange:
            average(comm, load.net)
        optimizer.step()

    steps = {"averaged": partial(step, True), "no exchange": partial(step, False)}
    return load.speeds(steps, comm=comm, control="no exchange")
