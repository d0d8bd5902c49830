"""What lab 51's answers are tried on: virtual ranks that are late, made-up times, real ranks under Gloo."""

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


def made_up_calls(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """(seconds: an array [rank, call], seconds until the slowest rank has each of the 9 calls).

    Each call has another slowest rank, at 10 ms and 10 ms a rank; one call takes 1 s, on rank 0.
    """
    seconds = 0.02 + 0.01 * ((np.arange(ranks)[:, None] + np.arange(9)) % ranks)
    seconds[0, 4] = 1.0
    slowest = np.full(9, 0.01 + 0.01 * ranks)
    slowest[4] = 1.0
    return seconds, slowest


# ---------------------------------------------------------------------------------- an adapter for PyTorch


class Averaged(NamedTuple):
    """What a rank has after mean(tensor) of two tensors: its place, and one value of each."""

    place: tuple[int, int]  # its rank in torch.distributed's group, and the group's size
    small: float  # of (rank + 1)^2 in float32
    half: float  # of 60000 in float16


def averaged(mean: Callable, meeting: Callable) -> list[Averaged]:
    """By rank, after mean(tensor) on real ranks that meet by meeting(comm, host, port), by Gloo.

    The launcher's ranks, else 3, since with 2 a division by 2 would do.
    """
    name = "torch-gloo"
    results, why_not = backends.each(
        [name], _averaged, mean, ranks=launch.ranks_here(3), timeout=60, meeting=meeting
    )
    if why_not:
        raise NotHere(f"{name} cannot run: {why_not[name]}.")
    return results[name]


def _averaged(link, mean: Callable) -> Averaged:
    import torch
    import torch.distributed as dist

    small = torch.full((2, 3), (1.0 + link.rank) ** 2)
    half = torch.full((5,), 60000.0, dtype=torch.float16)
    mean(small)
    mean(half)
    return Averaged((dist.get_rank(), dist.get_world_size()), small[1, 2].item(), half[4].item())


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
