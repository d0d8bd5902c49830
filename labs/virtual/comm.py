"""The communicator of a virtual rank: mpi4py's names and meaning, and how its calls become messages."""

from __future__ import annotations

import numpy as np
from labkit import mpi
from labkit.errors import LabError

from virtual import explain
from virtual.buffers import Packed, array, box, pack, scale
from virtual.collectives import Collectives, NonblockingCollectives, ObjectCollectives
from virtual.engine import Lane, Receive
from virtual.groups import Groups
from virtual.requests import ReceiveRequest, SendRequest, fill_status
from virtual.transport import ANY, Channel, Departure, Transport, put

_OBJECT = object()  # in the place of a buffer: what comes is an object


class Comm(Collectives, ObjectCollectives, NonblockingCollectives, Groups):
    """What `fn(comm, …)` receives on a virtual rank. It answers to mpi4py's names (mpi4py.MPI.Comm).

    rank, size: this rank's number, and how many there are. Upper-case calls move arrays, lower-case ones
    objects. `compute(seconds)` lets this rank's clock run on. What is not there raises an error that says so.

    What mpi4py does not have is the simulator's: transport, and lane, the thread of control that makes the
    calls; members, the world's number of each rank; context, which keeps the messages of communicators
    apart; state and pending of the rank (see engine.State); of a communicator that serves one collective,
    that matching.Call, and the mark of where it was called.
    """

    collective = None
    mark = None

    def __init__(self, transport: Transport, lane: Lane, members: list[int], rank: int, context: int):
        self.rank = rank
        self.size = len(members)
        self.transport = transport
        self.lane = lane
        self.members = members
        self.context = context
        self.state = lane.state
        self.pending = lane.state.pending  # requests that no call may meet in memory
        self._to: dict[int, Channel | None] = {}  # dest -> where to, None for PROC_NULL
        self._from: dict[int | None, Channel | None] = {None: None}  # source -> from where, None for any

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def compute(self, seconds: float) -> None:
        """Let `seconds` of work pass on this rank."""
        if not seconds >= 0:
            raise LabError(f"comm.compute takes a number of seconds, 0 or more, not {seconds!r}.")
        self.lane.spend(seconds)

    def Wtime(self) -> float:
        """This rank's clock, in virtual seconds since the start of the run."""
        return self.lane.now

    # -- arrays

    def Send(self, buf, dest: int, tag: int = 0) -> None:
        self._sent(self._post(buf, dest, tag, False), "Send", dest)

    def Ssend(self, buf, dest: int, tag: int = 0) -> None:
        self._sent(self._post(buf, dest, tag, True), "Ssend", dest)

    def Recv(self, buf, source: int | None = None, tag: int | None = None, status=None) -> None:
        self._recv(buf, source, tag, status, "Recv")

    def Sendrecv(
        self, sendbuf, dest: int, sendtag: int = 0, recvbuf=None, source=None, recvtag=None, status=None
    ) -> None:
        base = self.state.round
        departure = self._post(sendbuf, dest, sendtag, False)
        self._recv(recvbuf, source, recvtag, status, "Sendrecv", base)
        self._sent(departure, "Sendrecv", dest)

    def Isend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        return SendRequest(self, self._post(buf, dest, tag, False), buf, "Isend", dest)

    def Issend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        return SendRequest(self, self._post(buf, dest, tag, True), buf, "Issend", dest)

    def Irecv(self, buf, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(buf, source, tag, "Irecv")

    def Probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "Probe")

    def Iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)

    # -- objects

    def send(self, obj, dest: int, tag: int = 0) -> None:
        self._sent(self._post(pack(obj), dest, tag, False), "send", dest)

    def ssend(self, obj, dest: int, tag: int = 0) -> None:
        self._sent(self._post(pack(obj), dest, tag, True), "ssend", dest)

    def recv(self, buf=None, source: int | None = None, tag: int | None = None, status=None):
        return self._recv(_OBJECT, source, tag, status, "recv")

    def sendrecv(self, sendobj, dest: int, sendtag=0, recvbuf=None, source=None, recvtag=None, status=None):
        base = self.state.round
        departure = self._post(pack(sendobj), dest, sendtag, False)
        received = self._recv(_OBJECT, source, recvtag, status, "sendrecv", base)
        self._sent(departure, "sendrecv", dest)
        return received

    def isend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        data = pack(obj)
        return SendRequest(self, self._post(data, dest, tag, False), data, "isend", dest)

    def issend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        data = pack(obj)
        return SendRequest(self, self._post(data, dest, tag, True), data, "issend", dest)

    def irecv(self, buf=None, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(_OBJECT, source, tag, "irecv")

    def probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "probe")

    def iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)

    # -- for requests

    def take(self, receive: Receive, status):
        """The end of a receive: its data goes where it belongs, an object is returned."""
        message = self.transport.finish(self.lane, receive)
        data = message[5]
        into = receive.into
        if status is not None:
            fill_status(status, self._sender(receive.channel), message[0], message[4])
        if data is None or put(into, data):
            return None
        return explain.deliver(self.rank, self._sender(receive.channel), data, into)

    def leave_empty(self, status) -> None:
        """The status of what was received from nobody."""
        if status is not None:
            fill_status(status, mpi.PROC_NULL, mpi.ANY_TAG, 0)

    # -- how: arguments looked at, posted, waited for, delivered

    def _post(self, buf, dest: int, tag: int, wait: bool) -> Departure | None:
        """Give a message to the wires. Returns what a sender in rendezvous waits for, or None.

        Public calls call this directly: transport.send notes the line of whoever has called them.
        """
        if type(buf) is np.ndarray and buf.ndim == 1 and buf.flags.c_contiguous and not buf.dtype.hasobject:
            data, size = buf, buf.nbytes
        elif type(buf) is bytes:
            data, size = buf, len(buf)
        elif type(buf) is Packed:
            data, size = bytes(buf), buf.stands_for
        else:
            data = array(buf)
            size = data.nbytes * scale(buf)
        try:
            channel = self._to[dest]
        except KeyError:
            channel = self._open_to(dest)
        if channel is None:
            self.lane.sent = None
            return None
        if tag < 0:
            raise explain.bad_tag(tag)
        if self.pending:
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

    def _recv(self, buf, source, tag, status, call: str, base: int | None = None):
        """Receive into an array, or an object (buf is _OBJECT), which is returned."""
        lane = self.lane
        into = buf
        if type(buf) is not np.ndarray or buf.ndim != 1 or not buf.flags.carray or buf.dtype.hasobject:
            into = None if buf is _OBJECT else box(buf)
        try:
            channel = self._from[source]
        except KeyError:
            if mpi.is_nobody(source):
                return self.leave_empty(status)
            channel = self._open_from(source)
        wanted = ANY if tag is None else tag if tag >= 0 else self._any_tag(tag)
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
        return self.take(lane, status)

    def _irecv(self, buf, source, tag, call) -> ReceiveRequest:
        into = None if buf is _OBJECT else box(buf)
        if mpi.is_nobody(source):
            return ReceiveRequest(self, None, into, call, source)
        channel = self._from[source] if source in self._from else self._open_from(source)
        wanted = ANY if tag is None else tag if tag >= 0 else self._any_tag(tag)
        if self.pending and into is not None:
            explain.look_for_use_before_wait(self.pending, into, "receives into")
        receive = Receive()
        self.transport.receive(self.lane, receive, into, channel, wanted, self.context, self.state.round)
        return ReceiveRequest(self, receive, into, call, source)

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
        channel = self._from[source] if source in self._from else self._open_from(source)
        wanted = ANY if tag is None else tag if tag >= 0 else self._any_tag(tag)
        place = self.transport.arrived(lane, channel, wanted, self.context)
        if place is not None and status is not None:
            channel, message = self.state.arrivals[place]
            fill_status(status, self._sender(channel), message[0], message[4])
        return place is not None

    def _open_to(self, dest: int) -> Channel | None:
        if mpi.is_nobody(dest):
            return None
        if not 0 <= dest < self.size:
            raise explain.bad_rank(self, dest, "dest")
        channel = self.transport.channel(self.context, self.members[self.rank], self.members[dest])
        self._to[dest] = channel
        return channel

    def _open_from(self, source: int) -> Channel | None:
        if source == mpi.ANY_SOURCE:
            self._from[source] = None
            return None
        if not 0 <= source < self.size:
            raise explain.bad_rank(self, source, "source")
        channel = self.transport.channel(self.context, self.members[source], self.members[self.rank])
        self._from[source] = channel
        return channel

    def _any_tag(self, tag: int) -> int:
        if tag != mpi.ANY_TAG:
            raise explain.bad_tag(tag)
        return ANY

    def _sender(self, channel: Channel) -> int:
        """The sender's rank in this communicator."""
        return self.members.index(channel.source.rank)
