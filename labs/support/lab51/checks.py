"""Lab 51's programs on virtual ranks that are late, and on plans that are wrong: what its checks expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from labkit import launch, virtual
from labkit.checks import expect
from labkit.errors import NotHere
from labkit.timing import human

from support.lab51 import backends


def late_calls(comm, time_calls: Callable, values: int = 10**5) -> tuple[list[float], int, bool]:
    """time_calls(link, call, 12, 3, clock) on a virtual rank: what it returns, its calls, was clock() called.

    A call is a ring allreduce of float32 `values`. The first three take 5 ms more, as while connections
    open, and each later one takes 20 µs more than the one before, so that no call stands for another.
    After a call that is timed something else keeps rank r busy for r ms.
    """
    import torch

    link, vector = backends.over(comm), torch.zeros(values)
    made, timed, busy = 0, False, 0.0  # calls so far; was the clock ever read; seconds that are to come

    def call() -> None:
        nonlocal made, busy
        comm.compute(busy + (5e-3 if made < 3 else made * 2e-5))
        link.sum(vector)
        made, busy = made + 1, comm.rank * 1e-3 if timed else 0.0

    def clock() -> float:
        nonlocal timed, busy
        now = comm.Wtime()
        comm.compute(busy)
        timed, busy = True, 0.0
        return now

    return time_calls(link, call, 12, 3, clock), made, timed


def expect_calls(time_calls: Callable, ranks: int) -> None:
    """Expect time_calls(link, call, calls, warmup, clock) to time late_calls' calls, and nothing else."""
    who = f"{ranks} virtual ranks, calls=12, warmup=3:"
    run = virtual.Cluster(ranks).run(late_calls, time_calls)
    got, made, timed = zip(*run.results, strict=True)
    what = f"{who} time_calls returns a {type(got[0]).__name__}, not a list of 12 values, seconds."
    expect(all(np.ndim(one) == 1 for one in got), what)
    expect(all(timed), f"{who} no rank's `clock` was called: read the clock that time_calls is given.")
    expect.equal([len(one) for one in got], [12] * ranks, f"{who} the number of values by rank")
    want = ring_seconds(ranks) + np.arange(3, 15) * 2e-5
    longest, most = np.max(got), want[-1]
    expect(longest < most + 4.5e-3, f"{who} a warm-up call, 5 ms longer, is among your values.")
    expect.equal(made, (15,) * ranks, f"{who} calls made, by rank")
    cure = "In it a rank waits for one that is late: first the barrier, then the clock."
    text = f"the longest call takes {human(most)}; you say {human(longest)}. {cure}"
    expect(longest < most + 5e-4, f"{who} {text}")
    what = f"{who} seconds of each call, with no barrier after it"
    expect.close(got, np.tile(want, (ranks, 1)), what, rtol=2e-3)


def ring_seconds(ranks: int, values: int = 10**5) -> float:
    """What a call of late_calls takes on so many virtual ranks when nobody is late."""
    import torch

    return virtual.Cluster(ranks).run(lambda comm: backends.over(comm).sum(torch.zeros(values))).time


def expect_meeting(meeting: Callable, ranks: int) -> None:
    """Expect meeting(comm, host, port) to give each rank rank 0's host and port and its own numbers, as text.

    Two ranks share a host, node0, node1, …; each has a port of its own.
    """
    hosts, ports = [f"node{rank // 2}" for rank in range(ranks)], [40000 + rank for rank in range(ranks)]
    run = virtual.Cluster(ranks).run(meeting, virtual.by_rank(hosts), virtual.by_rank(ports))
    for rank, got in enumerate(run.results):
        want = {"MASTER_ADDR": "node0", "MASTER_PORT": "40000"}
        want |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        who = f"{ranks} ranks, two a node; rank {rank} at {hosts[rank]}:{ports[rank]}: variables"
        expect.equal(got, want, who)


def averaged(link, mean: Callable) -> tuple[tuple[int, int], float, float]:
    """(rank and size of torch.distributed's group), and one value of two tensors after mean(tensor).

    The first held (rank + 1)^2 in float32, the second 60000 in float16.
    """
    import torch
    import torch.distributed as dist

    small, half = torch.full((2, 3), (1.0 + link.rank) ** 2), torch.full((5,), 60000.0, dtype=torch.float16)
    mean(small)
    mean(half)
    return (dist.get_rank(), dist.get_world_size()), small[1, 2].item(), half[4].item()


def expect_mean(mean: Callable, meeting: Callable) -> None:
    """Expect mean(tensor) to make the mean, where ranks meet by meeting(comm, host, port).

    On real ranks, by Gloo: the launcher's, else 3, since with 2 a division by 2 would do.
    """
    ranks, name = launch.ranks_here(3), "torch-gloo"
    found, why_not = backends.each([name], averaged, mean, ranks=ranks, timeout=60, meeting=meeting)
    if why_not:
        raise NotHere(f"{name} cannot run: {why_not[name]}.")
    by_rank = found[name]
    squares = [(rank + 1) ** 2 for rank in range(ranks)]
    for rank, (place, small, half) in enumerate(by_rank):
        expect.equal(place, (rank, ranks), f"rank {rank}: its rank in the group, and the group's size")
        expect(ranks == 1 or small != sum(squares), f"rank {rank}: the sum, not the mean.")
        expect(ranks == 1 or small != squares[rank], f"rank {rank}: `tensor` is as it was. Work in place.")
        expect.close(small, sum(squares) / ranks, f"rank {rank}: the mean of {squares}")
        expect.close(half, 60000, f"rank {rank}: the mean of {ranks} times 60000, in float16", rtol=1e-2)


