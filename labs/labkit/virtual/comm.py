"""The communicator of a virtual rank: mpi4py's names and meaning."""

from __future__ import annotations

import numpy as np

from labkit.errors import LabError
from labkit.virtual import explain
from labkit.virtual.buffers import Packed, array, box, pack, scale
from labkit.virtual.collectives import Collectives
from labkit.virtual.engine import Lane, Receive
from labkit.virtual.explain import add_to_comm
from labkit.virtual.groups import Groups
from labkit.virtual.requests import ReceiveRequest, SendRequest, Status
from labkit.virtual.transport import ANY, Channel, Departure, Transport, put

# How the calls of a communicator become messages: arguments looked at, posted, waited for, delivered.


OBJECT = object()  # in the place of a buffer: what comes is an object


class Exchange:
    """The part of a Comm that Send, Recv and their like share. Every call is made by the lane `_lane`."""

    rank: int
    size: int

    def _begin(self, transport: Transport, lane: Lane, members: list[int], context: int, mpi) -> None:
        self._transport, self._lane, self._members, self._context = transport, lane, members, context
        self._state = lane.state
        self._pending = lane.state.pending  # requests that no call may meet in memory
        self._mpi = mpi  # the values of ANY_SOURCE and its like
        self._to: dict[int, Channel | None] = {}  # dest -> where to, None for PROC_NULL
        self._from: dict[int | None, Channel | None] = {None: None}  # source -> from where, None for any

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
            return None
        if tag < 0:
            raise explain.bad_tag(tag)
        if self._pending:
            explain.look_for_use_before_wait(self._pending, data, "sends")
        return self._transport.send(self._lane, channel, data, size, tag, wait)

    def _open_to(self, dest: int) -> Channel | None:
        if dest == self._mpi.PROC_NULL:
            return None
        if not 0 <= dest < self.size:
            raise explain.bad_rank(self, dest, "dest")
        me, other = self._members[self.rank], self._members[dest]
        channel = self._to[dest] = self._transport.channel(self._context, me, other)
        return channel

    def _open_from(self, source: int) -> Channel | None:
        if source == self._mpi.ANY_SOURCE:
            self._from[source] = None
            return None
        if not 0 <= source < self.size:
            raise explain.bad_rank(self, source, "source")
        me, other = self._members[self.rank], self._members[source]
        channel = self._from[source] = self._transport.channel(self._context, other, me)
        return channel

    def _sent(self, departure: Departure | None, call: str, dest: int) -> None:
        """The end of a blocking call that has posted a message."""
        state = self._state
        if state.last_send > state.round:
            state.round = state.last_send
        if departure is not None:
            self._depart(departure, call, dest)

    def _depart(self, departure: Departure, call: str, dest: int) -> None:
        """Wait until the buffer of a rendezvous is free, in a blocking call."""
        lane = self._lane
        if departure.done is None:
            departure.waiter = lane
            lane.waits = (call, self, "to", dest)
            lane.block()
            lane.waits = None
        elif departure.done > lane.now:
            lane.now = departure.done

    def _recv(self, buf, source, tag, status, call: str, base: int | None = None):
        """Receive into an array, or an object (buf is OBJECT), which is returned."""
        lane, state, into = self._lane, self._state, buf
        if type(buf) is not np.ndarray or buf.ndim != 1 or not buf.flags.carray or buf.dtype.hasobject:
            into = None if buf is OBJECT else box(buf)
        try:
            channel = self._from[source]
        except KeyError:
            if source == self._mpi.PROC_NULL:
                return self._nothing(status)
            channel = self._open_from(source)
        what = ANY if tag is None else self._tag(tag) if tag < 0 else tag
        if self._pending and into is not None:
            explain.look_for_use_before_wait(self._pending, into, "receives into")
        if base is None:
            base = state.round
        if not self._transport.receive(lane, lane, into, channel, what, self._context, base):
            lane.waits = (call, self, "from", source, tag)
            lane.engine.next(lane)
            lane.waits = None
        return self._take(lane, status)

    def _tag(self, tag: int) -> int:
        if tag != self._mpi.ANY_TAG:
            raise explain.bad_tag(tag)
        return ANY

    def _take(self, receive: Receive, status):
        """The end of a receive: its data goes where it belongs, an object is returned."""
        message = self._transport.finish(self._lane, receive)
        data, into = message[5], receive.into
        if status is not None:
            Status.fill(status, self._place(receive.channel), message[0], message[4])
        if data is None or put(into, data):
            return None
        return explain.deliver(self.rank, self._place(receive.channel), data, into)

    def _place(self, channel: Channel) -> int:
        """The sender's rank in this communicator."""
        return self._members.index(channel.source.rank)

    def _nothing(self, status) -> None:
        if status is not None:
            Status.fill(status, self._mpi.PROC_NULL, self._mpi.ANY_TAG, 0)

    def _irecv(self, buf, source, tag, call) -> ReceiveRequest:
        into, state = None if buf is OBJECT else box(buf), self._state
        if source is not None and source == self._mpi.PROC_NULL:
            return ReceiveRequest(self, None, into, call, source)
        channel = self._from[source] if source in self._from else self._open_from(source)
        what = ANY if tag is None else self._tag(tag) if tag < 0 else tag
        if self._pending and into is not None:
            explain.look_for_use_before_wait(self._pending, into, "receives into")
        receive = Receive()
        self._transport.receive(self._lane, receive, into, channel, what, self._context, state.round)
        return ReceiveRequest(self, receive, into, call, source)

    def _probe(self, source, tag, status, call: str) -> bool:
        lane = self._lane
        while not self._look(source, tag, status):
            self._state.watchers.append(lane)
            lane.waits = (call, self, "from", source, tag)
            lane.block()
            lane.waits = None
        return True

    def _iprobe(self, source, tag, status) -> bool:
        found = self._look(source, tag, status)
        if not found:
            self._lane.look(self._transport.look, ("Iprobe", self, "from", source, tag))
        return found

    def _look(self, source, tag, status) -> bool:
        """Is there a message that such a receive would take?"""
        if source is not None and source == self._mpi.PROC_NULL:
            self._nothing(status)
            return True
        lane = self._lane
        lane.sync()
        channel = self._from[source] if source in self._from else self._open_from(source)
        what = ANY if tag is None else self._tag(tag) if tag < 0 else tag
        place = self._transport.arrived(lane, channel, what, self._context)
        if place is not None and status is not None:
            channel, message = self._state.arrivals[place]
            Status.fill(status, self._place(channel), message[0], message[4])
        return place is not None


