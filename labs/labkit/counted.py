"""Trying a function on real ranks: on every number of them, and with its messages counted. Labs 20 to 30.

Rounds are counted as on paper: in one round a rank sends at most one message and receives at most one, and a
message arrives in the round in which it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from labkit.errors import LabError
from labkit.expectations import expect


def on_every_size(comm, function: Callable) -> dict[int, object]:
    """Call function(group) on all ranks, on all but the last, … on one. Returns {ranks: own result}.

    It holds the sizes in which this rank takes part; rank 0 has them all.
    """
    groups = {size: comm.Split(int(comm.rank >= size)) for size in range(comm.size, 0, -1)}
    return {size: function(group) for size, group in groups.items() if comm.rank < size}


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
    """Run function(counted communicator, *args) on all ranks of `comm`. Returns the Cost, on every rank."""
    group = comm.Dup()  # a message that nobody received must not reach what is called next
    counted = Counted(group)
    function(counted, *args)
    rounds, messages = zip(*comm.allgather((counted.round, counted.messages)), strict=True)
    return Cost(max(rounds), [message for sent in messages for message in sent])


def expect_sum(comm, function: Callable, lengths: Iterable[int] = (3, 40_001)) -> None:
    """Fail unless function(comm, vector) leaves the sum over all ranks in every rank's vector (lab 24).

    lengths: values per vector. Only Send, Recv and Sendrecv are there: MPI's own Allreduce is no answer.
    """
    for length in lengths:
        given = np.random.default_rng(length).integers(1, 1000, (comm.size, length)).astype(np.float64)
        mine = given[comm.rank].copy()
        count(comm, function, mine)
        expect.close(
            mine, given.sum(axis=0), f"{comm.size} real ranks, {length} values: rank {comm.rank}'s sum"
        )


class Counted:
    """An mpi4py communicator that passes Send, Recv and Sendrecv of arrays on and counts them. No more.

    A message's tag tells the receiver the sender's round: tags of the function's own are not looked at.
    """

    def __init__(self, comm):
        from mpi4py import MPI

        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        self.round, self.messages = 0, []
        self._nobody, self._anyone, self._status = MPI.PROC_NULL, MPI.ANY_SOURCE, MPI.Status()

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


class Tally:
    """A communicator that passes everything on and notes in `calls` the names of the calls that are made."""

    def __init__(self, comm):
        self.comm, self.rank, self.size, self.calls = comm, comm.rank, comm.size, []

    def __getattr__(self, name: str):
        if not name.startswith("__") and name not in ("Get_rank", "Get_size"):
            self.calls.append(name)
        return getattr(self.comm, name)
