"""What lab 51's answers are tried on: virtual ranks that are late, real ranks under Gloo, gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from labkit import launch, virtual
from labkit.errors import NotHere

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
