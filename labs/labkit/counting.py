"""Communicators that listen: they pass a program's calls on and note what was called, sent and
when.

    MessageCounter       messages of arrays alone, with rounds and messages counted (labs 21 to 24)
    CallLog              every call, by its name, requests and what is computed meanwhile (labs 20,
                         30, 34)
    PassOn               nothing: what a class of its own counts, it adds (labs 66 to 68)

and what tries a function with them on real ranks: `on_every_size` (on the numbers of ranks that
`sizes_of_groups` gives), `count`, `expect_sum`.

Rounds are counted as on paper: in one round a rank sends at most one message and receives at most
one, and a message arrives in the round in which it was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from labkit import launch, mpi
from labkit.checks import expect
from labkit.errors import LabError, counted

# -------------------------------------------------------------------------------- trying a function

EVERY_SIZE = 8  # up to here a function is tried on each number of ranks


def sizes_of_groups(ranks: int) -> list[int]:
    """The numbers of ranks on which `on_every_size` tries a function, the largest first.

    All of them up to eight. In a larger job, those up to eight, all ranks, and all but the last:
    a mistake that depends on the number of ranks shows there, and time does not grow with the
    square of the job.
    """
    return [size for size in range(ranks, 0, -1) if size <= EVERY_SIZE or size >= ranks - 1]


def on_every_size(comm, function: Callable) -> dict[int, object]:
    """Call function(group) on all ranks, on all but the last, … on one. Returns {ranks: own
    result}.

    It holds the sizes in which this rank takes part; rank 0 has them all. Of more than eight ranks
    not all sizes are tried: see `sizes_of_groups`.
    """
    groups = {size: comm.Split(int(comm.rank >= size)) for size in sizes_of_groups(comm.size)}
    results = {}
    for size, group in groups.items():
        if comm.rank < size:
            with launch.case(f"in a group of {counted(size, 'rank')}"):
                results[size] = function(group)
    return results


class Message(NamedTuple):
    """One message from rank `source` to rank `dest`: `values` array elements, sent in round 1, 2,
    …."""

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
    """Run function(message counter, *args) on all ranks of `comm`. Returns the Cost, on every rank.

    An error if a request of the function's was never waited for.
    """
    group = comm.Dup()  # a message that nobody received must not reach what is called next
    counter = MessageCounter(group)
    function(counter, *args)
    left = [request.call for request in counter.requests if not request.over]
    if left:
        raise LabError(f"comm.{left[0]} starts a message, and nobody waits for its end: call Wait.")
    rounds, messages = zip(*comm.allgather((counter.round, counter.messages)), strict=True)
    return Cost(max(rounds), [message for sent in messages for message in sent])


def expect_sum(comm, function: Callable) -> None:
    """Fail unless function(comm, vector) leaves the sum over all ranks in every rank's vector.

    Vectors are short and long, of float64 and of float32. Only messages of arrays are there: MPI's
    own Allreduce is no answer.
    """
    for length, dtype in ((3, "float64"), (40_001, "float64"), (40_001, "float32")):
        start = np.random.default_rng(length).integers(1, 1000, (comm.size, length)).astype(dtype)
        vector = start[comm.rank].copy()
        count(comm, function, vector)
        subject = f"{comm.size} real ranks, {length} values, {dtype}: rank {comm.rank}'s sum"
        expect.close(vector, start.sum(axis=0), subject)


# ------------------------------------------------------------------------------------ communicators


class MessageCounter:
    """An mpi4py communicator that passes messages of arrays on and counts them. No more.

    A message's tag tells the receiver the sender's round: tags of the function's own are not looked
    at.
    """

    def __init__(self, comm):
        from mpi4py import MPI

        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.round = 0
        self.messages: list[Message] = []
        self.requests: list[HeardRequest] = []
        # The rounds of the last message that left and of the last that came: later than `round`
        # while nobody has waited for them.
        self._last_sent = 0
        self._last_received = 0
        self._anyone = MPI.ANY_SOURCE
        self._status = MPI.Status

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def Send(self, buf, dest: int, tag: int = 0) -> None:
        turn = self._leaves(buf, dest)
        self.comm.Send(buf, dest, turn)
        self.round = max(self.round, turn)

    def Ssend(self, buf, dest: int, tag: int = 0) -> None:
        turn = self._leaves(buf, dest)
        self.comm.Ssend(buf, dest, turn)
        self.round = max(self.round, turn)

    def Recv(self, buf, source: int | None = None, tag: int | None = None, status=None) -> None:
        status = self._status() if status is None else status
        self.comm.Recv(buf, self._source(source), status=status)
        self._arrived(self.round, status)

    def Sendrecv(
        self, sendbuf, dest: int, sendtag=0, recvbuf=None, source=None, recvtag=None, status=None
    ) -> None:
        base = self.round
        turn = self._leaves(sendbuf, dest)
        status = self._status() if status is None else status
        self.comm.Sendrecv(sendbuf, dest, turn, recvbuf, self._source(source), status=status)
        self.round = max(self.round, turn)
        self._arrived(base, status)

    def Isend(self, buf, dest: int, tag: int = 0) -> HeardRequest:
        turn = self._leaves(buf, dest)
        return self._heard(
            "Isend", self.comm.Isend(buf, dest, turn), lambda status: self._left(turn)
        )

    def Issend(self, buf, dest: int, tag: int = 0) -> HeardRequest:
        turn = self._leaves(buf, dest)
        return self._heard(
            "Issend", self.comm.Issend(buf, dest, turn), lambda status: self._left(turn)
        )

    def Irecv(self, buf, source: int | None = None, tag: int | None = None) -> HeardRequest:
        base = self.round
        request = self.comm.Irecv(buf, self._source(source))
        return self._heard("Irecv", request, lambda status: self._arrived(base, status))

    def _heard(self, call: str, request, ended: Callable) -> HeardRequest:
        heard = HeardRequest(request, call, ended, self._status)
        self.requests.append(heard)
        return heard

    def _source(self, source: int | None) -> int:
        source = self._anyone if source is None else source
        _expect_rank("source", source, self.size)
        return source

    def _leaves(self, buf, dest: int) -> int:
        """The round in which a message leaves, which is kept; 0 if it is for nobody."""
        _expect_rank("dest", dest, self.size)
        if mpi.is_nobody(dest):
            return 0
        array = buf[0] if isinstance(buf, list | tuple) else buf  # [array, MPI.FLOAT]
        self._last_sent = max(self._last_sent, self.round) + 1
        self.messages.append(Message(self.rank, int(dest), int(np.size(array)), self._last_sent))
        return self._last_sent

    def _left(self, turn: int) -> None:
        self.round = max(self.round, turn)

    def _arrived(self, base: int, status) -> None:
        """A message has come for a receive that was called in round `base`; or none, from
        nobody."""
        if not mpi.is_nobody(status.source):
            self._last_received = max(max(self._last_received, base) + 1, status.tag)
            self.round = max(self.round, self._last_received)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise LabError(
            f"comm.{name} is not there: build it from comm.Send, comm.Recv and comm.Sendrecv."
        )


class PassOn:
    """A communicator that passes everything on, except what a subclass does itself."""

    def __init__(self, comm):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.comm, name)


class CallLog(PassOn):
    """A communicator that passes everything on and notes what is called, and what is done to the
    requests.

    calls: the names of the calls, in order. requests: of Isend, Irecv, isend, irecv, as
    MPI.Requests. computed: an entry for each piece of arithmetic with an array of `watch`. written:
    for each assignment to it, to its slices and to arrays made like it.
    """

    STARTING = ("Isend", "Irecv", "isend", "irecv")

    def __init__(self, comm):
        super().__init__(comm)
        self.calls: list[str] = []
        self.requests: list = []
        self.computed: list[Computed] = []
        self.written: list[Computed] = []

    def __getattr__(self, name: str):
        method = super().__getattr__(name)
        if name in ("Get_rank", "Get_size") or not callable(method):
            return method

        def call(*args, **options):
            self.calls.append(name)
            for side in ("dest", "source"):
                _expect_rank(side, _named(name, side, args, options), self.size)
            result = method(*args, **options)
            if name not in self.STARTING:
                return result
            request = _logged(result, name)
            self.requests.append(request)
            return request

        return call

    def watch(self, array: np.ndarray) -> np.ndarray:
        """The same memory, as an array whose arithmetic is noted in `computed`; so is that of its
        slices."""
        watched = array.view(Watched)
        watched.log = self
        return watched

    def under_way(self) -> int:
        """Requests that no Wait or Test has ended yet."""
        return sum(not over(request) for request in self.requests)


class Computed(NamedTuple):
    """Arithmetic with a watched array: values of the result, and how many requests were then under
    way."""

    values: int
    under_way: int


class Watched(np.ndarray):
    """An array that tells its CallLog of all arithmetic with it, with its slices and with the
    results."""

    log = None

    def __array_finalize__(self, source):
        self.log = getattr(source, "log", None)

    def __setitem__(self, place, values):
        super().__setitem__(place, values)
        if self.log is not None:
            self.log.written.append(Computed(int(np.size(self[place])), self.log.under_way()))

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
    """The request of mpi4py as one that remembers the call that made it, for every way to wait for
    it."""
    from mpi4py import MPI

    class Logged(MPI.Request):
        """What MPI.Request.Waitall takes too; MPI empties it when it is over."""

    logged = Logged(request)
    logged.call = call
    return logged


def over(request) -> bool:
    """Has a Wait or Test seen the end of a request of a CallLog?"""
    return not request


class HeardRequest:
    """A request that tells when its end was seen, by whichever of mpi4py's calls: `ended(status)`.

    call: what made it. new_status: makes the status that `ended` is given.
    """

    def __init__(self, request, call: str, ended: Callable, new_status: Callable):
        self.request = request
        self.call = call
        self.over = False
        self._ended = ended
        self._new_status = new_status

    def Wait(self, status=None) -> bool:
        if not self.over:
            status = self.own_status(status)
            self.request.Wait(status)
            self.end(status)
        return True

    def Test(self, status=None) -> bool:
        if not self.over:
            status = self.own_status(status)
            if self.request.Test(status):
                self.end(status)
        return self.over

    def wait(self, status=None) -> None:
        self.Wait(status)

    def test(self, status=None) -> tuple[bool, None]:
        return self.Test(status), None

    @classmethod
    def Waitall(cls, requests, statuses=None) -> bool:
        for place, request in enumerate(requests):
            request.Wait(None if statuses is None else statuses[place])
        return True

    @classmethod
    def Testall(cls, requests, statuses=None) -> bool:
        # Each is asked: it may move by its own Test alone.
        ended = [request.Test() for request in requests]
        return all(ended)

    @classmethod
    def Waitany(cls, requests, status=None) -> int:
        """The place of the first to be done; MPI.UNDEFINED if all have ended before."""
        left = [place for place, request in enumerate(requests) if not request.over]
        if not left:
            return mpi.UNDEFINED
        status = requests[left[0]].own_status(status)
        inner = [requests[place].request for place in left]
        place = left[type(inner[0]).Waitany(inner, status)]
        requests[place].end(status)
        return place

    waitall, waitany = Waitall, Waitany

    def own_status(self, status):
        return self._new_status() if status is None else status

    def end(self, status) -> None:
        self.over = True
        self._ended(status)


_PLACES = {
    "dest": {"send": 1, "ssend": 1, "isend": 1, "issend": 1, "sendrecv": 1},
    "source": {"recv": 1, "irecv": 1, "probe": 0, "iprobe": 0, "sendrecv": 4},
}


def _named(call: str, side: str, args: tuple, options: dict):
    """The argument `dest` or `source` of a call of mpi4py's, by whichever way it was given; None if
    not."""
    place = _PLACES[side].get(call.lower(), len(args))
    return options.get(side, args[place] if place < len(args) else None)


def _expect_rank(side: str, rank, size: int) -> None:
    """Some MPIs take -1 for MPI.PROC_NULL, as which a learner's `comm.rank - 1` on rank 0 was not
    meant."""
    if rank is not None and rank == mpi.PROC_NULL and not mpi.is_nobody(rank):
        raise LabError(mpi.no_such_rank(side, rank, size))
