"""What a message costs: links, machines, and where their numbers come from. LogGP, as the labs use
it.

    Link       latency, bandwidth, overhead and gap of one way
    Machine    nodes, the links inside and between them, their network cards
    ideal      the machine of the closed forms

A message of n bytes (Alexandrov et al., LogGP, SPAA 1995, without the difference of one byte):

    the sender is busy for `overhead`; the bytes leave through its port or its node's network
    card for n / bandwidth seconds; they travel for `latency`; they fill the receiver's port or
    card for as long as
    they took to leave; the receiver is busy for `overhead`.

So one message alone takes α + nβ with α = latency + 2 overhead and β = 1 / bandwidth (Hockney
1994). Messages that are under way at the same time share a port or card fairly (see wires).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
from labkit.errors import LabError
from labkit.timing import digits, human

# Of a Machine.
_LEAST = {"nics": 1, "ranks_per_node": 1, "eager": 0, "handshake": 0, "reduce": 1e-300}


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
        _take_plain_numbers(self)
        if not (_number(self.bandwidth) and self.bandwidth > 0):
            raise LabError(
                f"A link's bandwidth is in bytes per second, above 0, not {self.bandwidth!r}."
            )
        for name in ("latency", "overhead", "gap"):
            value = getattr(self, name)
            if not (_number(value) and value >= 0):
                raise LabError(f"A link's {name} is a number of seconds, 0 or more, not {value!r}.")

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

    nics: network cards per node; local rank i uses card i mod nics, which sends and receives at
    once. eager: bytes up to which a send does not wait for its receive. handshake: seconds that a
    longer message waits after both sides are ready (rendezvous). reduce: bytes per second of result
    that one rank adds up, for γ. sources: name of a number ("inside.latency", "reduce") -> where it
    comes from.
    """

    name: str
    inside: Link
    between: Link
    ranks_per_node: int = 1
    nics: int = 1
    eager: float = float("inf")
    handshake: float = 0.0
    reduce: float = float("inf")
    sources: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self):
        _take_plain_numbers(self)
        for name in ("inside", "between"):
            link = getattr(self, name)
            if not isinstance(link, Link):
                raise LabError(f"A machine's {name} is a virtual.Link, not {type(link).__name__}.")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            whole = "whole number, 1 or more" if least == 1 else "number above 0"
            if not (_number(value) and value >= least) or (
                least == 1 and not isinstance(value, int)
            ):
                raise LabError(f"A machine's {name} is a {whole}, not {value!r}.")

    @property
    def gamma(self) -> float:
        """Seconds per byte reduced."""
        return 1 / self.reduce

    def but(self, **changes) -> Machine:
        """This machine with other numbers: `machine.but(nics=4)`,
        `machine.but(between=Link(…))`."""
        names = [part.name for part in fields(self)]
        unknown = sorted(set(changes) - set(names))
        if unknown:
            raise LabError(f"A machine has no {unknown[0]}. It has {', '.join(names)}.")
        sources = {
            name: text for name, text in self.sources.items() if name.split(".")[0] not in changes
        }
        return replace(self, **{"sources": sources, **changes})

    def numbers(self) -> dict[str, object]:
        """Name -> value of every number of this machine, as `sources` names them."""
        numbers = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, Link):
                for number in fields(value):
                    numbers[f"{part.name}.{number.name}"] = getattr(value, number.name)
            elif part.name not in ("name", "sources"):
                numbers[part.name] = value
        return numbers

    def __str__(self) -> str:
        """A small table of the numbers; where each comes from is in `sources`."""
        rows = [
            (name, _with_unit(name, value), self._kind(name))
            for name, value in self.numbers().items()
        ]
        rows = [row for row in rows if row[2] != "left out"]
        lines = [f"  {name:<18}{value:>11}  {kind}".rstrip() for name, value, kind in rows]
        return "\n".join([self.name, *lines])

    def _kind(self, name: str) -> str:
        """Of where a number comes from: published, computed, estimate, left out; "" where nobody
        said."""
        text = self.sources.get(name) or self.sources.get(name.split(".")[0], "")
        kind = text.split(":")[0]
        if kind in ("computed", "estimate", "left out", "measured"):
            return kind
        return "published" if text else ""


def ideal(alpha: float = 1e-6, bandwidth: float = 1e9, reduce: float = float("inf")) -> Machine:
    """The machine of the closed forms: all links alike, one port per rank, nothing shared, no
    rendezvous."""
    link = Link(latency=alpha, bandwidth=bandwidth)
    return Machine("ideal", inside=link, between=link, reduce=reduce)


def _take_plain_numbers(part: Link | Machine) -> None:
    """NumPy's numbers become Python's: with a float32 among them, times would be float32, too."""
    for name, value in vars(part).items():
        if isinstance(value, np.number):
            object.__setattr__(part, name, value.item())


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _with_unit(name: str, value) -> str:
    """`4.06 µs`, `11.5 GB/s`, `12 KiB`."""
    part = name.split(".")[-1]
    if part in ("latency", "overhead", "gap", "handshake"):
        return human(value) if value else "0 s"
    if value == float("inf"):
        return "no limit"
    if part in ("bandwidth", "reduce"):
        return f"{digits(value / 1e9)} GB/s"
    return f"{digits(value / 1024)} KiB" if part == "eager" else str(value)
