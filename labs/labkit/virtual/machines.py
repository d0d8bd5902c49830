"""Machines by name; their numbers, and the source of each, are in machines_data."""

from __future__ import annotations

from labkit.errors import LabError
from labkit.virtual.machine import Machine, ideal
from labkit.virtual.machines_data import KNOWN


def machine(name: str) -> Machine:
    """The machine of that name: see `machines()`. "here" is this one, as lab 22 measured it."""
    if name == "here":
        return _here()
    if name not in KNOWN:
        names = ", ".join(machines())
        raise LabError(f"There is no machine {name!r}. There are {names}; or make one: virtual.Machine(…).")
    return KNOWN[name]


def machines() -> list[str]:
    """The names of the machines that the kit knows."""
    return [*KNOWN, "here"]


def choose(machine_: Machine | str | None) -> Machine:
    """A Machine from what an argument may be: one, the name of one, or None for the ideal one."""
    if machine_ is None:
        return ideal()
    if isinstance(machine_, str):
        return machine(machine_)
    if not isinstance(machine_, Machine):
        raise LabError(f"machine is a virtual.Machine or a name, not {type(machine_).__name__}.")
    return machine_


def _here() -> Machine:
    from labkit.virtual import here

    return here.machine()
