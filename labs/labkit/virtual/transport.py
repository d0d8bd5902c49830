"""Messages: what they cost, which receive they meet, and what they carry. MPI's rules of matching.

Send and receive meet as in MPI: by communicator, source and tag; messages of one pair in the order in which they were
sent, receives in the order in which they were posted. A receive from ANY_SOURCE takes what has arrived first.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from labkit.virtual import explain
from labkit.virtual.engine import Engine, Lane, State
from labkit.virtual.machine import Machine

ANY = -2  # inside this package: any source, any tag


class Message:
    """One message. envelope: when its header arrives; arrive: its last byte, None until a rendezvous has begun.

    data: what it carries, None once that is in the receiver's array. size: the bytes that it stands for.
    """

    __slots__ = (
        "arrive",
        "context",
        "data",
        "departure",
        "envelope",
        "length",
        "mark",
        "ready",
        "round",
        "size",
        "source",
        "tag",
    )


class Receive:
    """A receive that was posted. into: the array it fills, or None for an object. message: what it met."""

    __slots__ = ("base", "context", "into", "lane", "message", "order", "posted", "source", "tag", "waiting")

    def takes(self, message: Message) -> bool:
        return (
            self.context == message.context
            and (self.source == message.source or self.source == ANY)
            and (self.tag == message.tag or self.tag == ANY)
        )


class Departure:
    """The sender's side of a rendezvous. done: when its buffer is free again, None until that is known."""

    __slots__ = ("done", "waiter")

    def __init__(self):
        self.done, self.waiter = None, None


