"""What non-blocking calls return, and the status of a received message: mpi4py's Request and Status."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from labkit import mpi

from virtual import explain, stuck
from virtual.buffers import array
from virtual.engine import Lane


class Request:
    """What Isend and Irecv return. Wait and Test; for several Waitall, Waitany, Testall, Testany.

    A kind of request tells when it is done (`when`), wakes whoever waits for that (`watch`), and ends
    (`finish`). It sets `buffer`, the flat array that nobody may use before its end (None: there is none).
    """

    buffer: np.ndarray | None

    def __init__(self, comm, call: str, peer: int | None):
        self.comm = comm
        self.call = call
        self.peer = peer
        self.over = False
        self.result = None
        self.mark = explain.mark(3)

    def line(self) -> str:
        """`line 3 of ring: comm.Isend(…)`: where it began."""
        return stuck.line(self.mark)

    def description(self) -> str:
        """`isend to rank 1`."""
        return f"{self.call} {'to' if 'send' in self.call else 'from'} rank {self.peer}"

    # -- mpi4py's names

    def Wait(self, status=None) -> bool:
        self.wait(status)
        return True

    def Test(self, status=None) -> bool:
        return self.test(status)[0]

    def wait(self, status=None):
        """Block until it is done. Returns the object of an irecv."""
        if not self.over:
            self.finish(status)
            self.over = True
            self.forget()
        return self.result

    def test(self, status=None) -> tuple[bool, object]:
        """(is it done?, the object of an irecv)."""
        if self.over:
            return True, self.result
        lane = self.comm.lane
        lane.sync()
        if self.ready(lane.now):
            return True, self.wait(status)
        lane.look(self.comm.transport.look, self.waits("Test"))
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
        left = [request for request in requests if not request.over]
        if left:
            lane = left[0].comm.lane
            lane.sync()
            late = next((request for request in left if not request.ready(lane.now)), None)
            if late is not None:
                lane.look(late.comm.transport.look, late.waits("Testall"))
                return False, None
        return True, cls.waitall(requests, statuses)

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status=None) -> int:
        """The place of the first to be done, which ends; MPI.UNDEFINED if all have ended before."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Sequence[Request], status=None) -> tuple[int, object]:
        left = [request for request in requests if not request.over]
        if not left:
            return mpi.UNDEFINED, None
        lane = left[0].comm.lane
        lane.sync()
        place = _first(requests, lane.now)
        while place is None:
            _wait_for_any(lane, left)
            place = _first(requests, lane.now)
        return place, requests[place].wait(status)

    @classmethod
    def Testany(cls, requests: Sequence[Request], status=None) -> tuple[int, bool]:
        """(the place of one that is done, True), or (MPI.UNDEFINED, False)."""
        return cls.testany(requests, status)[:2]

    @classmethod
    def testany(cls, requests: Sequence[Request], status=None) -> tuple[int, bool, object]:
        left = [request for request in requests if not request.over]
        if not left:
            return mpi.UNDEFINED, True, None
        lane = left[0].comm.lane
        lane.sync()
        place = _first(requests, lane.now)
        if place is None:
            lane.look(left[0].comm.transport.look, left[0].waits("Testany"))
            return mpi.UNDEFINED, False, None
        return place, True, requests[place].wait(status)

    # -- what each kind of request does in its own way

    def when(self) -> float:
        """When it is done, in virtual seconds, as far as is known: it may get later. Infinite: unknown."""
        raise NotImplementedError

    def watch(self, waiter) -> None:
        """Call waiter.wake(time) with that time, as soon as it is known; None: nobody."""
        raise NotImplementedError

    def finish(self, status) -> None:
        """Wait for it, deliver what it brings and fill `status`, if that is not None."""
        raise NotImplementedError

    def waits(self, call: str) -> tuple:
        """What a lane waits for that is in `call` for this request (see Lane.waits)."""
        return f"{call} of an {self.call}", self.comm, "to" if "send" in self.call else "from", self.peer

    # -- how

    def ready(self, now: float) -> bool:
        """Is it done by `now`?"""
        return self.when() <= now

    def block(self, lane: Lane) -> None:
        """Wait until it is done."""
        while self.when() > lane.now:
            self.watch(lane)
            lane.waits = self.waits("Wait")
            lane.block()
            lane.waits = None

    def remember(self) -> None:
        """From now on a call that uses `buffer` is a mistake."""
        self.low, self.high = explain.span(self.buffer)  # hundreds may be pending: two numbers compare fast
        self.comm.state.pending.append(self)

    def forget(self) -> None:
        pending = self.comm.state.pending
        if self in pending:
            pending.remove(self)


