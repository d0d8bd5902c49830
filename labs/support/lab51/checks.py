"""What lab 51's answers are tried on: virtual ranks that are late, real ranks under Gloo, gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from labkit import check, expect, launch, virtual
from labkit.errors import NotHere
from labkit.timing import human

from support.lab51 import backends

VALUES = 10**5  # float32 values of the vector that late ranks sum
CALLS, WARMUP = 12, 3  # what they are asked for


# ------------------------------------------------------------------------------------------ the benchmark


class LateRank:
    """A virtual rank with something to time, and a clock to time it by, that is late now and then.

    A call is a ring allreduce. The first WARMUP calls take 5 ms more, as while connections open, and each
    later one takes 20 µs more than the one before, so that no call stands for another. After a call that is
    timed, something else keeps rank r busy for r ms.
    """

    def __init__(self, comm):
        import torch

        self.comm = comm
        self.link = backends.over(comm)
        self.vector = torch.zeros(VALUES)
        self.calls = 0
        self.timed = False  # was the clock ever read
        self.busy = 0.0  # seconds of something else that are still to come

    def call(self) -> None:
        self.comm.compute(self.busy + (5e-3 if self.calls < WARMUP else self.calls * 2e-5))
        self.link.sum(self.vector)
        self.calls += 1
        self.busy = self.comm.rank * 1e-3 if self.timed else 0.0

    def clock(self) -> float:
        now = self.comm.Wtime()
        self.comm.compute(self.busy)
        self.busy = 0.0
        self.timed = True
        return now


class LateCalls(NamedTuple):
    """What time_calls did on a late rank: what it returned, its calls, and whether it read the clock."""

    seconds: list[float]
    calls: int
    timed: bool


def late_calls(time_calls: Callable, ranks: int) -> list[LateCalls]:
    """time_calls(link, call, CALLS, WARMUP, clock) on so many virtual ranks that are late; by rank."""
    return virtual.Cluster(ranks).run(_late_calls, time_calls).results


def _late_calls(comm, time_calls: Callable) -> LateCalls:
    rank = LateRank(comm)
    seconds = time_calls(rank.link, rank.call, CALLS, WARMUP, rank.clock)
    return LateCalls(seconds, rank.calls, rank.timed)


def punctual_seconds(ranks: int) -> np.ndarray:
    """Seconds of the CALLS calls after the warm-up on so many virtual ranks when nobody is late."""
    ring = virtual.Cluster(ranks).run(_ring).time
    return ring + np.arange(WARMUP, WARMUP + CALLS) * 2e-5


def _ring(comm) -> None:
    import torch

    backends.over(comm).sum(torch.zeros(VALUES))


# ---------------------------------------------------------------------------------- how PyTorch's ranks meet


class Met(NamedTuple):
    """What a rank of torch.distributed says."""

    place: tuple[int, int]  # its rank in the group, and the group's size
    total: float  # over all ranks, of rank + 1


def met(meeting: Callable) -> list[Met]:
    """By rank, what real ranks say who meet by meeting(comm, host, port), by Gloo: the launcher's, else 3."""
    name = "torch-gloo"
    ranks = launch.ranks_here(3)
    results, why_not = backends.each([name], _met, ranks=ranks, timeout=60, meeting=meeting)
    if why_not:
        raise NotHere(f"{name} cannot run: {why_not[name]}.")
    return results[name]


def _met(link) -> Met:
    import torch.distributed as dist

    number = link.vector(1) + link.rank + 1
    link.sum(number)
    return Met((dist.get_rank(), dist.get_world_size()), number.item())


# ------------------------------------------------------------------------------------ gradients in buckets

GRADIENTS = np.arange(33.0)  # of rank 0, one behind the other; rank r has r + 1 times as much


def exchanged(exchange: Callable, ranks: int, plan: Sequence[Sequence[str]]) -> virtual.Run:
    """A run of exchange(link, gradients, plan) on virtual ranks; its results: the gradients afterwards.

    Gradients: "conv" (3, 5), "bn" (4,), "fc" (7, 2), together GRADIENTS times rank + 1.
    """
    return virtual.Cluster(ranks).run(_exchanged, exchange, plan)


def _exchanged(comm, exchange: Callable, plan: Sequence[Sequence[str]]) -> np.ndarray:
    import torch

    values = torch.tensor(GRADIENTS, dtype=torch.float32) * (comm.rank + 1)
    conv, bn, fc = values.split([15, 4, 14])  # views: what is written into them is in `values`
    exchange(backends.over(comm), {"conv": conv.view(3, 5), "bn": bn, "fc": fc.view(7, 2)}, plan)
    return values.numpy()


fast = (0.9, 1.0, 1.1)


slow = (1.8, 2.0, 2.1)


sharp = (0.98, 1.0, 1.01)


leads = [
    {"x": slow, "y": fast},
    {"x": (1.12, 1.13, 1.2), "y": fast},
    {"x": (1.105, 1.11, 1.12), "y": sharp},
    {"x": (1.05, 1.2, 1.3), "y": sharp},  # x's median counts, not its q1
    {"x": (2.0e-5, 2.1e-5, 2.2e-5), "y": (0.9e-5, 1.0e-5, 1.1e-5)},  # some µs
    {"y": fast},
]