@add_to_comm
class Comm(Exchange, Collectives, Groups):
    """What `fn(comm, …)` receives on a virtual rank. It answers to mpi4py's names (mpi4py.MPI.Comm).

    rank, size: this rank's number, and how many there are. Upper-case calls move arrays, lower-case ones
    objects. `compute(seconds)` lets this rank's clock run on. What is not there raises an error that says so.
    """

    def __init__(self, transport: Transport, lane: Lane, members: list[int], rank: int, context: int, mpi):
        self.rank, self.size = rank, len(members)
        self._begin(transport, lane, members, context, mpi)

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def compute(self, seconds: float) -> None:
        """Let `seconds` of work pass on this rank."""
        if not seconds >= 0:
            raise LabError(f"comm.compute takes a number of seconds, 0 or more, not {seconds!r}.")
        self._lane.spend(seconds)

    def Wtime(self) -> float:
        """This rank's clock, in virtual seconds since the start of the run."""
        return self._lane.now

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
        base = self._state.round
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
        return self._recv(OBJECT, source, tag, status, "recv")

    def sendrecv(self, sendobj, dest: int, sendtag=0, recvbuf=None, source=None, recvtag=None, status=None):
        base = self._state.round
        departure = self._post(pack(sendobj), dest, sendtag, False)
        received = self._recv(OBJECT, source, recvtag, status, "sendrecv", base)
        self._sent(departure, "sendrecv", dest)
        return received

    def isend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        data = pack(obj)
        return SendRequest(self, self._post(data, dest, tag, False), data, "isend", dest)

    def issend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        data = pack(obj)
        return SendRequest(self, self._post(data, dest, tag, True), data, "issend", dest)

    def irecv(self, buf=None, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(OBJECT, source, tag, "irecv")

    def probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "probe")

    def iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)
