"""Requests of non-blocking calls, and the status of a message."""

from __future__ import annotations

import numpy as np

from labkit.virtual import explain, stuck
from labkit.virtual.lacking import add_to_request


@add_to_request
class Request:
    """What Isend and Irecv return. Wait, Test, and for several: Waitall, Waitany, Testall."""

    def __init__(self, comm, call: str, peer):
        self._comm, self._call, self._peer = comm, call, peer
        self._over, self._result = False, None
        self._mark = explain.mark()

    def line(self) -> str:
        """`line 3 of ring: comm.Isend(…)`: where it began."""
        return stuck.line(self._mark)

    def told(self) -> str:
        return f"{self._call} {'to' if 'send' in self._call else 'from'} rank {self._peer}"

    def Wait(self, status=None) -> bool:
        self.wait(status)
        return True

    def Test(self, status=None) -> bool:
        return self.test(status)[0]

    def wait(self, status=None):
        """Block until it is done. Returns the object of an irecv."""
        if not self._over:
            self._finish(status)
            self._over = True
            self._forget()
        return self._result

    def test(self, status=None) -> tuple[bool, object]:
        """(is it done?, the object of an irecv)."""
        if self._over:
            return True, self._result
        lane = self._comm._lane
        lane.sync()
        if self._ready(lane.now):
            return True, self.wait(status)
        lane.look(
            self._comm._transport.look,
            (f"Test of an {self._call}", self._comm, "to" if "send" in self._call else "from", self._peer),
        )
        return False, None

    @classmethod
    def Waitall(cls, requests, statuses=None) -> bool:
        for place, request in enumerate(requests):
            request.wait(None if statuses is None else statuses[place])
        return True

    @classmethod
    def waitall(cls, requests, statuses=None) -> list:
        return [request.wait() for request in requests]

    @classmethod
    def Testall(cls, requests, statuses=None) -> bool:
        return all(request.Test() for request in requests)

    @classmethod
    def Waitany(cls, requests, status=None) -> int:
        """The place of one that is done, waiting for it if need be."""
        left = [place for place, request in enumerate(requests) if not request._over]
        while left:
            for place in left:
                if requests[place].test(status)[0]:
                    return place
        return -32766  # MPI.UNDEFINED of MPICH's ABI

    def _remember(self) -> None:
        self._comm._state.pending.append(self)

    def _forget(self) -> None:
        pending = self._comm._state.pending
        if self in pending:
            pending.remove(self)


class SendRequest(Request):
    def __init__(self, comm, departure, buf, call, peer):
        super().__init__(comm, call, peer)
        self._departure, self._round = departure, comm._state.last_send
        self._buffer = explain.plain(buf)
        self._copy = None if self._buffer is None else np.array(self._buffer)
        self._remember()

    def _ready(self, now: float) -> bool:
        departure = self._departure
        return departure is None or (departure.done is not None and departure.done <= now)

    def _finish(self, status) -> None:
        if self._departure is not None:
            self._comm._depart(self._departure, f"Wait of an {self._call}", self._peer)
        state = self._comm._state
        state.round = max(state.round, self._round)
        if self._copy is not None and not np.array_equal(self._copy, self._buffer, equal_nan=False):
            explain.changed_before_wait(self)


class ReceiveRequest(Request):
    def __init__(self, comm, receive, into, call, peer):
        super().__init__(comm, call, peer)
        self._receive, self._buffer = receive, into
        if receive is not None:
            explain.poison(into)
        self._remember()

    def _ready(self, now: float) -> bool:
        receive = self._receive
        return receive is None or (receive.message is not None and receive.arrive <= now)

    def _finish(self, status) -> None:
        receive, comm = self._receive, self._comm
        if receive is None:
            comm._nothing(status)
            return
        if receive.message is None:
            lane = comm._lane
            receive.waiter = lane
            lane.waits = (f"Wait of an {self._call}", comm, "from", self._peer, receive.tag)
            lane.block()
            lane.waits = None
        self._result = comm._take(receive, status)


class Status:
    """Source, tag and length of a received message."""

    def __init__(self):
        self.source, self.tag, self._length = -1, -1, 0

    def Get_source(self) -> int:
        return self.source

    def Get_tag(self) -> int:
        return self.tag

    def Get_count(self, datatype=None) -> int:
        """Elements of `datatype` (an mpi4py datatype or a NumPy one), bytes without it."""
        size = 1 if datatype is None else getattr(datatype, "size", None) or np.dtype(datatype).itemsize
        return self._length // size

    @staticmethod
    def fill(status, source: int, tag: int, length: int) -> None:
        """Write into a Status of ours or of mpi4py."""
        if isinstance(status, Status):
            status.source, status.tag, status._length = source, tag, length
            return
        from mpi4py import MPI

        status.source, status.tag = source, tag
        status.Set_elements(MPI.BYTE, length)