class SendRequest(Request):
    """departure: what it waits for, None if its data has been copied away."""

    def __init__(self, comm, departure, buf, call: str, peer: int):
        super().__init__(comm, call, peer)
        self._departure = departure
        self._round = comm.state.last_send
        self.buffer = None if isinstance(buf, bytes) else array(buf)
        self._before = None if self.buffer is None else self.buffer.tobytes()
        self.remember()

    def when(self) -> float:
        return 0.0 if self._departure is None else self._departure.done

    def watch(self, waiter) -> None:
        self._departure.watch(waiter)

    def finish(self, status) -> None:
        lane = self.comm.lane
        state = self.comm.state
        self.block(lane)
        state.round = max(state.round, self._round)
        if self._before is not None and self._before != self.buffer.tobytes():
            explain.changed_before_wait(self)


class ReceiveRequest(Request):
    """receive: None where there is nothing to come. Until Wait the array is full of what no sum survives."""

    def __init__(self, comm, receive, into, call: str, peer: int | None):
        super().__init__(comm, call, peer)
        self._receive = receive
        self.buffer = into
        if receive is not None and into is not None:
            self._before = into.copy()
            explain.poison(into)
        self.remember()

    def when(self) -> float:
        receive = self._receive
        if receive is None:
            return 0.0
        return inf if receive.message is None else receive.flow.end + receive.channel.latency

    def watch(self, waiter) -> None:
        receive = self._receive
        if receive.message is None:
            receive.waiter = waiter
        elif waiter is not None:
            self.comm.transport.wires.tell(receive.flow, waiter, receive.channel.latency)

    def finish(self, status) -> None:
        receive = self._receive
        into = self.buffer
        if receive is None:
            self.comm.leave_empty(status)
            return
        if into is not None:  # before it blocks: a message that comes meanwhile goes straight into the array
            if not explain.poisoned(into):
                explain.changed_before_wait(self)
            into[...] = self._before  # what the message does not fill is as it was
        self.block(self.comm.lane)
        self.result = self.comm.take(receive, status)


class Status:
    """Source, tag and length of a received message."""

    def __init__(self):
        self.source = -1
        self.tag = -1
        self._length = 0  # bytes

    def Get_source(self) -> int:
        return self.source

    def Get_tag(self) -> int:
        return self.tag

    def Get_count(self, datatype=None) -> int:
        """Elements of `datatype` (an mpi4py datatype or a NumPy one), bytes without it."""
        size = 1 if datatype is None else getattr(datatype, "size", None) or np.dtype(datatype).itemsize
        return self._length // size

    def fill(self, source: int, tag: int, length: int) -> None:
        self.source = source
        self.tag = tag
        self._length = length


def fill_status(status: object, source: int, tag: int, length: int) -> None:
    """Write into a Status of ours or of mpi4py. length: in bytes."""
    if isinstance(status, Status):
        status.fill(source, tag, length)
        return
    from mpi4py import MPI

    status.source = source
    status.tag = tag
    if MPI.Is_initialized():  # the count needs MPI's types
        status.Set_elements(MPI.BYTE, length)


class _Earliest:
    """Wakes a lane once, at the earliest of the times that it is told."""

    def __init__(self, lane: Lane):
        self.lane = lane
        self.over = False

    def wake(self, time: float) -> None:
        self.lane.engine.put(max(time, self.lane.now), self.go)

    def go(self, time: float) -> None:
        if not self.over:
            self.over = True
            self.lane.wake(time)


def _wait_for_any(lane: Lane, requests: Sequence[Request]) -> None:
    earliest = _Earliest(lane)
    for request in requests:
        request.watch(earliest)
    lane.waits = requests[0].waits("Waitany")
    lane.block()
    lane.waits = None
    for request in requests:
        request.watch(None)


def _first(requests: Sequence[Request], now: float) -> int | None:
    """The place of the request that is done and was so first."""
    done = [
        (request.when(), place)
        for place, request in enumerate(requests)
        if not request.over and request.ready(now)
    ]
    return min(done)[1] if done else None
