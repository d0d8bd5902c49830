"""The communicator of a virtual rank: mpi4py's names and meaning, and how its calls become
messages."""

from __future__ import annotations

import operator
from math import inf
from numbers import Integral

import numpy as np
from labkit import mpi
from labkit.errors import LabError

from virtual import explain
from virtual.buffers import PLAIN, flat, pack
from virtual.collectives import Collectives, ObjectCollectives
from virtual.engine import Lane, Receive
from virtual.groups import Groups
from virtual.requests import ReceiveRequest, SendRequest, fill_status
from virtual.transport import ANY, Channel, Departure, Transport, put

_OBJECT = object()  # in the place of a buffer: what comes is an object
TAG_UB = 2**29 - 1  # MPI.TAG_UB of the kit's MPICH; MPI promises 32,767
IRECV_ROOM = 32_768  # bytes for the object of an irecv without a buffer: mpi4py.rc.irecv_bufsz


class Comm(Collectives, ObjectCollectives, Groups):
    """What `fn(comm, …)` receives on a virtual rank. It answers to mpi4py's names
    (mpi4py.MPI.Comm).

    rank, size: this rank's number, and how many there are. Upper-case calls move arrays, lower-case
    ones objects. `compute(seconds)` lets this rank's clock run on. What is not there raises an
    error that says so.

    What mpi4py does not have is the simulator's: transport, and lane, the thread of control that
    makes the calls; members, the world's number of each rank; context, which keeps the messages of
    communicators apart; state and pending of the rank (see engine.State); of a communicator that
    serves one collective, that matching.Call, and the mark of where it was called.
    """

    collective = None
    mark = None
    __hash__ = None  # as mpi4py's

    def __init__(
        self, transport: Transport, lane: Lane, members: list[int], rank: int, context: int
    ):
        self.rank = rank
        self.size = len(members)
        self.transport = transport
        self.lane = lane
        self.members = members
        self.context = context
        self.state = lane.state
        self.pending = lane.state.pending  # requests that no call may meet in memory
        self._to: dict[int, Channel] = {}  # dest -> where to
        # Source -> from where, None for any.
        self._from: dict[int | None, Channel | None] = {None: None}

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def compute(self, seconds: float) -> None:
        """Let `seconds` of work pass on this rank."""
        if not 0 <= seconds < inf:
            raise LabError(f"comm.compute takes a number of seconds, 0 or more, not {seconds!r}.")
        self.lane.spend(float(seconds))

    def Wtime(self) -> float:
        """This rank's clock, in virtual seconds since the start of the run."""
        return self.lane.now

    # -- arrays

    def Send(self, buf, dest: int, tag: int = 0) -> None:
        self._sent(self._post(buf, dest, tag), "Send", dest)

    def Ssend(self, buf, dest: int, tag: int = 0) -> None:
        self._sent(self._post(buf, dest, tag, wait=True), "Ssend", dest)

    def Recv(self, buf, source: int | None = None, tag: int | None = None, status=None) -> None:
        self._recv(buf, source, tag, status, "Recv")

    def Sendrecv(
        self,
        sendbuf,
        dest: int,
        sendtag: int = 0,
        recvbuf=None,
        source=None,
        recvtag=None,
        status=None,
    ) -> None:
        base = self.state.round
        if type(sendbuf) is not np.ndarray or type(recvbuf) is not np.ndarray:
            sendbuf = flat(sendbuf, "Sendrecv", "sendbuf")
            recvbuf = flat(recvbuf, "Sendrecv", "recvbuf", fill=True)
        # Two arrays of which neither is a view share no memory: they are told at less cost.
        apart = sendbuf is not recvbuf and sendbuf.base is None and recvbuf.base is None
        if not apart and np.may_share_memory(sendbuf, recvbuf):
            raise explain.aliased("Sendrecv", "Send a copy, or receive into another array.")
        departure = self._post(sendbuf, dest, sendtag)
        self._recv(recvbuf, source, recvtag, status, "Sendrecv", base)
        self._sent(departure, "Sendrecv", dest)

    def Isend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        data = flat(buf, "Isend")
        return SendRequest(self, self._post(data, dest, tag), data, "Isend", dest)

    def Issend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        data = flat(buf, "Issend")
        return SendRequest(self, self._post(data, dest, tag, wait=True), data, "Issend", dest)

    def Irecv(self, buf, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(buf, source, tag, "Irecv")

    def Probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "Probe")

    def Iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)

    # -- objects

    def send(self, obj, dest: int, tag: int = 0) -> None:
        self._sent(self._post(pack(obj), dest, tag, packed=True), "send", dest)

    def ssend(self, obj, dest: int, tag: int = 0) -> None:
        self._sent(self._post(pack(obj), dest, tag, True, True), "ssend", dest)

    def recv(self, buf=None, source: int | None = None, tag: int | None = None, status=None):
        return self._recv(_OBJECT, source, tag, status, "recv", room=_room(buf, inf))

    def sendrecv(
        self, sendobj, dest: int, sendtag=0, recvbuf=None, source=None, recvtag=None, status=None
    ):
        base = self.state.round
        departure = self._post(pack(sendobj), dest, sendtag, packed=True)
        room = _room(recvbuf, inf)
        received = self._recv(_OBJECT, source, recvtag, status, "sendrecv", base, room)
        self._sent(departure, "sendrecv", dest)
        return received

    def isend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        return SendRequest(self, self._post(pack(obj), dest, tag, packed=True), None, "isend", dest)

    def issend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        return SendRequest(self, self._post(pack(obj), dest, tag, True, True), None, "issend", dest)

    def irecv(self, buf=None, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(_OBJECT, source, tag, "irecv", _room(buf, IRECV_ROOM))

    def probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "probe")

    def iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)

    # -- for requests

    def take(self, receive: Receive, status, room: float = inf):
        """The end of a receive: its data goes where it belongs, an object is returned.

        room: bytes that the object may have.
        """
        message = self.transport.finish(self.lane, receive)
        data = message[5]
        into = receive.into
        if status is not None:
            fill_status(status, self._sender(receive.channel), message[0], message[4])
        if data is None or put(into, data):
            return None
        return explain.deliver(self.state.rank, receive.channel.source.rank, data, into, room)

    def leave_empty(self, status) -> None:
        """The status of what was received from nobody."""
        if status is not None:
            fill_status(status, mpi.PROC_NULL, mpi.ANY_TAG, 0)

    # -- how: arguments looked at, posted, waited for, delivered

    def _post(
        self, buf, dest: int, tag: int, wait: bool = False, packed: bool = False
    ) -> Departure | None:
        """Give a message to the wires. Returns what a sender in rendezvous waits for, or None.

        packed: `buf` is what `pack` made of an object. Public calls call this directly:
        transport.send notes the line of whoever has called them.
        """
        if (
            type(buf) is np.ndarray
            and buf.ndim == 1
            and buf.flags.c_contiguous
            and buf.dtype in PLAIN
        ):
            data, size = buf, buf.nbytes
        elif packed:
            data, size = buf
        else:
            data = flat(buf, "Send")
            size = data.nbytes * getattr(data, "scale", 1)
            data = np.asarray(data)
        channel = self._to.get(dest) if type(dest) is int else None
        if channel is None:
            channel = self._open_to(dest)
            if channel is None:
                self.lane.sent = None
                return None
        if type(tag) is not int or not 0 <= tag <= TAG_UB:
            tag = _tag(tag)
        if self.pending and not packed:
            explain.look_for_use_before_wait(self.pending, data, "sends")
        return self.transport.send(self.lane, channel, data, size, tag, wait)

    def _sent(self, departure: Departure | None, call: str, dest: int) -> None:
        """The end of a blocking call that has posted a message."""
        state = self.state
        if state.last_send > state.round:
            state.round = state.last_send
        self.lane.leaving = self.lane.sent
        if departure is not None:
            self._depart(departure, call, dest)

    def _depart(self, departure: Departure, call: str, dest: int) -> None:
        """Wait until the buffer of a rendezvous is free, in a blocking call."""
        lane = self.lane
        while departure.done > lane.now:
            departure.watch(lane)
            lane.waits = (call, self, "to", dest)
            lane.block()
            lane.waits = None

    def _recv(
        self, buf, source, tag, status, call: str, base: int | None = None, room: float = inf
    ):
        """Receive into an array, or an object (buf is _OBJECT), which is returned."""
        lane = self.lane
        into = buf
        if (
            type(buf) is not np.ndarray
            or buf.ndim != 1
            or not buf.flags.carray
            or buf.dtype not in PLAIN
        ):
            into = None if buf is _OBJECT else np.asarray(flat(buf, "Recv", fill=True))
        if type(source) is int and source in self._from or source is None:
            channel = self._from[source]
        elif mpi.is_nobody(source):
            return self.leave_empty(status)
        else:
            channel = self._open_from(source)
        wanted = ANY
        if tag is not None:
            wanted = tag if type(tag) is int and 0 <= tag <= TAG_UB else _wanted(tag)
        if self.pending and into is not None:
            explain.look_for_use_before_wait(self.pending, into, "receives into")
        if base is None:
            base = self.state.round
        if not self.transport.receive(lane, lane, into, channel, wanted, self.context, base):
            lane.waits = (call, self, "from", source, tag)
            lane.engine.next(lane)
        latency = lane.channel.latency
        while lane.flow.end + latency > lane.now:
            lane.waits = (call, self, "from", source, tag)
            self.transport.wires.tell(lane.flow, lane, latency)
            lane.engine.next(lane)
        lane.waits = None
        return self.take(lane, status, room)

    def _irecv(self, buf, source, tag, call, room: float = inf) -> ReceiveRequest:
        into = None if buf is _OBJECT else np.asarray(flat(buf, call, fill=True))
        if mpi.is_nobody(source):
            return ReceiveRequest(self, None, into, call, source, room)
        channel = self._open_from(source)
        wanted = _wanted(tag)
        if self.pending and into is not None:
            explain.look_for_use_before_wait(self.pending, into, "receives into")
        receive = Receive()
        self.transport.receive(
            self.lane, receive, into, channel, wanted, self.context, self.state.round
        )
        return ReceiveRequest(self, receive, into, call, source, room)

    def _probe(self, source, tag, status, call: str) -> bool:
        lane = self.lane
        while not self._look(source, tag, status):
            self.state.watchers.append(lane)
            lane.waits = (call, self, "from", source, tag)
            lane.block()
            lane.waits = None
        return True

    def _iprobe(self, source, tag, status) -> bool:
        there = self._look(source, tag, status)
        if not there:
            self.lane.look(self.transport.look, ("Iprobe", self, "from", source, tag))
        return there

    def _look(self, source, tag, status) -> bool:
        """Is there a message that such a receive would take?"""
        if mpi.is_nobody(source):
            self.leave_empty(status)
            return True
        lane = self.lane
        lane.sync()
        channel = self._open_from(source)
        place = self.transport.arrived(lane, channel, _wanted(tag), self.context)
        if place is not None and status is not None:
            channel, message = self.state.arrivals[place]
            fill_status(status, self._sender(channel), message[0], message[4])
        return place is not None

    def _open_to(self, dest: int) -> Channel | None:
        """The way to rank `dest`; None to nobody."""
        if mpi.is_nobody(dest):
            return None
        dest = operator.index(dest)
        if not 0 <= dest < self.size:
            raise explain.bad_rank(self, dest, "dest")
        channel = self.transport.channel(self.context, self.members[self.rank], self.members[dest])
        self._to[dest] = channel
        return channel

    def _open_from(self, source: int | None) -> Channel | None:
        """The way from rank `source`; None from anyone."""
        if type(source) is not int and source is not None:
            source = operator.index(source)
        if source in self._from:
            return self._from[source]
        channel = None
        if source != mpi.ANY_SOURCE:
            if not 0 <= source < self.size:
                raise explain.bad_rank(self, source, "source")
            channel = self.transport.channel(
                self.context, self.members[source], self.members[self.rank]
            )
        self._from[source] = channel
        return channel

    def _sender(self, channel: Channel) -> int:
        """The sender's rank in this communicator."""
        return self.members.index(channel.source.rank)


def _room(buf, otherwise: float) -> float:
    """The bytes of what mpi4py takes for an object that comes: a buffer or a number; None:
    `otherwise`."""
    if buf is None:
        return otherwise
    return buf if isinstance(buf, Integral) else memoryview(buf).nbytes


def _tag(tag: int) -> int:
    """A tag that is not a plain int from 0 to TAG_UB, as one."""
    tag = operator.index(tag)
    if not 0 <= tag <= TAG_UB:
        raise explain.bad_tag(tag, TAG_UB)
    return tag


def _wanted(tag: int | None) -> int:
    """The tag that a receive asks for, ANY for any."""
    if type(tag) is int and 0 <= tag <= TAG_UB:
        return tag
    return ANY if tag is None or tag == mpi.ANY_TAG else _tag(tag)
