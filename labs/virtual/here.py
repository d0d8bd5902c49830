"""The machine "here": what was measured on this machine, as a Machine of the virtual cluster.

From the newest records of links (result `link`) and of additions (result `addition`), which lab 22
makes: what an empty message costs up to the eager limit and above it (the handshake), bytes per
second of long messages, the time from one short message to the next, and bytes per second of
`a += b`. mpi4py's own calls are in these numbers, as they were measured through it.

What the model leaves out, and what that does to its predictions:

* caches. One bandwidth stands for copies inside and outside of them, and one speed of addition too;
  real ones differ by a factor of two between 1 MiB and 16 MiB.
* sharing. Ranks of a node share the memory's bandwidth, while the model's inside links are each
  rank's own.
* fewer cores than ranks. Real ranks then wait for a core, often longer than the whole operation
  takes; in the model each rank has a core of its own. Compare only where that is so.
* the machine's moods. On a virtual machine the same link gave 15 GB/s and, at other times, 8:
  records are of the state in which they were made.
* Python around the messages, beyond one addition for each: np.array_split alone takes as long as
  two or three short messages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from labkit import record
from labkit.errors import LabError
from labkit.timing import digits, human

from virtual.loggp import Link, Machine

INSIDE = "inside a node"  # the places that a record of a link may name as `where`
BETWEEN = "between nodes"
_NUMBERS = ("alpha", "bandwidth", "eager", "handshake", "busy", "step")


def machine() -> Machine:
    """The machine by the learner's own records, else by the kit's reference records.

    Its name and `sources` say which. Raises LabError when neither holds what is needed.
    """
    lacks = []
    for whose, reference in (("your own", False), ("the kit's reference", True)):
        links = [row for row in record.of_kind("link", reference) if _is_link(row)]
        additions = [
            row for row in record.of_kind("addition", reference) if _is_speed(row.get("speed"))
        ]
        if links and additions:
            return _machine(whose, {row["where"]: row for row in links}, additions[-1])
        lack = "speed of addition (result `addition`)" if links else "α and β (result `link`)"
        lacks.append(f"{whose} records have no usable {lack}")
    raise LabError(
        f'The machine "here" is made from records of lab 22, but {", and ".join(lacks)}. '
        "Solve and run lab 22, or choose another machine: virtual.machines() lists them."
    )


def _machine(whose: str, links: Mapping[str, dict], addition: Mapping) -> Machine:
    """links: the newest record of each place."""
    inside = links.get(INSIDE, links.get(BETWEEN))
    between = links.get(BETWEEN, links.get(INSIDE))
    speed = float(addition["speed"])
    sources = {
        "inside": _source(whose, inside),
        "between": _source(whose, between),
        "reduce": f"measured: {_records(whose, addition)}, a += b on float64, on two ranks at once",
    }
    sources["eager"] = sources["handshake"] = sources["between"]
    about = (
        f"{between['where']} α {human(between['alpha'])}, {digits(between['bandwidth'] / 1e9)}"
        f" GB/s, {digits(speed / 1e9)} GB/s added"
    )
    return Machine(
        f"here ({_records(whose, between)}, {str(between.get('utc'))[:10]}, {between.get('host')}:"
        f" {about})",
        inside=_link(inside),
        between=_link(between),
        eager=between["eager"],
        handshake=between["handshake"],
        reduce=speed,
        sources=sources,
    )


def _source(whose: str, row: Mapping) -> str:
    when = str(row.get("utc"))[:19]
    return f"measured: {_records(whose, row)}, {row['where']}, on {row.get('host')}, {when}"


def _records(whose: str, row: Mapping) -> str:
    """`your own records of lab 22`."""
    return f"{whose} records of lab {str(row.get('lab')).split('_')[0]}"


def _link(row: Mapping) -> Link:
    """LogGP's numbers from a record.

    In a collective a rank sends and receives at once, slices arrays and adds them up, all in
    Python: more work than one half of a ping-pong. So α = latency + 2 overhead is here what such a
    step takes with 1 KiB, less its bytes. How much of it is overhead is seen where many messages
    are in flight: no more than the time from one to the next.
    """
    alpha = max(row["alpha"], row["step"] - 1024 / row["bandwidth"])
    overhead = min(row["busy"], alpha / 2)
    return Link(alpha - 2 * overhead, row["bandwidth"], overhead, gap=min(row["busy"], alpha))


def _is_link(row: Mapping) -> bool:
    """Whether a record holds all numbers of a link, and numbers that can be."""
    return (
        row.get("where") in (INSIDE, BETWEEN)
        and all(_is_number(row.get(name)) for name in _NUMBERS)
        and row["alpha"] > 0
        and row["bandwidth"] > 0
    )


def _is_speed(value: object) -> bool:
    return _is_number(value) and value > 0


def _is_number(value: object) -> bool:
    """A finite number, 0 or more."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )
