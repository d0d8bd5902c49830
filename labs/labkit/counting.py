"""Communicators that listen: they pass a program's calls on and note what was called, sent and when.

    MessageCounter       Send, Recv and Sendrecv alone, with rounds and messages counted (labs 21 to 24)
    CallLog              every call, by its name, requests and what is computed meanwhile (labs 20, 30, 34)
    CollectiveLog        collectives with their values and times, their requests with Tests (lab 32)

and what tries a function with them on real ranks: `on_every_size`, `count`, `expect_sum`.

Rounds are counted as on paper: in one round a rank sends at most one message and receives at most one, and a
message arrives in the round in which it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from labkit import launch, profiling
from labkit.checks import expect
from labkit.errors import LabError
from labkit.virtual import Vector

# ------------------------------------------------------------------------------------- trying a function


def on_every_size(comm, function: Callable) -> dict[int, object]:
    """Call function(group) on all ranks, on all but the last, … on one. Returns {ranks: own result}.

    It holds the sizes in which this rank takes part; rank 0 has them all.
    """
    groups = {size: comm.Split(int(comm.rank >= size)) for size in range(comm.size, 0, -1)}
    results = {}
    for size, group in groups.items():
        if comm.rank < size:
            with launch.case(f"in a group of {size} ranks" if size > 1 else "in a group of 1 rank"):
                results[size] = function(group)
    return results


class Message(NamedTuple):
    """One message from rank `source` to rank `dest`: `values` array elements, sent in round 1, 2, …."""

    source: int
    dest: int
    values: int
    round: int


class Cost(NamedTuple):
    """What a function cost on all ranks together."""

    rounds: int
    messages: list[Message]

    @property
    def values(self) -> int:
        """Array elements sent by all ranks together."""
        return sum(message.values for message in self.messages)

    @property
    def busiest(self) -> int:
        """Array elements sent by the rank that sent most."""
        sent: dict[int, int] = {}
        for message in self.messages:
            sent[message.source] = sent.get(message.source, 0) + message.values
        return max(sent.values(), default=0)


def count(comm, function: Callable, *args: object) -> Cost:
    """Run function(message counter, *args) on all ranks of `comm`. Returns the Cost, on every rank."""
    group = comm.Dup()  # a message that nobody received must not reach what is called next
    counter = MessageCounter(group)
    function(counter, *args)
    rounds, messages = zip(*comm.allgather((counter.round, counter.messages)), strict=True)
    return Cost(max(rounds), [message for sent in messages for message in sent])


def expect_sum(comm, function: Callable, lengths: Iterable[int] = (3, 40_001)) -> None:
    """Fail unless function(comm, vector) leaves the sum over all ranks in every rank's vector.

    lengths: values per vector. Only Send, Recv and Sendrecv are there: MPI's own Allreduce is no answer.
    """
    for length in lengths:
        start = np.random.default_rng(length).integers(1, 1000, (comm.size, length)).astype(np.float64)
        vector = start[comm.rank].copy()
        count(comm, function, vector)
        subject = f"{comm.size} real ranks, {length} values: rank {comm.rank}'s sum"
        expect.close(vector, start.sum(axis=0), subject)


# ----------------------------------------------------------------------------------------- communicators


class MessageCounter:
    """An mpi4py communicator that passes Send, Recv and Sendrecv of arrays on and counts them. No more.

    A message's tag tells the receiver the sender's round: tags of the function's own are not looked at.
    """

    def __init__(self, comm):
        from mpi4py import MPI

        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.round = 0
        self.messages: list[Message] = []
        self._nobody = MPI.PROC_NULL
        self._anyone = MPI.ANY_SOURCE
        self._status = MPI.Status()

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def Send(self, buf, dest: int, tag: int = 0) -> None:
        self._pass_on(buf, dest, None, self._nobody)

    def Recv(self, buf, source: int | None = None, tag: int = 0) -> None:
        self._pass_on(None, self._nobody, buf, source)

    def Sendrecv(self, sendbuf, dest: int, sendtag=0, recvbuf=None, source=None, recvtag=0) -> None:
        self._pass_on(sendbuf, dest, recvbuf, source)

    def _pass_on(self, sendbuf, dest: int, recvbuf, source: int | None) -> None:
        if dest != self._nobody:
            array = sendbuf[0] if isinstance(sendbuf, list | tuple) else sendbuf  # [array, MPI.FLOAT]
            self.messages.append(Message(self.rank, dest, int(np.size(array)), self.round + 1))
        source = self._anyone if source is None else source
        self.comm.Sendrecv(sendbuf, dest, self.round + 1, recvbuf, source, status=self._status)
        self.round = max(self.round + 1, self._status.tag)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise LabError(f"comm.{name} is not there: build it from comm.Send, comm.Recv and comm.Sendrecv.")


class CallLog:
    """A communicator that passes everything on and notes what is called, and what is done to the requests.

    calls: the names of the calls, in order. requests: of Isend, Irecv, isend, irecv, each a LoggedRequest.
    computed: an entry for each piece of arithmetic with an array of `watch`.
    """

    STARTING = ("Isend", "Irecv", "isend", "irecv")

    def __init__(self, comm):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.calls: list[str] = []
        self.requests: list = []
        self.computed: list[Computed] = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(self.comm, name)
        if name in ("Get_rank", "Get_size"):
            return method
        self.calls.append(name)
        if name not in self.STARTING:
            return method

        def start(*args, **options):
            request = _logged(method(*args, **options), name)
            self.requests.append(request)
            return request

        return start

    def watch(self, array: np.ndarray) -> np.ndarray:
        """The same memory, as an array whose arithmetic is noted in `computed`; so is that of its slices."""
        watched = array.view(Watched)
        watched.log = self
        return watched

    def under_way(self) -> int:
        """Requests that no Wait or Test has ended yet."""
        return sum(not over(request) for request in self.requests)


class Computed(NamedTuple):
    """Arithmetic with a watched array: values of its result, and how many requests were then under way."""

    values: int
    under_way: int


class Watched(np.ndarray):
    """An array that tells its CallLog of all arithmetic with it, with its slices and with the results."""

    log = None

    def __array_finalize__(self, source):
        self.log = getattr(source, "log", None)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        plain = [np.asarray(value) if isinstance(value, Watched) else value for value in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(array) for array in out)
        result = getattr(ufunc, method)(*plain, **options)
        if self.log is not None:
            self.log.computed.append(Computed(int(np.size(result)), self.log.under_way()))
        if out is not None:
            return out[0]
        if type(result) is np.ndarray:
            result = result.view(Watched)
            result.log = self.log
        return result


def _logged(request, call: str):
    """The request of mpi4py as one that remembers the call that made it, for every way to wait for it."""
    from mpi4py import MPI

    class Logged(MPI.Request):
        """What MPI.Request.Waitall takes too; MPI empties it when it is over."""

    logged = Logged(request)
    logged.call = call
    return logged


def over(request) -> bool:
    """Has a Wait or Test seen the end of a request of a CallLog?"""
    return not request


class Call(NamedTuple):
    """A collective that was begun: name, values, its array's address, begin and end (seen) in seconds."""

    name: str
    values: int
    address: int
    begin: float
    end: list[float]  # one value, as soon as a Wait or Test has seen the end


