"""Ranks as greenlets, each with a clock of its own; the one that is earliest in virtual time runs.

A rank that waits is in nobody's way: it hands over to the next in `heap`, directly. When a rank could act before
another that is earlier, it steps back first (`sync`). So everything that ranks share (ports, cards, mailboxes) is
touched in the order of virtual time, and a run gives the same times and the same matching every time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush, heappushpop

from greenlet import GreenletExit, getcurrent, greenlet

current: Lane | None = None  # the lane that runs now, in whichever engine


class Lane:
    """One thread of control of a rank: its program, or a non-blocking collective that runs beside it."""

    __slots__ = ("engine", "looked", "looks", "now", "since", "state", "switch", "thread", "turn", "waits")

    def __init__(self, engine: Engine, state: State, now: float):
        self.engine, self.state, self.now = engine, state, now
        self.waits = None  # while it is blocked: what for (see explain)
        self.thread: greenlet | None = None
        self.switch: Callable | None = None
        self.looks, self.since, self.looked, self.turn = 0, now, now, -1  # see `look`

    def sync(self) -> None:
        """Return when no other rank is earlier in virtual time."""
        engine = self.engine
        heap = engine.heap
        if heap and heap[0][0] < self.now:
            engine.count += 1
            engine.go(heappushpop(heap, (self.now, engine.count, self)), self)

    def block(self) -> None:
        """Return when somebody has called `wake`."""
        engine = self.engine
        if engine.heap:
            engine.go(heappop(engine.heap), self)
        else:
            engine.over()

    def wake(self, time: float) -> None:
        """Let this blocked lane go on at `time`, or now if that is past."""
        if time > self.now:
            self.now = time
        engine = self.engine
        engine.count += 1
        heappush(engine.heap, (self.now, engine.count, self))

    def look(self, least: float, waits: tuple) -> None:
        """A Test or Iprobe has found nothing. It takes `least` seconds: without, a loop of them would never end.

        In a loop that does nothing else a look takes 1 % of the time since the loop began, so that long waits are
        not a million looks. waits: what it asked for. A loop that can never end is told as a deadlock.
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
    """What a rank has: mailboxes, receives that wait, requests not yet waited for, and its counters."""

    __slots__ = (
        "careful",
        "collectives",
        "lane",
        "last_recv",
        "last_send",
        "mail",
        "node",
        "order",
        "pending",
        "posted",
        "rank",
        "received",
        "received_bytes",
        "round",
        "sent",
        "sent_bytes",
        "watchers",
        "wild",
    )

    def __init__(self, rank: int, node: int):
        self.rank, self.node = rank, node
        self.lane: Lane | None = None
        self.mail: dict[tuple, deque] = {}  # (context, source) -> messages that no receive has taken
        self.posted: dict[tuple, deque] = {}  # (context, source) -> receives that no message has reached
        self.wild: list = []  # receives from ANY_SOURCE that no message has reached
        self.watchers: list = []  # lanes that wait for a message to arrive without taking it
        self.careful = (
            False  # once it has received from ANY_SOURCE or probed: messages are matched as they arrive
        )
        self.pending: list = []  # non-blocking requests that Wait or Test has not ended
        self.collectives: dict[int, int] = {}  # context -> collectives called so far
        self.order = self.round = self.last_send = self.last_recv = 0
        self.sent = self.sent_bytes = self.received = self.received_bytes = 0


class Engine:
    """One run: `engine.run(programs)` gives what each program returned."""

    def __init__(self, nodes: list[int], trace: bool = False):
        self.states = [State(rank, node) for rank, node in enumerate(nodes)]
        self.heap: list[tuple] = []
        self.count = 0  # ties in time are broken by who came first
        self.trace: list | None = [] if trace else None
        self.results: list = [None] * len(nodes)
        self.finished: list[Lane] = []
        self.error: BaseException | None = None
        self.failed: Lane | None = None
        self.lanes: list[Lane] = []
        self.hub: greenlet | None = None
        self.stopped = False

    def start(
        self, state: State, program: Callable[[], object], now: float = 0.0, done: Callable | None = None
    ) -> Lane:
        """Let `program` run as a new lane of the rank `state`; `done(lane, result)` is told of its end."""
        lane = Lane(self, state, now)

        def body(starter: greenlet) -> None:
            starter.switch()  # primed: a thread that is first run by another rank's would begin as deep as that one
            try:
                result = program()
            except GreenletExit:
                return
            except BaseException as error:
                if self.error is None:
                    self.error, self.failed = error, lane
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

    def go(self, item: tuple, caller: Lane) -> None:
        """Hand over to the next in time. Events in between are done on the way."""
        global current
        while True:
            what = item[2]
            if type(what) is Lane:
                if what is not caller:
                    current = what
                    what.switch()
                current = caller
                return
            what(item[0])
            if not self.heap:
                self.over()
                current = caller
                return
            item = heappop(self.heap)

    def at(self, time: float, event: Callable[[float], None]) -> None:
        """Call event(time) when all ranks have come to `time`."""
        self.count += 1
        heappush(self.heap, (time, self.count, event))

    def over(self) -> None:
        """Nobody can go on: back to `run`, which finds out why."""
        self.hub.switch()

    def endless(self) -> bool:
        """Do all who do not wait only ask, again and again, and nothing is on its way?"""
        many = max(2000, 100_000 // (1 + len(self.heap)))
        asking = [item[2] for item in self.heap] + [current]
        self.stopped = all(type(one) is Lane and one.looks >= many for one in asking)
        return self.stopped

    def run(self, programs: list[Callable[[], object]]) -> list[Lane]:
        """Run one program per rank to the end. Returns the lanes that are stuck, in order of rank.

        What a program raised is in `error`, the lane that raised it in `failed`.
        """
        global current
        before, self.hub = current, getcurrent()
        try:
            for state, program in zip(self.states, programs, strict=True):
                state.lane = self.start(state, program, done=self._keep)
            while self.heap and self.error is None and not self.stopped:
                item = heappop(self.heap)
                if type(item[2]) is Lane:
                    current = item[2]
                    current.switch()
                else:
                    item[2](item[0])
            return [lane for lane in self.lanes if not lane.thread.dead]
        finally:
            current = before

    def end(self) -> None:
        """End the programs that have not ended. Some catch that and call once more: `over` brings them back here."""
        self.heap.clear()
        self.stopped, self.hub = True, getcurrent()
        for lane in self.lanes:
            for _ in range(100):
                if lane.thread.dead:
                    break
                lane.thread.parent = self.hub
                lane.thread.throw(GreenletExit)

    def _keep(self, lane: Lane, result: object) -> None:
        self.results[lane.state.rank] = result