close = [
    {"x": (1.05, 1.3, 1.6), "y": fast},  # not by the spread
    {"x": (1.05, 1.05, 1.06), "y": sharp},  # not by the medians
    {"x": (1.085, 1.09, 1.1), "y": sharp},  # not by the medians, either
    {"x": (1.05, 1.08, 1.2), "y": sharp},  # x's median counts, not its q3
    {"x": (1.12, 1.13, 1.2), "y": fast, "z": (1.0, 3.0, 4.0)},  # not before z
    {"x": fast, "y": fast},  # the same
]


def expect_calls(time_calls, p):
    """`calls` values by `clock`: of calls that all begin together, without the warm-up."""
    case = f"{p} virtual ranks, calls=12, warmup=3:"
    # A warm-up call takes 5 ms more; between calls rank r is busy for r ms.
    tried = late_calls(time_calls, p)
    got = [rank.seconds for rank in tried]
    lists = all(np.ndim(seconds) == 1 for seconds in got)
    expect(lists, f"{case} time_calls returns a {type(got[0]).__name__}, not a list of 12 values, seconds.")
    timed = all(rank.timed for rank in tried)
    expect(timed, f"{case} no rank's `clock` was called: read the clock that time_calls is given.")
    expect.equal([len(seconds) for seconds in got], [12] * p, f"{case} the number of values by rank")
    want = punctual_seconds(p)
    longest = np.max(got)
    warm = longest < want[-1] + 4.5e-3
    expect(warm, f"{case} a warm-up call, 5 ms longer, is among your values.")
    expect.equal([rank.calls for rank in tried], [15] * p, f"{case} calls made, by rank")
    times = f"the longest call takes {human(want[-1])}; you say {human(longest)}"
    cure = "In it a rank waits for one that is late: first the barrier, then the clock."
    expect(longest < want[-1] + 5e-4, f"{case} {times}. {cure}")
    every = np.tile(want, (p, 1))  # [rank, call]
    expect.close(got, every, f"{case} seconds of each call, with no barrier after it", rtol=2e-3)


@check.exercise("51.1")
def check_time_calls(time_calls):
    """Each call from the barrier to its end, without the warm-up."""
    for p in (2, 3, 4):
        expect_calls(time_calls, p)


@check.exercise("51.2")
def check_meeting(meeting):
    """Rank 0's address and each rank's own numbers, as text. PyTorch's ranks find each other by it."""
    for p in (1, 2, 3, 5):  # virtual ranks, two on each node, each with a host and a port of its own
        hosts = [f"node{rank // 2}" for rank in range(p)]
        ports = [40000 + rank for rank in range(p)]
        run = virtual.Cluster(p).run(meeting, virtual.by_rank(hosts), virtual.by_rank(ports))
        for rank, got in enumerate(run.results):
            want = {"MASTER_ADDR": "node0", "MASTER_PORT": "40000"}
            want |= {"RANK": str(rank), "WORLD_SIZE": str(p)}
            place = f"rank {rank} at {hosts[rank]}:{ports[rank]}"
            expect.equal(got, want, f"{p} ranks, two a node; {place}: variables")
    # Then Gloo on 3 real ranks, or the launcher's.
    reports = met(meeting)
    p = len(reports)
    for rank, (place, total) in enumerate(reports):
        expect.equal(place, (rank, p), f"rank {rank}: its rank in PyTorch's group, and the group's size")
        expect.close(total, p * (p + 1) / 2, f"rank {rank}: the sum of 1 to {p}, a number of each rank")


def expect_exchange(exchange, p, plan):
    """The sums are where the gradients were, by one ring for each bucket."""
    run = exchanged(exchange, p, plan)
    for rank, got in enumerate(run.results):
        want = GRADIENTS * sum(range(1, p + 1))
        slips = {
            "gradients are as they were. Copy the sums back into them": GRADIENTS * (rank + 1),
            "that is the mean": want / p,
        }
        expect.close(got, want, f"{p} ranks: on rank {rank} the sum, in the gradients' places", slips=slips)
    run.expect_messages(exactly=2 * (p - 1) * len(plan), named=f"a ring for each of {len(plan)} buckets")


@check.exercise("51.3")
def check_exchange(exchange):
    """Sums over all ranks in the gradients' own places, by one call of the link for each bucket."""
    expect_exchange(exchange, 1, [["fc", "bn", "conv"]])
    expect_exchange(exchange, 2, [["fc"], ["bn", "conv"]])
    expect_exchange(exchange, 3, [["fc", "bn"], ["conv"]])


@check.exercise("51.4")
def check_best(best):
    """The answer is y where it leads every other clearly; else "either"."""
    for row in leads:
        expect.equal(best(row), "y", f"best({row})")
    for row in close:
        expect.equal(best(row), "either", f"best({row})")
