"""The wires: bytes on their way, and how messages that meet in a port share its bandwidth.

    Wires    all that is on its way in one run
    Flow     the bytes of one message
    Port     a rank's or a network card's way out or in
    Call     a function that is called at a time, in the place of a rank that waits for a flow

A flow takes its sender's port out and its receiver's port in at the same time, at full speed while
it is alone in both. Flows that meet share fairly: max-min fairness (Bertsekas and Gallager, Data
Networks, 1992, 6.5.2), as in SimGrid; TCP connections and the queue pairs of an InfiniBand card
come near to it. Two things stay in order: messages of one channel leave one after the other, and
what a rank sends after a blocking Send leaves after that.

Times of flows are those at the sender: the receiver's port is taken for as long, one latency later.
All channels of a port have the same latency, so flows that meet at one end are early or late by the
same time.

A flow that finds both ports idle is *booked*: its end is known at once, and nothing happens until
then. That is as good as all of them in most programs, and fast. Comes another before that end, the
flow is taken back: its end is unknown (infinite) from then on, until it is over. Who was told the
earlier end comes then, looks, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import inf

from virtual.engine import Engine

# flows whose ends are this close, as a share of the time since the last change, end together
SAME = 1e-9
ROUNDING = 1 + 1e-12  # of shares that are equal


class Wires:
    """All that is on its way in one run."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.changed: list[Flow] = []  # flows whose share is to be found anew, at this time

    def begin(
        self, channel, size: float, ready: float, now: float, before: Flow | None = None
    ) -> Flow:
        """Let `size` bytes leave from `ready` on, behind what is in `channel` and behind the flow
        `before`.

        now: the time before which nobody acts any more.
        """
        out = channel.out
        into = channel.into
        seconds = size / channel.bandwidth
        if out.free <= now and into.free <= now:
            end = ready + seconds
            free = ready + channel.gap
            if free < end:
                free = end
            flow = Flow(channel, seconds, ready, end)
            out.free = into.free = free
            out.booked = into.booked = channel.last = flow
            if self.engine.trace is not None:
                self._note(flow, size)
        else:
            flow = Flow(channel, seconds, inf, inf)
            if self.engine.trace is not None:
                self._note(flow, size)
            flow.asked = []
            flow.behind = [
                other for other in (channel.last, before) if other is not None and other.end > now
            ]
            channel.last = flow
            _take(flow)
            if ready > self.engine.time:
                self.engine.put(ready, partial(self._try, flow))
            else:
                self._try(flow, ready)
        return flow

    def tell(self, flow: Flow, waiter, delay: float) -> None:
        """Call waiter.wake(time) with the end of `flow` and `delay` on top, as soon as that end is
        known."""
        if flow.end < inf:
            waiter.wake(flow.end + delay)
        else:
            flow.asked.append((waiter, delay))

    def _try(self, flow: Flow, time: float) -> None:
        """Let a flow begin, unless one before it has not left."""
        for other in flow.behind:
            if other.end > time:
                self.tell(other, Call(self.engine, partial(self._try, flow)), 0.0)
                return
        flow.behind = []
        gap = flow.channel.gap
        if gap:
            ports = flow.ports()
            start = max(time, *(port.opens(gap) for port in ports))
            for port in ports:
                port.opened = start + gap
            if start > time:
                self.engine.put(start, partial(self._join, flow))
                return
        self._join(flow, time)

    def _join(self, flow: Flow, time: float) -> None:
        """Its bytes begin to leave: alone, or beside others."""
        out = flow.channel.out
        into = flow.channel.into
        flow.start = time
        if flow.seconds:
            for port in (out, into):
                if port.booked is not None:
                    self._take_back(port.booked, time)
            if out.flows or into.flows:
                self._share(flow, flow.seconds, time)
                return
            out.booked = into.booked = flow
        self._known(flow, time + flow.seconds)

    def _take_back(self, flow: Flow, time: float) -> None:
        """Another flow begins in a port that was booked for this one."""
        if flow.end <= time:
            return
        for port in flow.ports():
            port.opened = port.opens(flow.channel.gap)
            port.booked = None
        _take(flow)
        flow.asked = []
        left = flow.end - time
        flow.end = inf
        if flow.start > time:
            self.engine.put(flow.start, partial(self._join, flow))
        else:
            self._share(flow, left, time)

    def _share(self, flow: Flow, left: float, time: float) -> None:
        flow.left = left
        flow.group = None
        for port in flow.ports():
            port.flows[flow] = None
        self._change(flow, time)

    def _change(self, flow: Flow, time: float) -> None:
        """Find new shares once all that happens at this time has happened."""
        if not self.changed:
            self.engine.put(time, self._settle)
        self.changed.append(flow)

    def _settle(self, time: float) -> None:
        """New shares for those that changed and for all that they meet, directly or not."""
        changed = self.changed
        self.changed = []
        seen: set[Flow] = set()
        for flow in changed:
            if flow in seen or flow.end < inf:
                continue
            flows = _connected(flow, seen)
            for other in flows:
                if other.group is not None:
                    other.group.advance(time)
            _find_shares(flows)
            group = Group(flows, time)
            self.engine.put(group.ends(), partial(self._end, group))

    def _end(self, group: Group, time: float) -> None:
        """The first flows of a group are over, unless its shares have changed since."""
        if group.over:
            return
        group.advance(time)
        last = time + SAME * (time - group.since)
        for flow in group.flows:
            flow.group = None
            if flow.due > last:
                self._change(flow, time)
                continue
            for port in flow.ports():
                del port.flows[flow]
            self._known(flow, time)

    def _known(self, flow: Flow, end: float) -> None:
        """The end of a flow that was unknown is `end`. Its ports are free then, if nobody else
        needs them."""
        flow.end = end
        for port in flow.ports():
            port.needed -= 1
            if not port.needed:
                port.free = max(end, port.opened)
        if self.engine.trace is not None:
            flow.entry[2:4] = flow.start, end
        asked = flow.asked
        flow.asked = []
        for waiter, delay in asked:
            waiter.wake(end + delay)

    def _note(self, flow: Flow, size: float) -> None:
        """Into the trace; its times are put right when they change."""
        channel = flow.channel
        flow.entry = [channel.source.rank, "send", flow.start, flow.end, channel.dest.rank, size]
        self.engine.trace.append(flow.entry)


