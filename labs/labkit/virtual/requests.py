"""Requests of non-blocking calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from labkit.virtual import explain, stuck
from labkit.virtual.buffers import array
from labkit.virtual.engine import Lane
from labkit.virtual.explain import add_to_request


@add_to_request
class Request:
    """What Isend and Irecv return. Wait and Test; for several Waitall, Waitany, Testall, Testany.

    A kind of request tells when it is done (`_when`), wakes whoever waits for that (`_watch`), and ends
    (`_finish`).
    """

    def __init__(self, comm, call: str, peer: int | None):
        self._comm, self._call, self._peer = comm, call, peer
        self._over, self._result = False, None
        self._mark = explain.mark(3)

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
        lane.look(self._comm._transport.look, self._waits("Test"))
        return False, None

    @classmethod
    def Waitall(cls, requests: Sequence[Request], statuses=None) -> bool:
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Request], statuses=None) -> list:
        return [
            request.wait(None if statuses is None else statuses[place])
            for place, request in enumerate(requests)
        ]

    @classmethod
    def Testall(cls, requests: Sequence[Request], statuses=None) -> bool:
        """Are all of them done? Only then do they end."""
        return cls.testall(requests, statuses)[0]

    @classmethod
    def testall(cls, requests: Sequence[Request], statuses=None) -> tuple[bool, list | None]:
        left = [request for request in requests if not request._over]
        if left:
            lane = left[0]._comm._lane
            lane.sync()
            late = next((request for request in left if not request._ready(lane.now)), None)
            if late is not None:
                lane.look(late._comm._transport.look, late._waits("Testall"))
                return False, None
        return True, cls.waitall(requests, statuses)

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status=None) -> int:
        """The place of the first to be done, which ends; MPI.UNDEFINED if all have ended before."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Sequence[Request], status=None) -> tuple[int, object]:
        left = [request for request in requests if not request._over]
        if not left:
            return now().UNDEFINED, None
        lane = left[0]._comm._lane
        lane.sync()
        place = _first(requests, lane.now)
        while place is None:
            _wait_for_one(lane, left)
            place = _first(requests, lane.now)
        return place, requests[place].wait(status)

    @classmethod
    def Testany(cls, requests: Sequence[Request], status=None) -> tuple[int, bool]:
        """(the place of one that is done, True), or (MPI.UNDEFINED, False)."""
        return cls.testany(requests, status)[:2]

    @classmethod
    def testany(cls, requests: Sequence[Request], status=None) -> tuple[int, bool, object]:
        left = [request for request in requests if not request._over]
        if not left:
            return now().UNDEFINED, True, None
        lane = left[0]._comm._lane
        lane.sync()
        place = _first(requests, lane.now)
        if place is None:
            lane.look(left[0]._comm._transport.look, left[0]._waits("Testany"))
            return now().UNDEFINED, False, None
        return place, True, requests[place].wait(status)

    def _when(self) -> float | None:
        """When it is done, in virtual seconds, as soon as that is known."""
        raise NotImplementedError

    def _watch(self, waiter) -> None:
        """Call waiter.wake(time) when that gets known; None: nobody."""
        raise NotImplementedError

    def _finish(self, status) -> None:
        raise NotImplementedError

    def _ready(self, now: float) -> bool:
        when = self._when()
        return when is not None and when <= now

    def _waits(self, call: str) -> tuple:
        return f"{call} of an {self._call}", self._comm, "to" if "send" in self._call else "from", self._peer

    def _block(self, lane: Lane) -> None:
        """Wait until it is known when it is done, and until then."""
        self._watch(lane)
        lane.waits = self._waits("Wait")
        lane.block()
        lane.waits = None

    def _remember(self) -> None:
        self.low, self.high = explain.span(self._buffer)  # hundreds may be pending: two numbers compare fast
        self._comm._state.pending.append(self)

    def _forget(self) -> None:
        pending = self._comm._state.pending
        if self in pending:
            pending.remove(self)


class _One:
    """Wakes a lane once, at the earliest of the times that it is told."""

    def __init__(self, lane: Lane):
        self.lane, self.over = lane, False

    def wake(self, time: float) -> None:
        self.lane.engine.put(max(time, self.lane.now), self.go)

    def go(self, time: float) -> None:
        if not self.over:
            self.over = True
            self.lane.wake(time)


def _first(requests: Sequence[Request], now: float) -> int | None:
    """The place of the request that is done and was so first."""
    done = [(one._when(), place) for place, one in enumerate(requests) if not one._over and one._ready(now)]
    return min(done)[1] if done else None


def _wait_for_one(lane: Lane, requests: Sequence[Request]) -> None:
    one = _One(lane)
    for request in requests:
        when = request._when()
        if when is None:
            request._watch(one)
        else:
            one.wake(when)
    lane.waits = requests[0]._waits("Waitany")
    lane.block()
    lane.waits = None
    for request in requests:
        if request._when() is None:
            request._watch(None)


class SendRequest(Request):
    """departure: what it waits for, None if its data has been copied away."""

    def __init__(self, comm, departure, buf, call: str, peer: int):
        super().__init__(comm, call, peer)
        self._departure, self._round = departure, comm._state.last_send
        self._buffer = None if isinstance(buf, bytes) else array(buf)
        self._was = None if self._buffer is None else self._buffer.tobytes()
        self._remember()

    def _when(self) -> float | None:
        return 0.0 if self._departure is None else self._departure.done

    def _watch(self, waiter) -> None:
        self._departure.waiter = waiter

    def _finish(self, status) -> None:
        lane, state = self._comm._lane, self._comm._state
        if self._when() is None:
            self._block(lane)
        lane.now = max(lane.now, self._when())
        state.round = max(state.round, self._round)
        if self._was is not None and self._was != self._buffer.tobytes():
            explain.changed_before_wait(self)


class ReceiveRequest(Request):
    """receive: None where there is nothing to come. Until Wait the array is full of what no sum survives."""

    def __init__(self, comm, receive, into, call: str, peer: int | None):
        super().__init__(comm, call, peer)
        self._receive, self._buffer = receive, into
        if receive is not None and into is not None:
            self._before = into.copy()
            explain.poison(into)
        self._remember()

    def _when(self) -> float | None:
        receive = self._receive
        return 0.0 if receive is None else None if receive.message is None else receive.arrive

    def _watch(self, waiter) -> None:
        self._receive.waiter = waiter

    def _finish(self, status) -> None:
        receive, comm, into = self._receive, self._comm, self._buffer
        if receive is None:
            comm._nothing(status)
            return
        if into is not None:  # before it blocks: a message that comes meanwhile goes straight into the array
            if not explain.poisoned(into):
                explain.changed_before_wait(self)
            into[...] = self._before  # what the message does not fill is as it was
        if receive.message is None:
            self._block(comm._lane)
        self._result = comm._take(receive, status)


# The status of a message.


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
        if MPI.Is_initialized():  # the count needs MPI's types
            status.Set_elements(MPI.BYTE, length)


# MPI's special numbers, as mpi4py has them where it is loaded, else as in MPICH's ABI.


_MPICH = {"ANY_SOURCE": -2, "ANY_TAG": -1, "PROC_NULL": -1, "UNDEFINED": -32766, "COMM_TYPE_SHARED": 1}


class Numbers:
    """`.ANY_SOURCE` and its like, looked up when asked for: a program may import mpi4py while it runs."""

    def __getattr__(self, name: str) -> int:
        if name not in _MPICH:
            raise AttributeError(name)
        return getattr(sys.modules.get("mpi4py.MPI"), name, _MPICH[name])


def now() -> Numbers:
    return Numbers()
