"""The communicator of a virtual rank: mpi4py's names and meaning, on `transport`."""

from __future__ import annotations

import pickle

import numpy as np

from labkit.errors import LabError
from labkit.virtual import explain
from labkit.virtual.collectives import Collectives
from labkit.virtual.engine import Lane
from labkit.virtual.groups import Groups
from labkit.virtual.requests import ReceiveRequest, SendRequest, Status
from labkit.virtual.transport import ANY, Transport
from labkit.virtual.vector import Vector


class Comm(Collectives, Groups):
    """What `fn(comm, …)` receives on a virtual rank. It answers to mpi4py's names (mpi4py.MPI.Comm).

    rank, size: this rank's number, and how many there are. Upper-case calls move arrays, lower-case ones objects.
    `compute(seconds)` lets this rank's clock run on. What is not there raises an error that says so.
    """

    def __init__(self, transport: Transport, lane: Lane, members: list[int], rank: int, context: int, mpi):
        self._transport, self._lane, self._members, self._context = transport, lane, members, context
        self._states = [transport.engine.states[member] for member in members]
        self._place = {member: place for place, member in enumerate(members)}
        self._mpi = mpi  # the values of ANY_SOURCE and its like
        self.rank, self.size = rank, len(members)

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
        self._send(buf, dest, tag, False, "Send")

    def Ssend(self, buf, dest: int, tag: int = 0) -> None:
        self._send(buf, dest, tag, True, "Ssend")

    def Recv(self, buf, source: int | None = None, tag: int | None = None, status=None) -> None:
        self._recv(array(buf), source, tag, status, "Recv")

    def Sendrecv(
        self, sendbuf, dest: int, sendtag: int = 0, recvbuf=None, source=None, recvtag=None, status=None
    ) -> None:
        into = array(recvbuf)
        base = self._lane.state.round
        departure = self._post(sendbuf, dest, sendtag, False)
        self._recv(into, source, recvtag, status, "Sendrecv", base)
        if departure is not None:
            self._depart(departure, "Sendrecv", dest)

    def Isend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        return self._isend(buf, dest, tag, False, "Isend")

    def Issend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        return self._isend(buf, dest, tag, True, "Issend")

    def Irecv(self, buf, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(array(buf), source, tag, "Irecv")

    def Probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "Probe")

    def Iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)

    # -- objects

    def send(self, obj, dest: int, tag: int = 0) -> None:
        self._send(pickle.dumps(obj, 5), dest, tag, False, "send")

    def ssend(self, obj, dest: int, tag: int = 0) -> None:
        self._send(pickle.dumps(obj, 5), dest, tag, True, "ssend")

    def recv(self, buf=None, source: int | None = None, tag: int | None = None, status=None):
        return self._recv(None, source, tag, status, "recv")

    def sendrecv(self, sendobj, dest: int, sendtag=0, recvbuf=None, source=None, recvtag=None, status=None):
        base = self._lane.state.round
        departure = self._post(pickle.dumps(sendobj, 5), dest, sendtag, False)
        received = self._recv(None, source, recvtag, status, "sendrecv", base)
        if departure is not None:
            self._depart(departure, "sendrecv", dest)
        return received

    def isend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        return self._isend(pickle.dumps(obj, 5), dest, tag, False, "isend")

    def irecv(self, buf=None, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(None, source, tag, "irecv")

    def probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "probe")

    def iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)

    # -- how

    def _post(self, buf, dest: int, tag: int, wait: bool):
        """Give a message to the wires. Returns what a sender in rendezvous waits for, or None."""
        if (
            type(buf) is np.ndarray
            and buf.ndim == 1
            and buf.flags.c_contiguous
            and buf.dtype.hasobject is False
        ):
            data, size = buf, buf.nbytes
        elif type(buf) is bytes:
            data, size = buf, len(buf)
        else:
            data = array(buf)
            size = data.nbytes * _scale(buf)
        if not 0 <= dest < self.size:
            if dest == self._mpi.PROC_NULL:
                return None
            raise explain.bad_rank(self, dest, "dest")
        if tag < 0:
            raise explain.bad_tag(tag)
        if self._lane.state.pending:
            explain.look_for_use_before_wait(self._lane.state.pending, data, "sends")
        return self._transport.send(self._lane, self._states[dest], data, size, tag, self._context, wait)

    def _send(self, buf, dest, tag, wait, call) -> None:
        departure = self._post(buf, dest, tag, wait)
        state = self._lane.state
        if state.last_send > state.round:
            state.round = state.last_send
        if departure is not None:
            self._depart(departure, call, dest)

    def _depart(self, departure, call: str, dest: int) -> None:
        """Wait until the buffer of a rendezvous is free."""
        lane = self._lane
        if departure.done is None:
            departure.waiter = lane
            lane.waits = (call, self, "to", dest)
            lane.block()
            lane.waits = None
        elif departure.done > lane.now:
            lane.now = departure.done

    def _source(self, source, tag) -> tuple[int, int]:
        """World rank and tag as the wires know them."""
        mpi = self._mpi
        if source is None or source == mpi.ANY_SOURCE:
            source = ANY
        elif 0 <= source < self.size:
            source = self._members[source]
        else:
            raise explain.bad_rank(self, source, "source")
        if tag is None or tag == mpi.ANY_TAG:
            tag = ANY
        elif tag < 0:
            raise explain.bad_tag(tag)
        return source, tag

    def _recv(self, into, source, tag, status, call, base=None):
        lane = self._lane
        state = lane.state
        if source == self._mpi.PROC_NULL and source is not None:
            return self._nothing(status)
        # mpi4py's default tag of a receive is ANY_TAG; from one source it matches like tag 0 would, only later ones too.
        where, what = self._source(source, tag)
        if state.pending and into is not None:
            explain.look_for_use_before_wait(state.pending, into, "receives into")
        receive = self._transport.receive(
            lane, into, where, what, self._context, state.round if base is None else base, True
        )
        if receive.message is None:
            lane.waits = (call, self, "from", source, tag)
            lane.block()
            lane.waits = None
        return self._take(receive, status)

    def _take(self, receive, status):
        message = self._transport.finish(receive, self._lane)
        if status is not None:
            Status.fill(status, self._place[message.source], message.tag, message.length)
        if message.data is not None:
            return explain.deliver(self, message, receive.into)
        return None

    def _nothing(self, status) -> None:
        if status is not None:
            Status.fill(status, self._mpi.PROC_NULL, self._mpi.ANY_TAG, 0)

    def _isend(self, buf, dest, tag, wait, call) -> SendRequest:
        departure = self._post(buf, dest, tag, wait)
        return SendRequest(self, departure, buf, call, dest)

    def _irecv(self, into, source, tag, call) -> ReceiveRequest:
        if source is not None and source == self._mpi.PROC_NULL:
            return ReceiveRequest(self, None, into, call, source)
        where, what = self._source(source, tag)
        state = self._lane.state
        if state.pending and into is not None:
            explain.look_for_use_before_wait(state.pending, into, "receives into")
        receive = self._transport.receive(self._lane, into, where, what, self._context, state.round, False)
        return ReceiveRequest(self, receive, into, call, source)

    def _probe(self, source, tag, status, call) -> bool:
        lane = self._lane
        while not self._iprobe(source, tag, status, careful=True):
            lane.state.watchers.append(lane)
            lane.waits = (call, self, "from", source, tag)
            lane.block()
            lane.waits = None
        return True

    def _iprobe(self, source, tag, status, careful: bool = False) -> bool:
        lane = self._lane
        lane.sync()
        where, what = self._source(source, tag)
        message = self._transport.arrived(lane, where, what, self._context)
        if message is not None and status is not None:
            Status.fill(status, self._place[message.source], message.tag, message.length)
        if message is None and not careful:
            lane.look(max(self._transport.inside.overhead, 1e-7), ("Iprobe", self, "from", source, tag))
        if message is None and careful:
            self._transport.watch(lane.state)
        return message is not None

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise LabError(
            f"The virtual cluster's comm has no {name}. It has Send, Recv, Sendrecv, Isend, Irecv, the collectives "
            "and Split; on real ranks (launch.run) mpi4py's own is there."
        )


def array(buf) -> np.ndarray:
    """The flat array that a buffer argument means: an array, or [array, count], [array, MPI.FLOAT], [array, count, type]."""
    count = None
    if isinstance(buf, list | tuple) and buf and isinstance(buf[0], np.ndarray):
        numbers = [one for one in buf[1:] if isinstance(one, int)]
        count = numbers[0] if numbers else None
        buf = buf[0]
    if isinstance(buf, bytes | bytearray | memoryview):
        buf = np.frombuffer(buf, np.uint8)
    if not isinstance(buf, np.ndarray):
        raise explain.wrong_type(buf)
    if not buf.flags.c_contiguous:
        raise explain.not_contiguous(buf)
    if buf.dtype.hasobject:
        raise explain.wrong_type(buf)
    flat = np.asarray(buf).reshape(-1)
    return flat if count is None else flat[:count]


def _scale(buf) -> float:
    if isinstance(buf, list | tuple):
        buf = buf[0]
    return buf.scale if isinstance(buf, Vector) else 1