class Flow:
    """The bytes of one message on their way. start, end: seconds, when the first and the last byte
    leaves.

    An end that may still change is infinite. seconds: what it takes at full speed. While the end is
    unknown: behind: flows that leave before. asked: (who, delay), to be told of the end. left:
    seconds at full speed that remained when `group` began. rate: its share of the speed. due: when
    it is over at that rate.
    """

    __slots__ = (
        "asked", "behind", "channel", "due", "end", "entry", "group", "left", "rate", "seconds",
        "start",
    )  # fmt: skip

    def __init__(self, channel, seconds: float, start: float, end: float):
        self.channel = channel
        self.seconds = seconds
        self.start = start
        self.end = end

    def ports(self) -> tuple[Port, ...]:
        channel = self.channel
        return (channel.out,) if channel.out is channel.into else (channel.out, channel.into)


class Group:
    """Flows that meet, directly or through others, with shares that hold from `since` on until it
    is over."""

    __slots__ = ("flows", "over", "since")

    def __init__(self, flows: list[Flow], since: float):
        self.flows = flows
        self.since = since
        self.over = False
        for flow in flows:
            flow.group = self
            flow.due = since + flow.left / flow.rate

    def ends(self) -> float:
        """When the first of them is over."""
        return min(flow.due for flow in self.flows)

    def advance(self, time: float) -> None:
        """Their shares end at `time`."""
        if self.over:
            return
        self.over = True
        passed = time - self.since
        for flow in self.flows:
            flow.left = max(0.0, flow.left - flow.rate * passed)


class Port:
    """A rank's or a network card's way out or in.

    free: seconds, from when on it is idle; infinite while a flow of unknown end needs it. booked:
    the flow of known end that has it, or had it last. needed: flows of unknown end that need it.
    flows: those of them that share it. opened: when the next message may begin (see Link.gap).
    room, unserved: of _find_shares.
    """

    __slots__ = ("booked", "flows", "free", "needed", "opened", "room", "unserved")

    def __init__(self):
        self.free = 0.0
        self.booked: Flow | None = None
        self.needed = 0
        self.flows: dict[Flow, None] = {}  # in the order in which they came
        self.opened = 0.0

    def opens(self, gap: float) -> float:
        """When the next message may begin."""
        return self.opened if self.booked is None else max(self.opened, self.booked.start + gap)


class Call:
    """Waits like a rank: `wake(time)` lets event(time) be called at that time."""

    def __init__(self, engine: Engine, event: Callable[[float], None]):
        self.engine = engine
        self.event = event

    def wake(self, time: float) -> None:
        self.engine.put(max(time, self.engine.time), self.event)


def _take(flow: Flow) -> None:
    """Its end is unknown: its ports are not free."""
    for port in flow.ports():
        port.needed += 1
        port.free = inf


def _connected(first: Flow, seen: set[Flow]) -> list[Flow]:
    """`first` and all flows that it meets, directly or through others. They are added to `seen`."""
    flows = [first]
    seen.add(first)
    ports: set[Port] = set()
    for flow in flows:
        for port in flow.ports():
            if port not in ports:
                ports.add(port)
                fresh = [other for other in port.flows if other not in seen]
                seen.update(fresh)
                flows += fresh
    return flows


def _find_shares(flows: Iterable[Flow]) -> None:
    """Max-min fair rates, of ports that all have the speed 1.

    Progressive filling: the port whose flows get least gives each of them an equal part of what it
    has left; then the next of those that remain.
    """
    ports: dict[Port, None] = {}
    for flow in flows:
        flow.rate = 0.0
        for port in flow.ports():
            ports[port] = None
    for port in ports:
        port.room = 1.0
        port.unserved = len(port.flows)
    left = list(ports)
    while left:
        share = min(port.room / port.unserved for port in left)
        for port in [port for port in left if port.room / port.unserved <= share * ROUNDING]:
            for flow in port.flows:
                if flow.rate == 0.0:
                    flow.rate = share
                    for end in flow.ports():
                        end.room -= share
                        end.unserved -= 1
        left = [port for port in left if port.unserved]
