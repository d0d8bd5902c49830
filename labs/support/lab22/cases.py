"""Communicators for the benchmarks of lab 22: one that is interrupted now and then, one with a single row."""

from __future__ import annotations

PAUSE = 1e-3  # seconds that an interruption takes


class OneRow:
    """A communicator of mpi4py's whose `Irecv`s all go into the buffer of the first, as in osu_bw.

    Requests that are under way then share a buffer. MPI does not allow that; the benchmark does it all the
    same, and what arrives is never read.
    """

    def __init__(self, comm):
        self.comm = comm
        self.row = None

    def __getattr__(self, name: str):
        return getattr(self.comm, name)

    def Irecv(self, buffer, *positional, **named):
        if self.row is None:
            self.row = buffer
        return self.comm.Irecv(self.row, *positional, **named)


class Interrupted:
    """A virtual communicator whose sends take 1 ms more: the `first` ones, and later every ninth."""

    def __init__(self, comm, first: int):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.first = first
        self.sent = 0

    def __getattr__(self, name: str):
        if name in ("Send", "Isend"):
            self.sent += 1
            if self.sent <= self.first or self.sent % 9 == 0:
                self.comm.compute(PAUSE)
        return getattr(self.comm, name)
