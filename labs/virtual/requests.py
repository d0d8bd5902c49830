"""What non-blocking calls return, with mpi4py's names, and the status of a received message."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from labkit import mpi

from virtual import explain, stuck
from virtual.engine import Lane


class Request:
    """What Isend and Irecv return: Wait, Test, and Waitall and its like for several.

    A kind of request tells when it is done (`when`), wakes whoever waits for that (`watch`), and
    ends (`finish`). It sets `buffer`, the flat array that nobody may use before its end (None:
    there is none).
    """

    buffer: np.ndarray | None
    __hash__ = None  # as mpi4py's

    def __init__(self, comm, call: str, peer: int | None):
        self.comm = comm
        self.members = comm.members  # a communicator that is freed has none
        self.call = call
        self.peer = peer
        self.over = False
        self.mark = explain.mark(3)

    def __bool__(self) -> bool:
        """False when it is over, and has become MPI.REQUEST_NULL."""
        return not self.over

    def __eq__(self, other: object) -> bool:
        if self is other or mpi.loaded() is None:
            return self is other
        return self.over and other is mpi.loaded().REQUEST_NULL

    def line(self) -> str:
        """`line 3 of ring: comm.Isend(…)`: where it began."""
        return stuck.line(self.mark)

    def description(self) -> str:
        """`isend to rank 1`, by its number in the world."""
        if mpi.is_nobody(self.peer):
            whom = "MPI.PROC_NULL"
        elif self.peer is None or self.peer < 0:  # MPI.ANY_SOURCE
            whom = "any rank"
        else:
            whom = f"rank {self.members[self.peer]}"
        return f"{self.call} {'to' if 'send' in self.call else 'from'} {whom}"

    # -- mpi4py's names

    def wait(self, status=None):
        """Block until it is done. Returns the object of an irecv, once."""
        if self.over:
            return None
        result = self.finish(status)
        self.over = True
        self.forget()
        return result

    def test(self, status=None) -> tuple[bool, object]:
        """(is it done?, the object of an irecv, once)."""
        if self._done([self]) == []:
            self._look("Test")
            return False, None
        return True, self.wait(status)

    @classmethod
    def waitall(cls, requests: Sequence[Request], statuses: list | None = None) -> list:
        """The objects of all of them."""
        pairs = zip(requests, _statuses(statuses, len(requests)), strict=True)
        return [request.wait(status) for request, status in pairs]

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list | None = None
    ) -> tuple[bool, list | None]:
        """(are all of them done?, then their objects). Only then do they end."""
        done = cls._done(requests)
        late = [place for place, request in enumerate(requests) if request and place not in done]
        if late:
            requests[late[0]]._look("Testall")
            return False, None
        return True, cls.waitall(requests, statuses)

    @classmethod
    def waitany(cls, requests: Sequence[Request], status=None) -> tuple[int, object]:
        """(the place of the first to be done, which ends, its object); MPI.UNDEFINED: all were
        over."""
        done = cls._done(requests, wait=True)
        return (mpi.UNDEFINED, None) if done is None else (done[0], requests[done[0]].wait(status))

    @classmethod
    def testany(cls, requests: Sequence[Request], status=None) -> tuple[int, bool, object]:
        """(the place of one that is done, True, its object), or (MPI.UNDEFINED, False, None)."""
        done = cls._done(requests)
        if done:
            return done[0], True, requests[done[0]].wait(status)
        if done is not None:
            next(filter(None, requests))._look("Testany")
        return mpi.UNDEFINED, done is None, None

    @classmethod
    def waitsome(cls, requests: Sequence[Request], statuses: list | None = None) -> tuple:
        """(the places of all that are done, one at least, their objects); (None, None): all were
        over."""
        return cls._ended(requests, cls._done(requests, wait=True), statuses)

    @classmethod
    def testsome(cls, requests: Sequence[Request], statuses: list | None = None) -> tuple:
        """The same of those that are done now, if any."""
        done = cls._done(requests)
        if done == []:
            next(filter(None, requests))._look("Testsome")
        return cls._ended(requests, done, statuses)

    def Wait(self, status=None) -> bool:
        self.wait(status)
        return True

    def Test(self, status=None) -> bool:
        return self.test(status)[0]

    @classmethod
    def Waitall(cls, requests: Sequence[Request], statuses: list | None = None) -> bool:
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def Testall(cls, requests: Sequence[Request], statuses: list | None = None) -> bool:
        return cls.testall(requests, statuses)[0]

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status=None) -> int:
        return cls.waitany(requests, status)[0]

    @classmethod
    def Testany(cls, requests: Sequence[Request], status=None) -> tuple[int, bool]:
        return cls.testany(requests, status)[:2]

    @classmethod
    def Waitsome(
        cls, requests: Sequence[Request], statuses: list | None = None
    ) -> list[int] | None:
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def Testsome(
        cls, requests: Sequence[Request], statuses: list | None = None
    ) -> list[int] | None:
        return cls.testsome(requests, statuses)[0]

    # -- what each kind of request does in its own way

    def when(self) -> float:
        """When it is done, in virtual seconds, as far as is known: it may get later. Infinite:
        unknown."""
        raise NotImplementedError

    def watch(self, waiter) -> None:
        """Call waiter.wake(time) with that time, as soon as it is known; None: nobody."""
        raise NotImplementedError

    def finish(self, status) -> object:
        """Wait for it, deliver what it brings and fill `status`, if that is not None. Returns its
        object."""
        raise NotImplementedError

    def waits(self, call: str) -> tuple:
        """What a lane waits for that is in `call` for this request (see Lane.waits)."""
        return (
            f"{call} of an {self.call}",
            self.comm,
            "to" if "send" in self.call else "from",
            self.peer,
        )

    # -- how

    @staticmethod
    def _done(requests: Sequence[Request], wait: bool = False) -> list[int] | None:
        """The places of those that are done and not over, first first; None: all are over.

        wait: until there is one.
        """
        left = [request for request in requests if request]
        if not left:
            return None
        lane = left[0].comm.lane
        lane.sync()
        while True:
            places = [place for place, request in enumerate(requests) if request]
            done = [place for place in places if requests[place].when() <= lane.now]
            if done or not wait:
                return sorted(done, key=lambda place: requests[place].when())
            _wait_for_any(lane, left)

    @staticmethod
    def _ended(requests: Sequence[Request], done: list[int] | None, statuses: list | None) -> tuple:
        if done is None:
            return None, None
        ending = [requests[place] for place in sorted(done)]
        return sorted(done), Request.waitall(ending, statuses)

    def _look(self, call: str) -> None:
        """A Test has found that it is not done."""
        self.comm.lane.look(self.comm.transport.look, self.waits(call))

    def block(self, lane: Lane) -> None:
        """Wait until it is done."""
        while self.when() > lane.now:
            self.watch(lane)
            lane.waits = self.waits("Wait")
            lane.block()
            lane.waits = None

    def remember(self) -> None:
        """From now on a call that uses `buffer` is a mistake."""
        # Hundreds may be pending: two numbers compare fast.
        self.low, self.high = explain.span(self.buffer)
        self.comm.state.pending.append(self)

    def forget(self) -> None:
        pending = self.comm.state.pending
        pending[:] = [request for request in pending if request is not self]


class SendRequest(Request):
    """departure: what it waits for, None if its data has been copied away. data: the array, if it
    is one."""

    def __init__(self, comm, departure, data: np.ndarray | None, call: str, peer: int):
        super().__init__(comm, call, peer)
        self._departure = departure
        self._round = comm.state.last_send
        self.buffer = data
        self._before = None if data is None else data.tobytes()
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
    """receive: None where there is nothing to come. Until Wait the array is full of what no sum
    survives. room: bytes that an object may have."""

    def __init__(
        self, comm, receive, into: np.ndarray | None, call: str, peer: int | None, room: float
    ):
        super().__init__(comm, call, peer)
        self._receive = receive
        self._room = room
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

    def finish(self, status) -> object:
        receive = self._receive
        into = self.buffer
        if receive is None:
            return self.comm.leave_empty(status)
        # Before it blocks: a message that comes meanwhile goes straight into the array.
        if into is not None:
            if not explain.poisoned(into):
                explain.changed_before_wait(self)
            into[...] = self._before  # what the message does not fill is as it was
        self.block(self.comm.lane)
        return self.comm.take(receive, status, self._room)


def fill_status(status, source: int, tag: int, length: int) -> None:
    """Write into a Status of mpi4py's. length: in bytes."""
    from mpi4py import MPI

    status.source = source
    status.tag = tag
    if MPI.Is_initialized():  # the count needs MPI's types
        status.Set_elements(MPI.BYTE, length)


def _statuses(statuses: list | None, count: int) -> list:
    """`count` statuses: those of a list, which is filled up, or None for each."""
    if statuses is None:
        return [None] * count
    from mpi4py import MPI

    statuses += [MPI.Status() for _ in range(count - len(statuses))]
    return statuses[:count]


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
