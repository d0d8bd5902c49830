"""mpi4py as far as the program has loaded it, MPI's special numbers, and two names replaced in
mpi4py.

Nothing here loads mpi4py: that would start MPI in a process that needs none. When the program loads
it,

    MPI.PROC_NULL    becomes a `Nobody`: told from a -1 that was computed
    MPI.Request      becomes a class whose Waitall and the like take requests of the kit's classes,
                     too, such as those with `RequestCalls`
"""

from __future__ import annotations

import importlib.util
import sys
from numbers import Integral
from types import ModuleType


class Nobody(int):
    """MPI.PROC_NULL as a number of its own: in MPICH it is -1, and so is `comm.rank - 1` on rank
    0."""


# In MPICH's ABI. Where mpi4py is loaded its own numbers are taken: another MPI has others.
_MPICH = {
    "ANY_SOURCE": -2,
    "ANY_TAG": -1,
    "PROC_NULL": Nobody(-1),
    "UNDEFINED": -32766,
    "COMM_TYPE_SHARED": 1,
}
_NAME = "mpi4py.MPI"
_FOR_SEVERAL = ("Waitall", "Waitany", "Waitsome", "Testall", "Testany", "Testsome")


def loaded() -> ModuleType | None:
    """mpi4py.MPI, or None where nobody has loaded it."""
    return sys.modules.get(_NAME)


def __getattr__(name: str) -> int:
    """One of the numbers, looked up when it is asked for: a program may load mpi4py while it
    runs."""
    if name not in _MPICH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(loaded(), name, _MPICH[name])


def _undefined() -> int:
    return __getattr__("UNDEFINED")


def is_nobody(rank: object) -> bool:
    """Is it MPI.PROC_NULL, and not a number that was computed and happens to be the same?"""
    return isinstance(rank, Nobody)


def no_such_rank(name: str, rank, size: int) -> str:
    """`dest=-1: there is no such rank; with 4 ranks they go from 0 to 3.`"""
    those = (
        "with 1 rank there is 0 alone"
        if size == 1
        else f"with {size} ranks they go from 0 to {size - 1}"
    )
    shown = rank if isinstance(rank, Integral) else repr(rank)
    text = f"{name}={shown}: there is no such rank; {those}."
    if name not in ("dest", "source") or rank >= 0:
        return text
    return f"{text} Where a neighbor is missing, leave the call out, or name MPI.PROC_NULL."


class RequestCalls:
    """mpi4py's calls for one and for several requests of arrays, for a class that has Wait, Test
    and `ended`: has a call told that it is over? What is over is not tested again by those for
    some or any. A status is left as it is.
    """

    def wait(self, status=None) -> None:
        self.Wait()

    def test(self, status=None) -> tuple[bool, None]:
        return self.Test(), None

    @staticmethod
    def Waitall(requests, statuses=None) -> bool:
        for request in requests:
            request.Wait()
        return True

    @staticmethod
    def Testall(requests, statuses=None) -> bool:
        tested = [request.Test() for request in requests]
        return all(tested)

    @staticmethod
    def Waitany(requests, status=None) -> int:
        place = next(iter(_not_ended(requests)), None)
        if place is None:
            return _undefined()
        requests[place].Wait()
        return place

    @staticmethod
    def Testany(requests, status=None) -> tuple[int, bool]:
        active = _not_ended(requests)
        over = next((place for place in active if requests[place].Test()), None)
        return (_undefined(), not active) if over is None else (over, True)

    @classmethod
    def Waitsome(cls, requests, statuses=None) -> list[int] | None:
        first = cls.Waitany(requests)
        if first == _undefined():
            return None
        return sorted([first, *(cls.Testsome(requests) or [])])

    @staticmethod
    def Testsome(requests, statuses=None) -> list[int] | None:
        active = _not_ended(requests)
        return [place for place in active if requests[place].Test()] if active else None

    @classmethod
    def waitall(cls, requests, statuses=None) -> list[None]:
        cls.Waitall(requests)
        return [None] * len(requests)

    @classmethod
    def testall(cls, requests, statuses=None) -> tuple[bool, list[None] | None]:
        over = cls.Testall(requests)
        return over, [None] * len(requests) if over else None

    @classmethod
    def waitany(cls, requests, status=None) -> tuple[int, None]:
        return cls.Waitany(requests), None

    @classmethod
    def testany(cls, requests, status=None) -> tuple[int, bool, None]:
        return *cls.Testany(requests), None

    @classmethod
    def waitsome(cls, requests, statuses=None) -> tuple[list[int] | None, list[None] | None]:
        over = cls.Waitsome(requests)
        return over, None if over is None else [None] * len(over)

    @classmethod
    def testsome(cls, requests, statuses=None) -> tuple[list[int] | None, list[None] | None]:
        over = cls.Testsome(requests)
        return over, None if over is None else [None] * len(over)


def _not_ended(requests) -> list[int]:
    """The places of those of which nobody was told that they are over."""
    return [place for place, request in enumerate(requests) if not request.ended]


def _replace_names(module: ModuleType) -> None:
    module.PROC_NULL = Nobody(module.PROC_NULL)
    names = [*_FOR_SEVERAL, *map(str.lower, _FOR_SEVERAL)]
    calls = {name: staticmethod(_passing(module.Request, name)) for name in names}
    real = module.Request
    # A request of mpi4py's own is one of this class, too, for who asks by isinstance.
    kind = type(
        "RequestType",
        (type(real),),
        {"__instancecheck__": lambda cls, value: isinstance(value, real)},
    )
    module.Request = kind("Request", (real,), calls)


def _passing(real: type, name: str):
    """The call `name` for several requests, passed on to the class that they belong to."""

    def call(requests, *rest, **options):
        owner = next((type(request) for request in requests if not isinstance(request, real)), real)
        return getattr(owner, name)(requests, *rest, **options)

    return call


class _WhenLoaded:
    """An import hook: others find mpi4py.MPI, and its names are replaced once it is there."""

    @classmethod
    def find_spec(cls, name: str, path=None, target=None):
        if name != _NAME:
            return None
        sys.meta_path.remove(cls)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, cls)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_replace(module: ModuleType) -> None:
            execute(module)
            _replace_names(module)

        spec.loader.exec_module = execute_and_replace
        return spec


if loaded() is None:
    sys.meta_path.insert(0, _WhenLoaded)
else:
    _replace_names(loaded())
