"""The clocks of all ranks on that of rank 0: offsets estimated with MPI messages, and how wrong they can be.

Cristian's method: rank 0 asks, rank r answers with its time. The answer was written between question and
answer, so half the round trip bounds the error whatever the way of the messages; the shortest round trip of
many gives the best estimate (F. Cristian, Probabilistic clock synchronization, 1989).
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from labkit.errors import LabError

ROUNDS = 100  # questions to a rank
LONGEST = 0.1  # seconds for the questions to a rank


def offset(comm) -> tuple[float, float]:
    """(seconds this rank's clock is ahead of rank 0's, largest error of that); every rank calls it.

    comm: an mpi4py communicator.
    """
    if comm is None or comm.size == 1:
        return 0.0, 0.0
    if comm.rank != 0:
        _answer(comm)
        return tuple(comm.scatter(None, root=0))
    return tuple(comm.scatter([(0.0, 0.0), *(_ask(comm, rank) for rank in range(1, comm.size))], root=0))


def _ask(comm, rank: int) -> tuple[float, float]:
    best, ahead = float("inf"), 0.0
    theirs = np.zeros(1)
    go_on = np.ones(1)
    start = perf_counter()
    for turn in range(ROUNDS):
        go_on[0] = turn < ROUNDS - 1 and perf_counter() - start < LONGEST
        asked = perf_counter()
        comm.Send(go_on, rank)
        comm.Recv(theirs, rank)
        answered = perf_counter()
        if answered - asked < best:
            best, ahead = answered - asked, theirs[0] - (asked + answered) / 2
        if not go_on[0]:
            break
    return float(ahead), best / 2


def _answer(comm) -> None:
    go_on, now = np.ones(1), np.zeros(1)
    while go_on[0]:
        comm.Recv(go_on, 0)
        now[0] = perf_counter()
        comm.Send(now, 0)


# torch.distributed in the place of an mpi4py communicator, as far as a recording needs one.


def of(comm):
    """A group of the recording's own, so that its messages never meet those of the step; None for None."""
    if comm is None:
        return None
    return _Gloo(comm) if hasattr(comm, "all_gather_object") else comm.Dup()


class _Gloo:
    """All ranks of torch.distributed, over Gloo, whatever carries the messages of the step."""

    def __init__(self, dist):
        if not dist.is_initialized():
            raise LabError(
                "profiling.record: torch.distributed has no ranks yet; call init_process_group first."
            )
        self._dist, self._group = dist, dist.new_group(backend="gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def Barrier(self) -> None:
        self._dist.barrier(self._group)

    def Send(self, numbers, rank: int) -> None:
        self._dist.send(_tensor(numbers), rank, group=self._group)

    def Recv(self, numbers, rank: int) -> None:
        self._dist.recv(_tensor(numbers), rank, group=self._group)

    def allgather(self, one) -> list:
        everyone = [None] * self.size
        self._dist.all_gather_object(everyone, one, group=self._group)
        return everyone

    def scatter(self, everyone, root: int):
        mine = [None]
        self._dist.scatter_object_list(mine, everyone, src=root, group=self._group)
        return mine[0]

    def Free(self) -> None:
        self._dist.destroy_process_group(self._group)


def _tensor(numbers):
    import torch

    return torch.from_numpy(numbers)
