"""The ways of messages: ports, and channels from one rank to another."""

from __future__ import annotations

from labkit.virtual.lanes import State
from labkit.virtual.machine import Link


class Port:
    """A rank's or a network card's way out or in. free: seconds, when its last message has passed."""

    __slots__ = ("free",)

    def __init__(self):
        self.free = 0.0


class Channel:
    """One direction between two ranks in one communicator (`context`), with its link's numbers and ports.

    mail: messages that no receive has taken; posted: receives that no message has reached.
    """

    __slots__ = (
        "bandwidth", "context", "dest", "gap", "into", "latency", "mail", "messages", "nbytes", "out",
        "overhead", "posted", "source",
    )  # fmt: skip

    def __init__(self, context: int, source: State, dest: State, link: Link, out: Port, into: Port):
        self.context, self.source, self.dest, self.out, self.into = context, source, dest, out, into
        self.latency, self.bandwidth, self.overhead, self.gap = (
            link.latency, link.bandwidth, link.overhead, link.gap,
        )  # fmt: skip
        self.mail, self.posted = [], []
        self.messages = self.nbytes = 0


class Departure:
    """The sender's side of a rendezvous. done: when its buffer is free again, None until that is known."""

    __slots__ = ("done", "ready", "waiter")

    def __init__(self, ready: float):
        self.ready, self.done, self.waiter = ready, None, None
