"""What the measured machine should reach: from its name, from numbers that were typed, or from the
GPUs that the output names. LINK is the link of a GPU, or between nodes where no NIC is typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import virtual
import yaml
from labkit.errors import LabError

from verdict.readings import Reading

_NUMBER = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([A-Za-zµμ/]{1,8})", re.ASCII)
_RATES = {
    f"{prefix}{unit}{per}": factor / (1 if unit == "B" else 8)
    for prefix, factor in {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.items()
    for unit in ("B", "b", "bit", "bits")
    for per in ("", "/s", "ps")
}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}
COUNTS = ("nics", "nodes", "gpus")
TYPED = ("machine", "link", "nic", *COUNTS, "latency")


@dataclass(frozen=True)
class Link:
    """line: bytes per second that it carries; reached: what it is known to give; source: of that.

    in_switch: {GPUs: bytes per second of an allreduce whose switch adds}, {} where none does, None
    where nobody said. most: what some such links carry, if that is more than line. pair: the
    fewest and the most between two GPUs of a board without a switch, () where there is none.
    """

    line: float
    reached: float
    source: str
    in_switch: Mapping[int, float] | None = None
    most: float = 0.0
    pair: tuple[float, ...] = ()


@dataclass(frozen=True)
class Hardware:
    """inside: the link of a rank in its node; card: one network card. None: nobody said.

    per_node: ranks of a node as the machine has them; ranks: of all nodes, where GPUS was typed.
    latency: seconds of a short message. gamma: seconds for each byte that a rank adds. guessed:
    whether it was taken from the GPUs' name, and not from what was typed.
    """

    nodes: int
    inside: Link | None = None
    card: Link | None = None
    cards: int = 1
    per_node: int | None = None
    ranks: int | None = None
    latency: float | None = None
    latency_source: str = "as it was typed"
    gamma: float = 0.0
    guessed: bool = False


def choose(reading: Reading, typed: Mapping[str, str]) -> Hardware:
    """The hardware behind a reading. typed: of the names TYPED, as text; they outweigh the rest.
    LabError, a sentence, where a text will not do."""
    whole = {name: _count(name, typed[name]) for name in COUNTS if name in typed}
    machine = virtual.machine(typed["machine"]) if "machine" in typed else None
    alone = typed.get("machine") in ("here", "laptop")  # one node, where nobody says otherwise
    of_machine = machine.ranks_per_node if machine and not alone else None
    nodes = whole.get("nodes") or reading.nodes
    if not nodes:
        between = (reading.pairs and not alone) or ("nic" in typed and "link" not in typed)
        per_node = whole.get("gpus") or of_machine or reading.counted or 1
        counted = reading.counted or 1
        # What the bandwidths tell is rounded: 33 ranks are 32 on nodes of 8, if these fit as well.
        whole_nodes = max(1, round(counted / per_node))
        if not reading.could_be_of(whole_nodes * per_node):
            whole_nodes = -(-counted // per_node)
        nodes = max(2 if between else 1, whole_nodes)
    found = _of(machine, nodes, of_machine) if machine else Hardware(nodes)
    if found.inside is None:
        known = of_gpu(reading.gpu)
        found = replace(found, inside=known, guessed=known is not None)
    if "link" in typed and (nodes == 1 or "nic" in typed):
        found = replace(found, inside=_typed("link", typed["link"], None), guessed=False)
    card = typed.get("nic") or typed.get("link")
    if card:
        card = _typed("card", card, {})
        found = replace(found, card=card if nodes > 1 else None)
    if "latency" in typed:
        latency = _parse(typed["latency"], _TIMES, "LATENCY=1.5us")
        found = replace(found, latency=latency, latency_source="as it was typed")
    ranks = nodes * whole["gpus"] if "gpus" in whole else None
    return replace(found, cards=whole.get("nics", found.cards), ranks=ranks)


def of_gpu(name: str) -> Link | None:
    """What is known of the links of a GPU of that name."""
    for row in _known()["gpus"]:
        if name and re.search(row["name"], name):
            in_switch = {int(p): rate * 1e9 for p, rate in row.get("in_switch", {}).items()}
            rates = (row["line"] * 1e9, row["reached"] * 1e9)
            pair = tuple(rate * 1e9 for rate in row.get("pair", ()))
            return Link(*rates, row["source"], in_switch, row.get("most", 0) * 1e9, pair)
    return None


def _of(machine: virtual.Machine, nodes: int, per_node: int | None) -> Hardware:
    links = {place: _published(machine, place) for place in ("inside", "between")}
    where = "between" if nodes > 1 else "inside"
    gpu = of_gpu(_known()["machines"].get(machine.name, ""))
    # "here" may know its own node alone.
    alone = ", inside a node," in links["between"].source
    return Hardware(
        nodes,
        inside=gpu or links["inside"],
        card=None if alone else links["between"],
        cards=machine.nics,
        per_node=per_node,
        latency=getattr(machine, where).alpha,
        latency_source=machine.sources.get(f"{where}.latency") or machine.sources.get(where, ""),
        gamma=0.0 if gpu else machine.gamma,  # what is known of GPUs includes their additions
    )


def _published(machine: virtual.Machine, place: str) -> Link:
    """A link of the catalogue. A measured or estimated rate is no bound, as caches are faster."""
    carries = getattr(machine, place).bandwidth
    source = machine.sources.get(f"{place}.bandwidth") or machine.sources.get(place, "")
    slack = 4.0 if source.startswith(("measured", "estimate")) else 1.1
    return Link(carries, carries, source, {}, slack * carries)


def _typed(kind: str, text: str, in_switch: Mapping | None) -> Link:
    share, source = _known()["shares"][kind]
    line = _parse(text, _RATES, "25GB/s or 200Gb/s")
    return Link(line, share * line, f"{share:.0%} of the typed rate; {source}", in_switch)


def _parse(text: str, units: Mapping[str, float], example: str) -> float:
    """A number with a unit: in rates B is a byte, b a bit, and G is 10^9."""
    match = _NUMBER.fullmatch(text.strip())
    value = float(match[1]) * units.get(match[2], 0) if match else 0.0
    if not value:
        raise LabError(f"{text!r} is no number with a unit: write it as {example}.")
    return value


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise LabError(f"{name.upper()} is a whole number, 1 or more, not {text!r}.")
    return int(text)


@cache
def _known() -> dict:
    text = Path(__file__).with_name("known.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)
