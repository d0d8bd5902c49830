"""Machines by name. Every number has a source, or says that it is an estimate and why."""

from __future__ import annotations

from collections.abc import Callable

from labkit.errors import LabError
from labkit.virtual.machine import Link, Machine, ideal

_US, _GB, _KIB = 1e-6, 1e9, 1024


def machine(name: str) -> Machine:
    """The machine of that name: see `machines()`. "here" is this one, as lab 22 measured it."""
    if name not in _MADE:
        names = ", ".join(machines())
        raise LabError(f"There is no machine {name!r}. There are {names}; or make one: virtual.Machine(…).")
    return _MADE[name]()


def machines() -> list[str]:
    """The names of the machines that the kit knows."""
    return list(_MADE)


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


def _simple(name: str, inside: Link, between: Link, **more) -> Callable[[], Machine]:
    return lambda: Machine(name, inside, between, **more)


_MADE: dict[str, Callable[[], Machine]] = {
    "laptop": _simple(
        "laptop",
        Link(1 * _US, 5 * _GB),
        Link(50 * _US, 0.117 * _GB),
        ranks_per_node=4,
        eager=64 * _KIB,
        handshake=2 * _US,
        reduce=5 * _GB,
    ),
    "ethernet10_4gpu": _simple(
        "ethernet10_4gpu",
        Link(6 * _US, 10 * _GB),
        Link(30 * _US, 1.17 * _GB),
        ranks_per_node=4,
        eager=64 * _KIB,
        handshake=60 * _US,
        reduce=80 * _GB,
    ),
    "roce25_p100": _simple(
        "roce25_p100",
        Link(6 * _US, 10 * _GB),
        Link(3 * _US, 3.0 * _GB),
        ranks_per_node=4,
        eager=16 * _KIB,
        handshake=6 * _US,
        reduce=244 * _GB,
    ),
    "k80_fdr": _simple(
        "k80_fdr",
        Link(6 * _US, 10 * _GB),
        Link(2.4 * _US, 6.0 * _GB),
        ranks_per_node=16,
        nics=2,
        eager=16 * _KIB,
        handshake=5 * _US,
        reduce=80 * _GB,
    ),
    "k80_edr": _simple(
        "k80_edr",
        Link(6 * _US, 10 * _GB),
        Link(2.2 * _US, 11.0 * _GB),
        ranks_per_node=2,
        eager=16 * _KIB,
        handshake=5 * _US,
        reduce=80 * _GB,
    ),
    "dgx1": _simple(
        "dgx1",
        Link(3.4 * _US, 20 * _GB),
        Link(5 * _US, 11.5 * _GB),
        ranks_per_node=8,
        nics=4,
        eager=16 * _KIB,
        handshake=10 * _US,
        reduce=244 * _GB,
    ),
    "summit": _simple(
        "summit",
        Link(3.4 * _US, 50 * _GB),
        Link(5 * _US, 11.5 * _GB),
        ranks_per_node=6,
        nics=2,
        eager=16 * _KIB,
        handshake=10 * _US,
        reduce=300 * _GB,
    ),
    "h100_ndr": _simple(
        "h100_ndr",
        Link(3.4 * _US, 400 * _GB),
        Link(5 * _US, 48 * _GB),
        ranks_per_node=8,
        nics=8,
        eager=16 * _KIB,
        handshake=10 * _US,
        reduce=1100 * _GB,
    ),
    "here": _here,
}
