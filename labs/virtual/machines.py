"""Machines by name: `machine("dgx1")`. Their numbers, each with its source, are in
machines.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml
from labkit.errors import LabError

from virtual import here
from virtual.loggp import Link, Machine, ideal

# In the file: µs, GB/s.
_UNITS = {"latency": 1e-6, "handshake": 1e-6, "bandwidth": 1e9, "reduce": 1e9}
_ALWAYS = {
    **{f"{link}.overhead": "left out: it is part of the latency" for link in ("inside", "between")},
    **{f"{link}.gap": "left out: no message rate was found" for link in ("inside", "between")},
    "handshake": "computed: a request and an answer, two latencies between nodes",
}


def machine(name: str) -> Machine:
    """The machine of that name: see `machines()`. "here" is this one, as it was measured."""
    if name == "here":
        return here.machine()
    if name not in _known():
        names = ", ".join(machines())
        raise LabError(
            f"There is no machine {name!r}. There are {names}; or make one: virtual.Machine(…)."
        )
    return _known()[name]


def machines() -> list[str]:
    """The names of the machines that the kit knows."""
    return [*_known(), "here"]


def choose(argument: Machine | str | None) -> Machine:
    """A Machine from what an argument may be: one, the name of one, or None for the ideal one."""
    if argument is None:
        return ideal()
    if isinstance(argument, str):
        return machine(argument)
    if not isinstance(argument, Machine):
        raise LabError(f"machine is a virtual.Machine or a name, not {type(argument).__name__}.")
    return argument


@cache
def _known() -> dict[str, Machine]:
    text = Path(__file__).with_name("machines.yaml").read_text(encoding="utf-8")
    read = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {name: _machine(name, rows) for name, rows in read["machines"].items()}


def _machine(name: str, rows: Mapping[str, tuple[float, str]]) -> Machine:
    """rows: number -> (its value in the file's units, its source)."""
    numbers = {key: value * _UNITS.get(key.split(".")[-1], 1) for key, (value, _) in rows.items()}
    sources = {**_ALWAYS, **{key: source for key, (_, source) in rows.items()}}
    inside, between = (
        Link(numbers.pop(f"{place}.latency"), numbers.pop(f"{place}.bandwidth"))
        for place in ("inside", "between")
    )
    numbers.setdefault("handshake", 2 * between.latency)
    return Machine(name, inside, between, **numbers, sources=sources)