class LoggedRequest:
    """An MPI request that notes when its end was seen, and how often it was asked."""

    def __init__(self, request, call: Call, log: CollectiveLog):
        self._request = request
        self._call = call
        self._log = log

    def Wait(self) -> bool:
        self._request.Wait()
        self._log.ended(self._call)
        return True

    def Test(self) -> bool:
        self._log.tests += 1
        over = self._request.Test()
        if over:
            self._log.ended(self._call)
        return bool(over)


class CollectiveLog:
    """A communicator that passes everything on and keeps the collectives in `calls`.

    tests: Test calls so far. Non-blocking collectives return requests with Wait and Test.
    scale: on virtual ranks, how many times its own bytes an array counts in messages and additions, and where
    an algorithm is chosen by bytes.
    """

    BLOCKING = ("Allreduce", "Reduce", "Bcast", "Barrier")
    STARTING = ("Iallreduce", "Ireduce", "Ibcast")

    def __init__(self, comm, scale: float = 1.0):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.scale = scale
        self.calls: list[Call] = []
        self.tests = 0
        self.clock: Callable[[], float] = getattr(comm, "Wtime", perf_counter)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(self.comm, name)
        if name not in self.BLOCKING + self.STARTING:
            return method

        def collective(*args, **options):
            call = self._begin(name, args)
            if self.scale != 1:
                args = [self._larger(argument) for argument in args]
                options = {key: self._larger(argument) for key, argument in options.items()}
            request = method(*args, **options)
            if name in self.STARTING:
                return LoggedRequest(request, call, self)
            self.ended(call)
            return None

        return collective

    def _begin(self, name: str, args: tuple) -> Call:
        """Keep a call that begins now, known by the first array among its arguments."""
        arrays = [_array(argument) for argument in args]
        array = next((array for array in arrays if array is not None), np.empty(0))
        call = Call(name, int(array.size), _address(array), self.clock(), [])
        self.calls.append(call)
        return call

    def _larger(self, argument):
        """The same memory, as an array that counts `scale` times its bytes."""
        if not isinstance(argument, np.ndarray):
            return argument
        larger = argument.view(Vector)
        larger.scale = self.scale
        return larger

    def ended(self, call: Call) -> None:
        """The end of `call` was seen just now. On real ranks a recording (labkit.profiling) is told."""
        if not call.end:
            call.end.append(self.clock())
            if self.clock is perf_counter:
                profiling.mark("communication", call.begin, call.end[0], f"{call.name} {call.values}")


def _array(argument):
    """The array of `array` or `[array, MPI.FLOAT]`; None of MPI.IN_PLACE and its like."""
    first = argument[0] if isinstance(argument, list | tuple) and argument else argument
    return first if isinstance(first, np.ndarray) else None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
