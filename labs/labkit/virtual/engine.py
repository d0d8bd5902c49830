"""Ranks as greenlets, each with a clock of its own; the one that is earliest in virtual time runs.

A rank that waits is in nobody's way: it hands over to the next in time, directly. When a rank could act
before another that is earlier, it steps back first (`sync`). So everything that ranks share (ports, cards,
mailboxes) is touched in the order of virtual time, and a run gives the same times and the same matching
every time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from heapq import heappop, heappush

from greenlet import GreenletExit, getcurrent, greenlet

from labkit.virtual.lanes import Lane, State

current: Lane | None = None  # the lane that runs now, in whichever engine
PATIENCE = 100_000  # looks (see Lane.look) after which a loop of nothing else is called endless


class Engine:
    """One run: `engine.run(programs)` gives what each program returned.

    What goes on when: `waiting` holds for each time, in `times`, the lanes and events of that time in the
    order in which they came; `front` those of `time` that are still to go, the next one last. Ranks in step
    share their times, so this is a good deal faster than one heap of all of them.
    """

    def __init__(self, nodes: list[int], trace: bool = False):
        self.states = [State(rank, node) for rank, node in enumerate(nodes)]
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
        self, state: State, program: Callable[[], object], now: float = 0.0, done: Callable | None = None
    ) -> Lane:
        """Let `program` run as a new lane of the rank `state`; `done(lane, result)` is told of its end."""
        lane = Lane(self, state, now)

        def body(starter: greenlet) -> None:
            starter.switch()  # primed: begun by another rank, a thread would lie as deep as that one's
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

    def put(self, time: float, what: Lane | Callable[[float], None]) -> None:
        """Let a lane go on, or call an event, at `time`; of one time in the order in which they are put."""
        same = self.waiting.get(time)
        if same is None:
            self.waiting[time] = [what]
            heappush(self.times, time)
        else:
            same.append(what)

    def next(self, caller: Lane | None) -> None:
        """Hand over from `caller` (None: from the hub) to the next in time. Events are done on the way."""
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

    def at(self, time: float, event: Callable[[float], None]) -> None:
        """Call event(time) when all ranks have come to `time`."""
        self.put(time, event)

    def over(self) -> None:
        """Nobody can go on: back to `run`, which finds out why."""
        if getcurrent() is not self.hub:
            self.hub.switch()

    def endless(self) -> bool:
        """Do all who do not wait only ask, again and again, and nothing is on its way?"""
        asking = [current, *self.front, *(one for same in self.waiting.values() for one in same)]
        many = max(2000, PATIENCE // len(asking))
        self.stopped = all(type(one) is Lane and one.looks >= many for one in asking)
        return self.stopped

    def run(self, programs: list[Callable[[], object]]) -> list[Lane]:
        """Run one program per rank to the end. Returns the lanes that are stuck, in order of rank.

        What a program raised is in `error`, the lane that raised it in `failed`.
        """
        global current
        before, self.hub, thresholds = current, getcurrent(), gc.get_threshold()
        # Messages come and go by the million, and reference counts free them. Python would look for circles
        # among them every 700 objects.
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
        """End the programs that have not ended. One that catches that and calls again comes back here."""
        self.front, self.times, self.waiting = [], [], {}
        self.stopped, self.hub = True, getcurrent()
        for lane in self.lanes:
            for _ in range(100):
                if lane.thread.dead:
                    break
                lane.thread.parent = self.hub
                lane.thread.throw(GreenletExit)

    def _keep(self, lane: Lane, result: object) -> None:
        self.results[lane.state.rank] = result
