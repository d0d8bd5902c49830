"""Iallreduce, Ireduce, Ibcast, Ibarrier: collectives that go on while the program computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit.virtual import algorithms, blocks, explain, matching
from labkit.virtual.reductions import for_arrays
from labkit.virtual.requests import Request
from labkit.virtual.wire import Arrays


class CollectiveRequest(Request):
    """A collective under way: a clock of its own, the rank's ports; Wait joins the two clocks.

    The program's processor is not slowed: it is as if another core, or the network card, did the work. The
    array that is to be filled holds nothing useful before Wait.
    """

    def __init__(self, comm, entered: matching.Call, program: Callable, data=None, into=None):
        """program(wire) does it, on copies. data: must not change before Wait. into: the array to fill."""
        front = comm._sibling(comm._context)
        front._collective = entered
        super().__init__(front, entered.name, None)
        self._data = None if data is None else np.asarray(data)
        self._was = None if data is None else self._data.tobytes()
        self._buffer = None if into is None else np.asarray(into)
        self._until: float | None = None
        self._joins = None
        explain.poison(self._buffer)
        inner = comm._sibling(comm._context + 1)
        inner._collective, inner._mark, inner._pending = entered, self._mark, ()
        state, wire = comm._lane.state, Arrays(inner, entered)
        inner._lane = comm._lane.engine.start(state, lambda: program(wire), comm._lane.now, self._done)
        self._remember()

    def told(self) -> str:
        return self._call

    def _done(self, lane, result) -> None:
        self._until, self._value = lane.now, result
        if self._joins is not None:
            self._joins.wake(lane.now)

    def _when(self) -> float | None:
        return self._until

    def _watch(self, waiter) -> None:
        self._joins = waiter

    def _waits(self, call: str) -> tuple:
        return f"{call} of an {self._call}", self._comm, "with", None

    def _finish(self, status) -> None:
        lane = self._comm._lane
        if self._until is None:
            self._block(lane)
        lane.now = max(lane.now, self._until)
        if self._was is not None and self._data.tobytes() != self._was:
            explain.changed_before_wait(self)
        if self._buffer is not None:
            self._buffer[...] = np.asarray(self._value)
        if status is not None:
            self._comm._nothing(status)


class Nonblocking:
    """Collectives that return a request. Ranks call them in one order with all others of the communicator."""

    def Ibarrier(self) -> CollectiveRequest:
        """Done when all ranks have called it. As Barrier."""
        return CollectiveRequest(self, matching.enter(self, "Ibarrier"), algorithms.barrier)

    def Ibcast(self, buf, root: int = 0) -> CollectiveRequest:
        """The root's array, into everybody's. As Bcast."""
        self._check_root({"root": root})
        mine = self.rank == root
        data = blocks.array(buf, "Ibcast", "buf") if mine else blocks.receiving(buf, "Ibcast", "buf")
        self._unused(data if mine else None, None if mine else data)
        entered = matching.enter(self, "Ibcast", data, root=root, count=data.size, dtype=data.dtype)
        work = blocks.own(data) if mine else blocks.room(data)

        def program(wire: Arrays) -> np.ndarray:
            return algorithms.bcast(wire, work, root)

        return CollectiveRequest(self, entered, program, data if mine else None, None if mine else data)

    def Iallreduce(self, sendbuf, recvbuf, op=None) -> CollectiveRequest:
        """All ranks' arrays combined, into everybody's. As Allreduce."""
        into = blocks.receiving(recvbuf, "Iallreduce")
        data = blocks.pair(sendbuf, into, "Iallreduce")
        op = for_arrays(op, "Iallreduce")
        self._unused(data, into)
        entered = matching.enter(self, "Iallreduce", count=data.size, dtype=data.dtype, op=op.name)
        work = blocks.own(data)

        def program(wire: Arrays) -> np.ndarray:
            return algorithms.allreduce(wire, work, op)

        return CollectiveRequest(self, entered, program, None if data is into else data, into)

    def Ireduce(self, sendbuf, recvbuf, op=None, root: int = 0) -> CollectiveRequest:
        """All ranks' arrays combined, into the root's recvbuf. As Reduce."""
        self._check_root({"root": root})
        into = blocks.receiving(recvbuf, "Ireduce") if self.rank == root else None
        data = (
            blocks.array(sendbuf, "Ireduce", "sendbuf")
            if into is None
            else blocks.pair(sendbuf, into, "Ireduce")
        )
        op = for_arrays(op, "Ireduce")
        self._unused(data, into)
        entered = matching.enter(self, "Ireduce", root=root, count=data.size, dtype=data.dtype, op=op.name)
        work = blocks.own(data)

        def program(wire: Arrays) -> np.ndarray:
            return algorithms.reduce(wire, work, op, root)

        return CollectiveRequest(self, entered, program, None if data is into else data, into)