class Transport:
    """The wires of one run: ports and cards with the time until which each is taken, and the counters of links."""

    def __init__(self, engine: Engine, machine: Machine, local: list[int]):
        self.engine, self.machine = engine, machine
        self.inside, self.between = machine.inside, machine.between
        self.eager, self.handshake = machine.eager, machine.handshake
        self.size = size = len(engine.states)
        nodes = 1 + max(state.node for state in engine.states)
        self.card = [state.node * machine.nics + local[state.rank] % machine.nics for state in engine.states]
        full = machine.duplex == "full"
        self.out = [0.0] * size  # inside a node every rank has its own port, out and in
        self.into = [0.0] * size if full else self.out
        self.card_out = [0.0] * (nodes * machine.nics)
        self.card_in = [0.0] * (nodes * machine.nics) if full else self.card_out
        self.links: dict[int, list] = {}  # source * size + dest -> [messages, bytes, last header's arrival]

    def transfer(self, source: State, dest: State, size: float, ready: float) -> tuple[float, float]:
        """Take the wires for `size` bytes from `ready` on. Returns when the last byte has left, and arrived."""
        if source.node == dest.node:
            link, out, into, a, b = self.inside, self.out, self.into, source.rank, dest.rank
        else:
            link, out, into = self.between, self.card_out, self.card_in
            a, b = self.card[source.rank], self.card[dest.rank]
        latency = link.latency
        start = ready if ready > out[a] else out[a]
        if into[b] - latency > start:
            start = into[b] - latency
        end = start + size / link.bandwidth
        free = end if end >= start + link.gap else start + link.gap
        out[a] = free
        into[b] = free + latency
        trace = self.engine.trace
        if trace is not None:
            trace.append((source.rank, "send", start, end, dest.rank, size))
        return end, end + latency

    def send(
        self, lane: Lane, dest: State, data, size: float, tag: int, context: int, wait: bool
    ) -> Departure | None:
        """Post a message. Returns its Departure when its sender must wait for it (rendezvous), else None.

        data: a flat array or bytes, copied before this returns. size: the bytes to charge. wait: a rendezvous
        whatever its length (Ssend).
        """
        lane.sync()
        source = lane.state
        link = self.inside if source.node == dest.node else self.between
        lane.now = ready = lane.now + link.overhead
        message = Message()
        message.source, message.tag, message.context = source.rank, tag, context
        message.size, message.length = size, data.nbytes if type(data) is not bytes else len(data)
        turn = source.last_send if source.last_send > source.round else source.round
        message.round = source.last_send = turn + 1
        departure = None
        if size > self.eager or wait:
            message.arrive, message.ready, envelope = None, ready, ready + link.latency
            message.departure = departure = Departure()
        else:
            envelope = message.arrive = self.transfer(source, dest, size, ready)[1]
        source.sent += 1
        source.sent_bytes += size
        key = source.rank * self.size + dest.rank
        pair = self.links.get(key)
        if pair is None:
            self.links[key] = [1, size, envelope]
        else:
            pair[0] += 1
            pair[1] += size
            if envelope < pair[2]:  # a header does not overtake
                envelope = pair[2]
            pair[2] = envelope
        message.envelope = envelope
        if not dest.careful:
            queue = dest.posted.get((context, source.rank))
            receive = _first(queue, tag) if queue else None
            if receive is not None:
                message.data = None if receive.waiting and _put(receive.into, data) else _copy(data)
                self.meet(message, receive, dest)
                return departure
        message.data = _copy(data)
        key = (context, source.rank)
        queue = dest.mail.get(key)
        if queue is None:
            dest.mail[key] = queue = deque()
        message.mark = explain.mark()
        queue.append(message)
        if dest.careful:
            self._expect(dest, message)
        return departure

    def receive(
        self, lane: Lane, into, source: int, tag: int, context: int, base: int, waiting: bool
    ) -> Receive:
        """Post a receive; its `message` is set where one was there already.

        base: the receiver's round when it was called. waiting: the lane blocks until a message comes.
        """
        lane.sync()
        state = lane.state
        receive = Receive()
        receive.lane, receive.into, receive.base, receive.waiting = lane, into, base, waiting
        receive.source, receive.tag, receive.context, receive.posted = source, tag, context, lane.now
        receive.message = None
        if source == ANY:
            state.careful = True
        key = (context, source)
        if state.careful:
            message = self.arrived(lane, source, tag, context)
            if message is not None:
                state.mail[context, message.source].remove(message)
        else:
            queue = state.mail.get(key)
            message = _first(queue, tag) if queue else None
        if message is not None:
            receive.waiting = False
            self.meet(message, receive, state)
            return receive
        state.order += 1
        receive.order = state.order
        if source == ANY:
            state.wild.append(receive)
        else:
            queue = state.posted.get(key)
            if queue is None:
                state.posted[key] = queue = deque()
            queue.append(receive)
        if state.careful:
            for one in [one for queue in state.mail.values() for one in queue if receive.takes(one)]:
                self._expect(state, one)
        return receive

    def meet(self, message: Message, receive: Receive, dest: State) -> None:
        """Message and receive have found each other: a rendezvous now moves its bytes, a waiting rank goes on."""
        receive.message = message
        if message.arrive is None:
            both = message.ready if message.ready > receive.posted else receive.posted
            source, departure = self.engine.states[message.source], message.departure
            departure.done, message.arrive = self.transfer(source, dest, message.size, both + self.handshake)
            if departure.waiter is not None:
                departure.waiter.wake(departure.done)
        if receive.waiting:
            receive.waiting = False
            receive.lane.wake(message.arrive)

    def finish(self, receive: Receive, lane: Lane) -> Message:
        """The end of a receive that has its message: the clock, the rounds, the data. The lane runs."""
        message, state = receive.message, lane.state
        begin = receive.posted
        if message.arrive > lane.now:
            lane.now = message.arrive
        link = self.inside if self.engine.states[message.source].node == state.node else self.between
        lane.now += link.overhead
        last = state.last_recv if state.last_recv > receive.base else receive.base
        turn = last + 1 if last >= message.round else message.round
        state.last_recv = turn
        if turn > state.round:
            state.round = turn
        state.received += 1
        state.received_bytes += message.size
        trace = self.engine.trace
        if trace is not None:
            trace.append((state.rank, "wait", begin, lane.now, message.source, message.size))
        return message

    def arrived(self, lane: Lane, source: int, tag: int, context: int) -> Message | None:
        """The message that such a receive would take now: of those that have arrived, the first."""
        best = None
        for (where, sender), queue in lane.state.mail.items():
            if where == context and source in (ANY, sender):
                head = next((one for one in queue if tag in (ANY, one.tag)), None)
                if head is not None and head.envelope <= lane.now:
                    if best is None or (head.envelope, head.source) < (best.envelope, best.source):
                        best = head
        return best

    def watch(self, dest: State) -> None:
        """From now on `dest` hears of each message as it arrives, those that are on their way included."""
        if not dest.careful:
            dest.careful = True
        for queue in dest.mail.values():
            for one in queue:
                self._expect(dest, one)

    def _expect(self, dest: State, message: Message) -> None:
        self.engine.at(message.envelope, lambda time: self._match(dest, message))

    def _match(self, dest: State, message: Message) -> None:
        """The header of `message` arrives: the first receive that was posted for it takes it."""
        key = (message.context, message.source)
        queue = dest.mail[key]
        if message not in queue:
            return
        waiting = [dest.wild, dest.posted.get(key, ())]
        takers = [one for receives in waiting for one in receives if one.takes(message)]
        if takers:
            first = min(takers, key=lambda one: one.order)
            (dest.wild if first.source == ANY else waiting[1]).remove(first)
            queue.remove(message)
            self.meet(message, first, dest)
        for lane in [one for one in dest.watchers if not takers]:
            dest.watchers.remove(lane)
            lane.wake(message.envelope)


def _first(queue: deque, tag: int):
    """Take out the first message, or receive, whose tag fits; None if there is none."""
    one = queue[0]
    if one.tag == tag or tag == ANY or one.tag == ANY:
        return queue.popleft()
    for one in queue:
        if one.tag == tag or one.tag == ANY:
            queue.remove(one)
            return one
    return None


def _put(into, data) -> bool:
    """Copy straight into the array of a rank that waits, where that is plain: same kind, room enough."""
    if into is None or type(data) is bytes or into.dtype != data.dtype or into.size < data.size:
        return False
    if into.size == data.size:
        into[...] = data
    else:
        into[: data.size] = data
    return True


def _copy(data):
    return data if type(data) is bytes else np.array(data)
