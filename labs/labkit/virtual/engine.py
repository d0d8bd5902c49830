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

    __slots__ = ("engine", "now", "state", "switch", "thread", "waits")

    def __init__(self, engine: Engine, state: State, now: float):
        self.engine, self.state, self.now = engine, state, now
        self.waits = None  # while it is blocked: what for (see explain)
        self.thread: greenlet | None = None
        self.switch: Callable | None = None

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

    def run(self, programs: list[Callable[[], object]]) -> list[Lane]:
        """Run one program per rank to the end. Returns the lanes that are stuck, in order of rank.

        What a program raised is in `error`, the lane that raised it in `failed`.
        """
        global current
        before, self.hub = current, getcurrent()
        try:
            for state, program in zip(self.states, programs, strict=True):
                state.lane = self.start(state, program, done=self._keep)
            while self.heap and self.error is None:
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
        """End the programs that have not ended."""
        for lane in self.lanes:
            if lane.thread is not None and not lane.thread.dead:
                lane.thread.throw(GreenletExit)

    def _keep(self, lane: Lane, result: object) -> None:
        self.results[lane.state.rank] = result