def expect_exchange(exchange: Callable, ranks: int, plan: Sequence[Sequence[str]]) -> None:
    """Expect exchange(link, gradients, plan) to sum every gradient in place, by one link.sum a bucket."""
    run = virtual.Cluster(ranks).run(exchanged, exchange, plan)
    own = any(np.array_equal(got, np.arange(33) * (rank + 1)) for rank, got in enumerate(run.results))
    text = "gradients are as they were. Copy the sums back into them."
    expect(ranks == 1 or not own, f"{ranks} ranks: {text}")
    want = np.arange(33) * ranks * (ranks + 1) / 2
    run.expect_results(want, what="the sum, in the gradients' places,")
    run.expect_messages(exactly=2 * (ranks - 1) * len(plan), named=f"a ring for each of {len(plan)} buckets")


def exchanged(comm, exchange: Callable, plan: Sequence[Sequence[str]]):
    """The 33 values of the gradients "conv" (3, 5), "bn" (4,), "fc" (7, 2) after exchange(link, …, plan).

    Before, they are 0, 1, 2, … in this order, times rank + 1.
    """
    import torch

    values = torch.arange(33.0) * (comm.rank + 1)
    conv, bn, fc = values.split([15, 4, 14])  # views: what is written into them is in `values`
    exchange(backends.over(comm), {"conv": conv.view(3, 5), "bn": bn, "fc": fc.view(7, 2)}, plan)
    return values.numpy()


def expect_plan(buckets: Callable, sizes: Mapping[str, int], limit: int) -> None:
    """Expect buckets(sizes, limit) to lose nothing, keep backward's order and the limit, waste no room."""
    what = dict(sizes) if len(sizes) < 9 else f"{len(sizes)} layers from {next(iter(sizes))} on"
    plan, who = buckets(dict(sizes), limit), f"buckets of {what}, limit={limit}:"
    expect(isinstance(plan, list), f"{who} expected a list of lists, got {type(plan).__name__}.")
    order = [layer for layers in plan for layer in layers]
    expect.equal(sorted(order), sorted(sizes), f"{who} the layers in all buckets, each once")
    expect.equal(order, list(sizes)[::-1], f"{who} the order in which backward has them, last layer first")
    expect(all(plan), f"{who} there is an empty bucket.")
    full = [sum(sizes[layer] for layer in layers) for layers in plan]
    for filled, layers in zip(full, plan, strict=True):
        text = f"{len(layers)} layers, {layers[0]} first, with {filled} bytes: over the limit."
        expect(filled <= limit or len(layers) == 1, f"{who} a bucket has {text}")
    for filled, layers in zip(full, plan[1:], strict=False):
        text = f"before {layers[0]} has {filled} bytes, so {sizes[layers[0]]} more have room there."
        expect(filled + sizes[layers[0]] > limit, f"{who} the bucket {text}")


def expect_columns(columns: Callable, ranks: int, count: int, width: int) -> None:
    """Expect columns(seconds, count, width) to know nccl-tests' conventions, on made-up times.

    Each call has another slowest rank, at 10 ms and 10 ms a rank; one call takes 1 s on rank 0.
    """
    took = 0.02 + 0.01 * ((np.arange(ranks)[:, None] + np.arange(9)) % ranks)
    took[0, 4] = 1.0
    want = count * width / (0.01 + 0.01 * ranks) / 1e9
    got = columns(took, count, width)
    expect(isinstance(got, tuple) and len(got) == 3, "columns returns three things: seconds, algbw, busbw.")
    slowest, algbw, busbw = got
    who = f"{ranks} ranks, {count} values of {width} bytes, calls of {0.01 + 0.01 * ranks:g} s:"
    expect.close(slowest, took.max(axis=0), f"{who} seconds of each call, until its slowest rank has it")
    expect(not np.isclose(algbw * width, want), f"{who} algbw {algbw:.3g} is of values, not of bytes.")
    expect.close(algbw, want, f"{who} algbw in GB/s, from the median of the calls")
    expect.close(busbw, want * 2 * (ranks - 1) / ranks, f"{who} busbw in GB/s")


def expect_which(which: Callable) -> None:
    """Expect which(bytes, table) to look at the nearest measured size, by ratio, and at none beyond."""
    fast, slow = (0.9, 1.0, 1.1), (1.8, 2.0, 2.1)
    table: dict = {"x": {4: fast, 1024: fast, 1 << 20: slow}, "y": {4: slow, 1024: slow, 1 << 20: fast}}
    table |= {"nccl": {}, "z": {1 << 20: (0.1, 0.1, 0.1), 1 << 24: fast}}
    asks = {2: "not measured", 4: "x", 20_000: "x", 40_000: "y", 1 << 20: "z", 1 << 23: "z"}
    for nbytes, want in (asks | {1 << 25: "not measured"}).items():
        expect.equal(which(nbytes, table), want, f"which({nbytes}, table) of {table}")
