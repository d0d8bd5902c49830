"""The communicator of a virtual rank: mpi4py's names and meaning."""

from __future__ import annotations

from labkit.errors import LabError
from labkit.virtual.buffers import pack
from labkit.virtual.collectives import Collectives
from labkit.virtual.exchange import OBJECT, Exchange
from labkit.virtual.groups import Groups
from labkit.virtual.lacking import add_to_comm
from labkit.virtual.lanes import Lane
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
