"""What a collective sends with: the messages of one call, apart from the program's and from other calls'."""

from __future__ import annotations

import numpy as np

from labkit.virtual import blocks
from labkit.virtual.matching import Call
from labkit.virtual.reductions import Operation


class Wire:
    """comm: a communicator in the context of its collectives. call: which of them; its number is the tag."""

    commutes = True  # may an algorithm change the order of ranks, where the operation allows it?

    def __init__(self, comm, call: Call):
        self.comm, self.call, self.tag = comm, call, call.number
        self.rank, self.size = comm.rank, comm.size


class Arrays(Wire):
    """Values are flat arrays. Reductions take the machine's γ per byte, of a Vector per byte it counts as."""

    def send(self, value: np.ndarray, dest: int) -> None:
        self.comm.Send(value, dest, self.tag)

    def recv(self, into: np.ndarray, source: int) -> np.ndarray:
        self.comm.Recv(into, source, self.tag)
        return into

    def recv_part(self, held: np.ndarray, begin: int, end: int, source: int) -> None:
        self.comm.Recv(held[begin:end], source, self.tag)

    def as_sent(self, value: np.ndarray, root: int) -> np.ndarray:
        """What came from `root`: when it is passed on it counts as much as there, where that is a Vector."""
        return blocks.like(value, self.call.values[root])

    def swap(self, value: np.ndarray, dest: int, into: np.ndarray, source: int) -> np.ndarray:
        self.comm.Sendrecv(value, dest, self.tag, into, source, self.tag)
        return into

    def swap_into(self, parts, place: int, value: np.ndarray, dest: int, source: int) -> None:
        """Send `value`, receive parts[place]."""
        self.comm.Sendrecv(value, dest, self.tag, parts[place], source, self.tag)

    def fold(self, op: Operation, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
        """left op right, into `out`, in virtual time."""
        lane = self.comm._lane
        op.on_arrays(np.asarray(left), np.asarray(right), np.asarray(out))
        gamma = lane.engine.gamma
        if gamma:
            lane.spend(self.bytes(out) * gamma, "reduce")
        return out

    def room(self, like: np.ndarray, count: int | None = None) -> np.ndarray:
        return blocks.room(like, count)

    def bytes(self, value: np.ndarray) -> float:
        return value.nbytes * getattr(value, "scale", 1)


class Objects(Wire):
    """Values are objects, pickled on their way. They are combined in order of rank: lists add up in order."""

    commutes = False

    def send(self, value: object, dest: int) -> None:
        self.comm.send(value, dest, self.tag)

    def recv(self, into: object, source: int) -> object:
        return self.comm.recv(None, source, self.tag)

    def recv_part(self, held: list, begin: int, end: int, source: int) -> None:
        held[begin:end] = self.comm.recv(None, source, self.tag)

    def as_sent(self, value: object, root: int) -> object:
        return value

    def swap(self, value: object, dest: int, into: object, source: int) -> object:
        return self.comm.sendrecv(value, dest, self.tag, None, source, self.tag)

    def swap_into(self, parts: list, place: int, value: object, dest: int, source: int) -> None:
        parts[place] = self.comm.sendrecv(value, dest, self.tag, None, source, self.tag)

    def fold(self, op: Operation, left: object, right: object, out: object) -> object:
        return op.function(left, right)

    def room(self, like: object, count: int | None = None) -> object:
        return None if count is None else [None] * count
