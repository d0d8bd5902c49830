"""Messages: what they cost, which receive they meet, and what they carry. MPI's rules of matching.

    Transport    what carries the messages of one run: charges for them are those of its `wires`
    Channel      one direction between two ranks in one communicator
    Departure    the sender's side of a rendezvous

Send and receive meet as in MPI: by communicator, source and tag; messages of one pair in the order
in which they were sent, receives in the order in which they were posted. A receive from ANY_SOURCE
takes what has arrived first.

A message is a plain tuple, as a run may have millions of them:
    (tag, flow, turn, size, length, data, departure, mark)
flow: its bytes on their way; None of a rendezvous, whose bytes do not leave yet. turn: the sender's
round. size: the bytes that it stands for; length: the bytes that it has. data: None once it is in
the receiver's array. departure: of a rendezvous. mark: where it was sent (explain.mark), known only
if it had to wait.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from math import inf

from virtual import explain
from virtual.engine import Engine, Lane, Receive, State
from virtual.loggp import Link, Machine
from virtual.matching import Ledger
from virtual.wires import Call, Flow, Port, Wires

ANY = -2  # inside this package: any source, any tag
# messages that wait in one channel: from here on a deque is faster than a list, and worth its size
MANY = 64


class Transport:
    """The messages of one run. local: each rank's number on its node. ledger: of the run's
    collectives."""

    def __init__(self, engine: Engine, machine: Machine, local: list[int]):
        self.engine = engine
        self.wires = Wires(engine)
        self.ledger = Ledger()
        self.inside = machine.inside
        self.between = machine.between
        self.eager = machine.eager
        self.handshake = machine.handshake
        # Seconds of a Test or Iprobe that finds nothing.
        self.look = max(machine.inside.overhead, 1e-7)
        self.order = 0  # receives that have been posted and had to wait
        states = engine.states
        self.card = [
            state.node * machine.nics + local[state.rank] % machine.nics for state in states
        ]
        # Inside a node every rank has its own ports; between nodes those of a card share one, out
        # and in.
        self.out = [Port() for _ in states]
        self.into = [Port() for _ in states]
        self.card_out = [Port() for _ in range(max(self.card) + 1)]
        self.card_in = [Port() for _ in self.card_out]

    @property
    def links(self) -> dict[int, tuple[int, float]]:
        """source * ranks + dest -> (messages, bytes)."""
        counts: dict[int, tuple[int, float]] = {}
        ranks = len(self.engine.states)
        for state in self.engine.states:
            for channel in state.outgoing:
                if channel.messages:
                    key = channel.source.rank * ranks + channel.dest.rank
                    messages, nbytes = counts.get(key, (0, 0))
                    counts[key] = messages + channel.messages, nbytes + channel.nbytes
        return counts

    def channel(self, context: int, source: int, dest: int) -> Channel:
        """From rank `source` to rank `dest` of the world."""
        sender = self.engine.states[source]
        receiver = self.engine.states[dest]
        channel = receiver.incoming.get((context, source))
        if channel is None:
            link, out, into = self.inside, self.out[source], self.into[dest]
            if sender.node != receiver.node:
                link = self.between
                out, into = self.card_out[self.card[source]], self.card_in[self.card[dest]]
            channel = Channel(context, sender, receiver, link, out, into)
            receiver.incoming[context, source] = channel
            sender.outgoing.append(channel)
        return channel

    def send(
        self, lane: Lane, channel: Channel, data, size: float, tag: int, wait: bool
    ) -> Departure | None:
        """Post a message. Returns its Departure when its sender must wait for it (rendezvous), else
        None.

        data: a flat array or bytes, copied before this returns. size: the bytes to charge. wait: a
        rendezvous whatever its length (Ssend).
        """
        if lane.now > self.engine.time:
            lane.sync()
        source = channel.source
        dest = channel.dest
        now = lane.now
        lane.now = ready = now + channel.overhead
        turn = source.last_send + 1
        if turn <= source.round:
            turn = source.round + 1
        source.last_send = turn
        channel.messages += 1
        channel.nbytes += size
        flow = departure = None
        if size > self.eager or wait:
            departure = Departure(self.wires, ready)
        else:
            flow = self.wires.begin(channel, size, ready, now, lane.leaving)
        lane.sent = flow
        length = len(data) if type(data) is bytes else data.nbytes
        if dest.careful:
            message = (tag, flow, turn, size, length, _copy(data), departure, explain.mark(3))
            self._announce(channel, message)
            return departure
        if channel.posted:
            receive = _first_receive(channel.posted, tag)
            if receive is not None:
                there = type(receive.waiter) is Lane and put(receive.into, data)
                data = None if there else _copy(data)
                self._meet(channel, (tag, flow, turn, size, length, data, departure, None), receive)
                return departure
        mail = channel.mail
        frame = sys._getframe(3)  # of whoever has called Send: as explain.mark, at less cost
        data = data if type(data) is bytes else data.copy()
        mail.append((tag, flow, turn, size, length, data, departure, (frame.f_code, frame.f_lasti)))
        if len(mail) == MANY and type(mail) is list:
            channel.mail = deque(mail)
        return departure

    def receive(
        self,
        lane: Lane,
        receive: Receive,
        into,
        channel: Channel | None,
        tag: int,
        context: int,
        base: int,
    ) -> bool:
        """Post a receive. Has it met its message, which may still be on its way?

        channel: None for any source. base: the receiver's round when it was called. receive: the
        lane itself, if it is about to wait for it.
        """
        if lane.now > lane.engine.time:
            lane.sync()
        receive.into = into
        receive.base = base
        receive.tag = tag
        receive.channel = channel
        receive.context = context
        receive.posted = lane.now
        state = lane.state
        if channel is None or state.careful:
            arrival = self.take_arrived(lane, channel, tag, context)
            if arrival is not None:
                self._meet(*arrival, receive)
                return True
        elif channel.mail:
            message = channel.mail[0]
            if tag == ANY or tag == message[0]:
                del channel.mail[0]
            else:
                message = _first_message(channel.mail, tag)
            if message is not None:
                if message[6] is None:
                    receive.message = message
                    receive.flow = message[1]
                else:
                    self._meet(channel, message, receive)
                return True
        receive.message = None
        receive.waiter = lane if receive is lane else None
        self.order += 1
        receive.order = self.order
        (state.wild if channel is None else channel.posted).append(receive)
        return False

    def _meet(self, channel: Channel, message: tuple, receive: Receive) -> None:
        """Message and receive have met: a rendezvous now moves its bytes, and who waits is told."""
        receive.message = message
        receive.channel = channel
        flow = message[1]
        departure = message[6]
        if departure is not None:
            both = departure.ready if departure.ready > receive.posted else receive.posted
            time = self.engine.time
            flow = self.wires.begin(channel, message[3], both + self.handshake, time)
            departure.begin(flow)
        receive.flow = flow
        waiter = receive.waiter
        if waiter is not None:
            receive.waiter = None
            if flow.end < inf:
                waiter.wake(flow.end + channel.latency)
            else:
                flow.asked.append((waiter, channel.latency))

    def finish(self, lane: Lane, receive: Receive) -> tuple:
        """The end of a receive that has its message: the clock and the rounds. The lane runs. Its
        message."""
        message = receive.message
        state = lane.state
        channel = receive.channel
        arrive = receive.flow.end + channel.latency
        now = lane.now
        lane.now = (arrive if arrive > now else now) + channel.overhead
        turn = (state.last_recv if state.last_recv > receive.base else receive.base) + 1
        if turn < message[2]:
            turn = message[2]
        state.last_recv = turn
        if turn > state.round:
            state.round = turn
        trace = lane.engine.trace
        if trace is not None:
            source = channel.source.rank
            trace.append((state.rank, "wait", receive.posted, lane.now, source, message[3]))
        return message

    def be_careful(self, lane: Lane) -> None:
        """From now on its rank matches messages as they arrive, those on their way too."""
        lane.state.careful = True
        mail = []  # (when it arrives as far as is known, source, channel, message)
        for channel in lane.state.incoming.values():
            arrive = 0.0
            for message in channel.mail:  # which arrive in the order in which they were sent
                flow = message[1]
                arrive = max(arrive, (flow.end if flow else message[6].ready) + channel.latency)
                mail.append((arrive, channel.source.rank, channel, message))
            channel.mail = []
        for arrive, _, channel, message in sorted(mail, key=lambda entry: entry[:2]):
            if arrive <= lane.now and not channel.announced:
                lane.state.arrivals.append((channel, message))
            else:
                self._announce(channel, message)

    def _announce(self, channel: Channel, message: tuple) -> None:
        """A careful rank is told of `message` when it arrives: its last byte, of a rendezvous its
        header."""
        channel.announced.append(message)
        event = Call(self.engine, partial(self._look, channel, message))
        if message[6] is None:
            self.wires.tell(message[1], event, channel.latency)
        else:
            event.wake(message[6].ready + channel.latency)

    def _look(self, channel: Channel, message: tuple, time: float) -> None:
        """Has `message` arrived? Messages of one channel arrive in the order in which they were
        sent."""
        flow = message[1]
        if flow is not None and flow.end + channel.latency > time:  # it was taken back meanwhile
            event = Call(self.engine, partial(self._look, channel, message))
            self.wires.tell(flow, event, channel.latency)
            return
        channel.there.add(id(message))
        while channel.announced and id(channel.announced[0]) in channel.there:
            first = channel.announced.popleft()
            channel.there.remove(id(first))
            self._arrive(channel, first, time)

    def arrived(self, lane: Lane, channel: Channel | None, tag: int, context: int) -> int | None:
        """The place in its rank's `arrivals` of the message that such a receive would take now: the
        first."""
        if not lane.state.careful:
            self.be_careful(lane)
        for place, (way, message) in enumerate(lane.state.arrivals):
            right = way.context == context if channel is None else way is channel
            if right and (tag == ANY or tag == message[0]):
                return place
        return None

    def take_arrived(
        self, lane: Lane, channel: Channel | None, tag: int, context: int
    ) -> tuple | None:
        """(channel, message), taken out."""
        place = self.arrived(lane, channel, tag, context)
        return None if place is None else lane.state.arrivals.pop(place)

    def _arrive(self, channel: Channel, message: tuple, time: float) -> None:
        """The header of `message` reaches a careful rank: the first receive posted for it takes
        it."""
        state = channel.dest
        receives = channel.posted + [wild for wild in state.wild if wild.context == channel.context]
        takers = [receive for receive in receives if receive.tag in (ANY, message[0])]
        if takers:
            first = min(takers, key=lambda receive: receive.order)
            (state.wild if first.channel is None else channel.posted).remove(first)
            self._meet(channel, message, first)
            return
        state.arrivals.append((channel, message))
        watchers = state.watchers
        state.watchers = []
        for lane in watchers:
            lane.wake(time)


class Channel:
    """One direction between two ranks in one communicator (`context`), with its link's numbers and
    ports.

    mail: messages that no receive has taken; posted: receives that no message has reached. last:
    the flow of its last message. announced: of a careful rank, messages under way; there: ids of
    those that have arrived.
    """

    __slots__ = (
        "announced", "bandwidth", "context", "dest", "gap", "into", "last", "latency", "mail",
        "messages",
        "nbytes", "out", "overhead", "posted", "source", "there",
    )  # fmt: skip

    def __init__(self, context: int, source: State, dest: State, link: Link, out: Port, into: Port):
        self.context = context
        self.source = source
        self.dest = dest
        self.out = out
        self.into = into
        self.latency = link.latency
        self.bandwidth = link.bandwidth
        self.overhead = link.overhead
        self.gap = link.gap
        self.last: Flow | None = None
        self.mail = []
        self.posted = []
        self.announced = deque()
        self.there = set()
        self.messages = self.nbytes = 0


class Departure:
    """The sender's side of a rendezvous: its buffer is free again when its bytes have left.

    ready: when the sender was. flow: its bytes, once it has met its receive; until then, waiter:
    who is to be woken when they have left.
    """

    __slots__ = ("flow", "ready", "waiter", "wires")

    def __init__(self, wires: Wires, ready: float):
        self.wires = wires
        self.ready = ready
        self.flow: Flow | None = None
        self.waiter: Lane | None = None

    @property
    def done(self) -> float:
        """When its bytes have left; infinite while that is not known."""
        return inf if self.flow is None else self.flow.end

    def begin(self, flow: Flow) -> None:
        """It has met its receive, and these are its bytes."""
        self.flow = flow
        if self.waiter is not None:
            self.watch(self.waiter)

    def watch(self, waiter) -> None:
        """Call waiter.wake(time) when `done` is known; None: nobody."""
        if self.flow is None:
            self.waiter = waiter
        elif waiter is not None:
            self.wires.tell(self.flow, waiter, 0.0)


def _first_message(mail, tag: int) -> tuple | None:
    """Take out the first message with that tag; None if there is none."""
    for place, message in enumerate(mail):
        if message[0] == tag:
            del mail[place]
            return message
    return None


def _first_receive(posted: list, tag: int) -> Receive | None:
    """Take out the first receive that takes `tag`; None if there is none."""
    for place, receive in enumerate(posted):
        if receive.tag == tag or receive.tag == ANY:
            del posted[place]
            return receive
    return None


def put(into, data) -> bool:
    """Copy into the array of a rank that waits, where that is plain: same kind, same length. Was
    it?"""
    if (
        into is None
        or type(data) is bytes
        or into.dtype is not data.dtype
        or len(into) != len(data)
    ):
        return False
    into[...] = data
    return True


def _copy(data):
    return data if type(data) is bytes else data.copy()
