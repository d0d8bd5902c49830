"""Who acts in a virtual run: lanes, each a thread of control with a clock, and what a rank has."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import TYPE_CHECKING

from greenlet import greenlet

if TYPE_CHECKING:
    from labkit.virtual.engine import Engine


class Receive:
    """A receive that was posted. into: the array it fills, None for an object. channel: None for any source.

    message, channel, arrive: what it met, and when the last byte is there. waiter: who is to be woken then.
    order: receives take messages in the order in which they were posted. base: the rank's round then.
    """

    __slots__ = (
        "arrive",
        "base",
        "channel",
        "context",
        "into",
        "message",
        "order",
        "posted",
        "tag",
        "waiter",
    )

    def __init__(self):
        self.message = self.waiter = None


class Lane(Receive):
    """One thread of control of a rank: its program, or a non-blocking collective that runs beside it.

    It is also the one blocking receive that it can have at a time: an object less for every message.
    """

    __slots__ = ("engine", "looked", "looks", "now", "since", "state", "switch", "thread", "turn", "waits")

    def __init__(self, engine: Engine, state: State, now: float):
        super().__init__()
        self.engine, self.state, self.now = engine, state, now
        self.waits = None  # while it is blocked: (call, communicator, "from" or "to", peer, tag)
        self.thread: greenlet | None = None
        self.switch: Callable | None = None
        self.looks, self.since, self.looked, self.turn = 0, now, now, -1  # see `look`

    def sync(self) -> None:
        """Return when no other rank is earlier in virtual time."""
        engine, now = self.engine, self.now
        if now > engine.time and (engine.front or (engine.times and engine.times[0] < now)):
            same = engine.waiting.get(now)  # as engine.put, at less cost
            if same is None:
                engine.waiting[now] = [self]
                heappush(engine.times, now)
            else:
                same.append(self)
            engine.next(self)

    def block(self) -> None:
        """Return when somebody has called `wake`."""
        self.engine.next(self)

    def wake(self, time: float) -> None:
        """Let this blocked lane go on at `time`, or now if that is past."""
        if time > self.now:
            self.now = time
        self.engine.put(self.now, self)

    def look(self, least: float, waits: tuple) -> None:
        """A Test or Iprobe has found nothing. It takes `least` seconds: else a loop of them would never end.

        In a loop that does nothing else a look takes 1 % of the time since the loop began, so that a long
        wait is not a million looks. waits: what it asked for. A loop that can never end is told as a
        deadlock.
        """
        state, engine = self.state, self.engine
        turn = state.round + state.last_send
        if turn != self.turn:  # it has sent or received since
            self.turn, self.looks, self.since = turn, 0, self.now
        elif self.looked != self.now:  # it has computed since
            self.since = self.now
        self.looks += 1
        self.waits = waits
        self.now = self.looked = self.now + max(least, min(10.0, (self.now - self.since) / 100))
        if self.looks % 1000 == 0 and engine.endless():
            engine.over()
        self.sync()

    def spend(self, seconds: float, kind: str = "compute") -> None:
        """Let the clock of this lane run on."""
        trace = self.engine.trace
        if trace is not None and seconds > 0:
            trace.append((self.state.rank, kind, self.now, self.now + seconds, -1, 0))
        self.now += seconds


class State:
    """What a rank has: its channels (see transport), receives from anyone, requests, and its rounds."""

    __slots__ = (
        "arrivals", "careful", "collectives", "incoming", "lane", "last_recv", "last_send", "node",
        "outgoing", "pending", "rank", "round", "watchers", "wild",
    )  # fmt: skip

    def __init__(self, rank: int, node: int):
        self.rank, self.node = rank, node
        self.lane: Lane | None = None
        self.incoming: dict[tuple, object] = {}  # (context, source) -> Channel
        self.outgoing: list = []  # Channels
        # Once it has received from ANY_SOURCE or probed, messages are matched when they arrive:
        self.careful = False
        self.arrivals: list = []  # (channel, message) that have arrived and that no receive has taken
        self.wild: list = []  # receives from ANY_SOURCE that no message has reached
        self.watchers: list = []  # lanes that wait for a message to arrive without taking it
        self.pending: list = []  # non-blocking requests that Wait or Test has not ended
        self.collectives: dict[int, int] = {}  # context -> collectives called so far
        self.round = self.last_send = self.last_recv = 0

    @property
    def sent(self) -> int:
        return sum(channel.messages for channel in self.outgoing)

    @property
    def sent_bytes(self) -> float:
        return sum(channel.nbytes for channel in self.outgoing)

    @property
    def received(self) -> int:
        """Messages sent to it: at the end of a run that is all right it has received all of them."""
        return sum(channel.messages for channel in self.incoming.values())

    @property
    def received_bytes(self) -> float:
        return sum(channel.nbytes for channel in self.incoming.values())
