"""A virtual machine whose messages move in calls of MPI alone, as of an MPI without a thread of its own.

The sum is lab 23's ring: 2(p - 1) rounds, in each of which a rank sends a chunk to the right and receives one
from the left. The bytes of a round travel by themselves. But the next round begins only when the rank is in
a call of MPI that finds the round before it over: in Test, once, or in Wait, until the sum is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from labkit import virtual

ROUND_MS = 10  # milliseconds of a round
_VALUES = 1000  # float32 values of a chunk


class Sum:
    """A sum under way, of all ranks' `own` into `total`. Test and Wait as of mpi4py's requests.

    tests, waits: calls so far. over: has a call seen its end?
    """

    def __init__(self, comm, own: np.ndarray, total: np.ndarray, tag: int):
        self.tests = 0
        self.waits = 0
        self.over = comm.size == 1
        self._comm = comm
        self._tag = tag
        self._round = 0
        total[...] = own
        self._chunks = np.array_split(total, comm.size)
        if not self.over:
            self._begin()

    def Test(self) -> bool:
        """Is it over? Begins the next round if this one is; never waits."""
        self.tests += 1
        if not self.over and self._received.Test():
            self._end()
        return self.over

    def Wait(self) -> bool:
        """Goes on until it is over."""
        self.waits += 1
        while not self.over:
            self._received.Wait()
            self._end()
        return True

    def _begin(self) -> None:
        """Round 0 to p - 2 add up the chunk that comes, the rounds after them pass it on."""
        comm = self._comm
        p = comm.size
        first = self._chunks[(comm.rank - self._round) % p]
        self._into = self._chunks[(comm.rank - self._round - 1) % p]
        if self._round >= p - 1:
            first = self._chunks[(comm.rank + 1 - (self._round - p + 1)) % p]
            self._into = self._chunks[(comm.rank - (self._round - p + 1)) % p]
        self._box = np.empty_like(self._into)
        self._sent = comm.Isend(first, (comm.rank + 1) % p, self._tag)
        self._received = comm.Irecv(self._box, (comm.rank - 1) % p, self._tag)

    def _end(self) -> None:
        self._sent.Wait()
        if self._round < self._comm.size - 1:
            self._into += self._box
        else:
            self._into[...] = self._box
        self._round += 1
        self.over = self._round == 2 * (self._comm.size - 1)
        if not self.over:
            self._begin()


class CallsOnly:
    """A communicator of virtual ranks whose Iallreduce is a `Sum`."""

    def __init__(self, comm):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self._begun = 0

    def Iallreduce(self, own: np.ndarray, total: np.ndarray) -> Sum:
        """Begins the sum of all ranks' own, in total."""
        self._begun += 1
        return Sum(self.comm, own, total, self._begun)

    def compute(self, seconds: float) -> None:
        """Let `seconds` of work pass on this rank: no call of MPI."""
        self.comm.compute(seconds)


def step(comm, move: Callable, layers: int, layer_ms: float) -> tuple[float, np.ndarray]:
    """Begin a sum, compute `layers` layers, with move([request]) after each, and wait.

    Returns (milliseconds of all that, the sum).
    """
    ranks = CallsOnly(comm)
    own = np.full(comm.size * _VALUES, comm.rank + 1, np.float32)
    total = np.empty_like(own)
    request = ranks.Iallreduce(own, total)
    for _ in range(layers):
        ranks.compute(1e-3 * layer_ms)
        move([request])
    request.Wait()
    return 1e3 * comm.Wtime(), total


def machine() -> virtual.Machine:
    """No latency, and links over which a chunk takes ROUND_MS."""
    return virtual.ideal(alpha=0, bandwidth=4 * _VALUES / (1e-3 * ROUND_MS))


def timed(move: Callable[[Sequence[Sum]], object], layers: int, layer_ms: float, ranks: int = 4) -> float:
    """Milliseconds of such a step on virtual ranks, of the slowest."""
    run = virtual.Cluster(ranks, machine=machine()).run(step, move, layers, layer_ms)
    return max(milliseconds for milliseconds, _ in run.results)
