"""The communicator of a virtual rank: mpi4py's names and meaning."""

from __future__ import annotations

import pickle

from labkit.errors import LabError
from labkit.virtual.collectives import Collectives
from labkit.virtual.engine import Lane
from labkit.virtual.exchange import OBJECT, Exchange
from labkit.virtual.groups import Groups
from labkit.virtual.lacking import add_to_comm
from labkit.virtual.requests import ReceiveRequest, SendRequest
from labkit.virtual.transport import Transport


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
        self._send(buf, dest, tag, False, "Send")

    def Ssend(self, buf, dest: int, tag: int = 0) -> None:
        self._send(buf, dest, tag, True, "Ssend")

    def Recv(self, buf, source: int | None = None, tag: int | None = None, status=None) -> None:
        self._recv(buf, source, tag, status, "Recv")

    def Sendrecv(
        self, sendbuf, dest: int, sendtag: int = 0, recvbuf=None, source=None, recvtag=None, status=None
    ) -> None:
        state = self._state
        call, base = "sendrecv" if recvbuf is OBJECT else "Sendrecv", state.round
        departure = self._post(sendbuf, dest, sendtag, False)
        received = self._recv(recvbuf, source, recvtag, status, call, base)
        if state.last_send > state.round:
            state.round = state.last_send
        if departure is not None:
            self._depart(departure, call, dest)
        return received

    def Isend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        return self._isend(buf, dest, tag, False, "Isend")

    def Issend(self, buf, dest: int, tag: int = 0) -> SendRequest:
        return self._isend(buf, dest, tag, True, "Issend")

    def Irecv(self, buf, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(buf, source, tag, "Irecv")

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
        return self._recv(OBJECT, source, tag, status, "recv")

    def sendrecv(self, sendobj, dest: int, sendtag=0, recvbuf=None, source=None, recvtag=None, status=None):
        return self.Sendrecv(pickle.dumps(sendobj, 5), dest, sendtag, OBJECT, source, recvtag, status)

    def isend(self, obj, dest: int, tag: int = 0) -> SendRequest:
        return self._isend(pickle.dumps(obj, 5), dest, tag, False, "isend")

    def irecv(self, buf=None, source: int | None = None, tag: int | None = None) -> ReceiveRequest:
        return self._irecv(OBJECT, source, tag, "irecv")

    def probe(self, source=None, tag=None, status=None) -> bool:
        return self._probe(source, tag, status, "probe")

    def iprobe(self, source=None, tag=None, status=None) -> bool:
        return self._iprobe(source, tag, status)
