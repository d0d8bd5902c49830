"""Ranks as greenlets, each with a clock of its own; the one that is earliest in virtual time runs.

    Engine     one run: whose turn it is, and what is to happen when
    Lane       a thread of control with a clock: a rank's program, or a non-blocking collective
               beside it
    State      what a rank has: its channels, messages, requests and rounds
    Receive    a receive that was posted; a lane is its own blocking one

A rank that waits is in nobody's way: it hands over to the next in time, directly. When a rank could
act before another that is earlier, it steps back first (`Lane.sync`). So everything that ranks
share (ports, cards, mailboxes) is touched in the order of virtual time, and a run gives the same
times and the same matching every time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from heapq import heappop, heappush

from greenlet import GreenletExit, getcurrent, greenlet

PATIENCE = 100_000  # looks (see Lane.look) after which a loop of nothing else is called endless
COUNTING = 5  # times as many, where the loop's numbers change: it may be one that ends

current: Lane | None = None  # the lane that runs now, in whichever engine


class Engine:
    """One run: `engine.run(programs)`; what each program returned is then in `results`.

    nodes: the node of each rank. gamma: seconds per byte that a rank adds up. trace: keep what
    happened, in `trace`, as (rank, kind, start, end, peer, bytes).

    What goes on when: `waiting` holds for each time, in `times`, the lanes and events of that time
    in the order in which they came; `front` those of `time` that are still to go, the next one
    last. Ranks in step share their times, so this is a good deal faster than one heap of all of
    them.
    """

    def __init__(self, nodes: list[int], gamma: float = 0.0, trace: bool = False):
        self.states = [State(rank, node) for rank, node in enumerate(nodes)]
        self.gamma = gamma
        self.time = 0.0
        self.times: list[float] = []  # a heap
        self.waiting: dict[float, list] = {}
        self.front: list = []
        self.trace: list | None = [] if trace else None
        self.results: list = [None] * len(nodes)
        self.finished: list[Lane] = []
        self.error: BaseException | None = None
        self.failed: Lane | None = None
        self.lanes: list[Lane] = []
        self.hub: greenlet | None = None
        self.stopped = False

    def start(
        self,
        state: State,
        program: Callable[[], object],
        now: float = 0.0,
        done: Callable | None = None,
    ) -> Lane:
        """Let `program` run as a new lane of the rank `state`; `done(lane, result)` is told of its
        end."""
        lane = Lane(self, state, now)

        def body(starter: greenlet) -> None:
            # primed: begun by another rank, a thread would lie as deep as that one's
            starter.switch()
            try:
                result = program()
            except GreenletExit:
                return
            except BaseException as error:
                if self.error is None:
                    self.error = error
                    self.failed = lane
                return
            self.finished.append(lane)
            if done is not None:
                done(lane, result)

        lane.thread = greenlet(body, parent=self.hub)
        lane.switch = lane.thread.switch
        lane.switch(getcurrent())
        self.lanes.append(lane)
        lane.wake(now)
        return lane

    def put(self, time: float, what: Lane | Callable[[float], None]) -> None:
        """Let a lane go on, or call an event, at `time`; of one time in the order in which they are
        put."""
        same = self.waiting.get(time)
        if same is None:
            self.waiting[time] = [what]
            heappush(self.times, time)
        else:
            same.append(what)

    def next(self, caller: Lane | None) -> None:
        """Hand over from `caller` (None: from the hub) to the next in time. Events are done on the
        way."""
        global current
        while True:
            front = self.front
            if not front:
                if not self.times:
                    return self.over()
                self.time = heappop(self.times)
                self.front = front = self.waiting.pop(self.time)
                front.reverse()
            what = front.pop()
            if type(what) is Lane:
                if what is not caller:
                    current = what
                    what.switch()
                return None
            what(self.time)

    def over(self) -> None:
        """Nobody can go on: back to `run`, which finds out why."""
        if getcurrent() is not self.hub:
            self.hub.switch()

    def endless(self) -> bool:
        """Do all who do not wait only ask, again and again, and nothing is on its way?"""
        asking = [current, *self.front]
        for same in self.waiting.values():
            asking += same
        patience = max(2000, PATIENCE // len(asking))
        self.stopped = all(
            type(entry) is Lane and entry.looks >= patience * (COUNTING if entry.counts else 1)
            for entry in asking
        )
        return self.stopped

    def run(self, programs: list[Callable[[], object]]) -> list[Lane]:
        """Run one program per rank to the end. Returns the lanes that are stuck, in order of rank.

        What a program raised is in `error`, the lane that raised it in `failed`.
        """
        global current
        before = current
        self.hub = getcurrent()
        thresholds = gc.get_threshold()
        # Messages come and go by the million, and reference counts free them. Python would look for
        # circles among them every 700 objects.
        gc.set_threshold(max(thresholds[0], 200_000) if thresholds[0] else 0, *thresholds[1:])
        try:
            for state, program in zip(self.states, programs, strict=True):
                state.lane = self.start(state, program, done=self._keep)
            while (self.front or self.times) and self.error is None and not self.stopped:
                self.next(None)
            return [lane for lane in self.lanes if not lane.thread.dead]
        finally:
            current = before
            gc.set_threshold(*thresholds)

    def end(self) -> None:
        """End the programs that have not ended. One that catches that and calls again comes back
        here."""
        self.front = []
        self.times = []
        self.waiting = {}
        self.stopped = True
        self.hub = getcurrent()
        for lane in self.lanes:
            for _ in range(100):
                if lane.thread.dead:
                    break
                lane.thread.parent = self.hub
                lane.thread.throw(GreenletExit)

    def _keep(self, lane: Lane, result: object) -> None:
        self.results[lane.state.rank] = result


class State:
    """What a rank has: its channels (see transport), receives from anyone, requests, and its
    rounds.

    A round is one as on paper: in it a rank sends at most one message and receives at most one.
    """

    __slots__ = (
        "arrivals", "careful", "collectives", "incoming", "lane", "last_recv", "last_send", "node",
        "outgoing", "pending", "rank", "round", "watchers", "wild",
    )  # fmt: skip

    def __init__(self, rank: int, node: int):
        self.rank = rank
        self.node = node
        self.lane: Lane | None = None
        self.incoming: dict[tuple, object] = {}  # (context, source) -> Channel
        self.outgoing: list = []  # Channels
        # Once it has received from ANY_SOURCE or probed, messages are matched when they arrive:
        self.careful = False
        # (channel, message) that have arrived and that no receive has taken
        self.arrivals: list = []
        self.wild: list = []  # receives from ANY_SOURCE that no message has reached
        self.watchers: list = []  # lanes that wait for a message to arrive without taking it
        self.pending: list = []  # non-blocking requests that Wait or Test has not ended
        self.collectives: dict[int, int] = {}  # context -> collectives called so far
        self.round = self.last_send = self.last_recv = 0

    @property
    def sent(self) -> int:
        """Messages sent by it."""
        return sum(channel.messages for channel in self.outgoing)

    @property
    def sent_bytes(self) -> float:
        return sum(channel.nbytes for channel in self.outgoing)

    @property
    def received(self) -> int:
        """Messages sent to it: at the end of a run that is all right it has received all of
        them."""
        return sum(channel.messages for channel in self.incoming.values())

    @property
    def received_bytes(self) -> float:
        return sum(channel.nbytes for channel in self.incoming.values())


class Receive:
    """A receive that was posted. into: the array it fills, None for an object. channel: None for
    any source.

    message, channel, flow: what it met, and its bytes (see wires). waiter: who is to be woken when
    they are there, if that is not known yet. order: receives take messages in the order in which
    they were posted. base: the rank's round then.
    """

    __slots__ = (
        "base", "channel", "context", "flow", "into", "message", "order", "posted", "tag", "waiter",
    )  # fmt: skip

    def __init__(self):
        self.message = self.waiter = None


class Lane(Receive):
    """One thread of control of a rank: its program, or a non-blocking collective that runs beside
    it.

    It is also the one blocking receive that it can have at a time: an object less for every
    message.
    """

    __slots__ = (
        "counts", "engine", "leaving", "looked", "looks", "now", "numbers", "sent", "since",
        "state", "switch", "thread", "turn", "waits",
    )  # fmt: skip

    def __init__(self, engine: Engine, state: State, now: float):
        super().__init__()
        self.engine = engine
        self.state = state
        self.now = now
        self.sent = None  # the flow of its last message
        self.leaving = None  # that of its last blocking Send: what it sends later leaves after that
        self.waits = None  # while it is blocked: (call, communicator, "from" or "to", peer, tag)
        self.thread: greenlet | None = None
        self.switch: Callable | None = None
        self.looks = 0  # this and the next five: see `look`
        self.since = self.looked = now
        self.turn = -1
        self.numbers: list = []  # in the program's variables, noted every 1000 looks
        self.counts = True  # have they changed from one note to the next?

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
        """A Test or Iprobe has found nothing. It takes `least` seconds: else a loop of them would
        never end.

        In a loop that does nothing else a look takes 1 % of the time since the loop began, so that
        a long wait is not a million looks. waits: what it asked for. A loop that seems never to end
        is told as a deadlock, later if it counts.
        """
        state, engine = self.state, self.engine
        turn = state.round + state.last_send
        if turn != self.turn:  # it has sent or received since
            self.turn = turn
            self.looks = 0
            self.since = self.now
        elif self.looked != self.now:  # it has computed since
            self.since = self.now
        self.looks += 1
        self.waits = waits
        self.now = self.looked = self.now + max(least, min(10.0, (self.now - self.since) / 100))
        if self.looks % 1000 == 0:
            numbers = _numbers(sys._getframe(1))
            self.counts = numbers != self.numbers
            self.numbers = numbers
            if engine.endless():
                engine.over()
        self.sync()

    def spend(self, seconds: float, kind: str = "compute") -> None:
        """Let the clock of this lane run on."""
        trace = self.engine.trace
        if trace is not None and seconds > 0:
            trace.append((self.state.rank, kind, self.now, self.now + seconds, -1, 0))
        self.now += seconds


def _numbers(frame) -> list:
    """The numbers in the variables of a function and of its callers: a loop that counts changes
    one."""
    numbers = []
    while frame is not None:
        variables = frame.f_locals.values()
        numbers += [value for value in variables if isinstance(value, int | float)]
        frame = frame.f_back
    return numbers
