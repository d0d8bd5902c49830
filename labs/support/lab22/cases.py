"""What the benchmarks of lab 22 are tried on: a virtual communicator that is interrupted now and then."""

from __future__ import annotations

PAUSE = 1e-3  # seconds that an interruption takes


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
