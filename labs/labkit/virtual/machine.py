"""What a message costs: links, machines, and where their numbers come from. LogGP, as the labs use it.

A message of n bytes (Alexandrov et al., LogGP, SPAA 1995, without the difference of one byte):

    the sender is busy for `overhead`; the bytes leave through its port or its node's network card, n / bandwidth
    seconds; they travel for `latency`; they fill the receiver's port as long; the receiver is busy for `overhead`.

So one message alone takes α + nβ with α = latency + 2 overhead and β = 1 / bandwidth (Hockney 1994). A port or card
carries one message at a time, in the order in which they were sent; a message waits until both ends are free.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from labkit.errors import LabError


@dataclass(frozen=True)
class Link:
    """latency, overhead, gap: seconds. bandwidth: bytes per second, each way.

    gap: least time between the starts of two messages through one port (1 / message rate).
    """

    latency: float
    bandwidth: float
    overhead: float = 0.0
    gap: float = 0.0

    def __post_init__(self):
        if not self.bandwidth > 0:
            raise LabError(
                f"A link's bandwidth is a number of bytes per second above 0, not {self.bandwidth!r}."
            )
        for name in ("latency", "overhead", "gap"):
            if not getattr(self, name) >= 0:
                raise LabError(
                    f"A link's {name} is a number of seconds, 0 or more, not {getattr(self, name)!r}."
                )

    @property
    def alpha(self) -> float:
        """Seconds of an empty message: latency + 2 overhead."""
        return self.latency + 2 * self.overhead

    @property
    def beta(self) -> float:
        """Seconds per byte."""
        return 1 / self.bandwidth


@dataclass(frozen=True)
class Machine:
    """Nodes, the links inside and between them, and the cards that a node's ranks share.

    nics: network cards per node; local rank i uses card i mod nics. duplex: "full" (a card sends and receives at
    once) or "half". eager: bytes up to which a send does not wait for its receive. handshake: seconds that a longer
    message waits after both sides are ready (rendezvous). reduce: bytes per second that one rank adds up, for γ.
    sources: what each number comes from.
    """

    name: str
    inside: Link
    between: Link
    ranks_per_node: int = 1
    nics: int = 1
    duplex: str = "full"
    eager: float = float("inf")
    handshake: float = 0.0
    reduce: float = float("inf")
    sources: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        if self.duplex not in ("full", "half"):
            raise LabError(f'duplex is "full" or "half", not {self.duplex!r}.')
        if self.nics < 1 or self.ranks_per_node < 1:
            raise LabError("A node has at least one network card and one rank.")

    @property
    def gamma(self) -> float:
        """Seconds per byte reduced."""
        return 1 / self.reduce

    def but(self, **changes) -> Machine:
        """This machine with other numbers: `machine.but(nics=4)`, `machine.but(between=Link(…))`."""
        return replace(self, **changes)


def ideal(alpha: float = 1e-6, bandwidth: float = 1e9, reduce: float = float("inf")) -> Machine:
    """The machine of the closed forms: all links alike, one port per rank, nothing shared, no rendezvous."""
    link = Link(latency=alpha, bandwidth=bandwidth)
    return Machine("ideal", inside=link, between=link, reduce=reduce)
