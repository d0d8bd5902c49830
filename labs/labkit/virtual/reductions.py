"""What Reduce and its like combine with: mpi4py's operations, NumPy's ufuncs, functions of two arguments."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable

import numpy as np

from labkit.virtual import explain

_KNOWN = {  # mpi4py's names
    "SUM": (np.add, operator.add),
    "PROD": (np.multiply, operator.mul),
    "MAX": (np.maximum, max),
    "MIN": (np.minimum, min),
    "LAND": (np.logical_and, None),
    "LOR": (np.logical_or, None),
    "LXOR": (np.logical_xor, None),
    "BAND": (np.bitwise_and, operator.and_),
    "BOR": (np.bitwise_or, operator.or_),
    "BXOR": (np.bitwise_xor, operator.xor),
}


class Operation:
    """An associative operation. name: in sentences. ufunc: for arrays, None if there is only `function`.

    commutative: algorithms may then change the order of ranks; without it they combine in order of rank.
    """

    __slots__ = ("commutative", "function", "name", "ufunc")

    def __init__(self, name: str, ufunc: np.ufunc | None, function: Callable, commutative: bool):
        self.name, self.ufunc, self.function, self.commutative = name, ufunc, function, commutative

    def on_arrays(self, left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
        """left op right, element by element, into `out` (which may be one of them)."""
        if self.ufunc is None:
            out[...] = self.function(left, right)
        else:
            self.ufunc(left, right, out=out)


_BY_NAME = {
    name: Operation(name, ufunc, function or ufunc, True) for name, (ufunc, function) in _KNOWN.items()
}
_SUM = _BY_NAME["SUM"]


def operation(op: object, call: str) -> Operation:
    """The Operation that `op` means: the sum (None), MPI.MAX and its like, a ufunc, a function of two."""
    if op is None:
        return _SUM
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(op, mpi.Op):
        for name, one in _BY_NAME.items():
            if op == getattr(mpi, name):
                return one
        return Operation("of your own", None, op, False)
    for one in _BY_NAME.values():
        if op is one.ufunc or op is one.function:
            return one
    if not callable(op):
        raise TypeError(f"{call} takes op=MPI.SUM, MPI.MAX and their like, or a function of two, not {op!r}.")
    return Operation(
        getattr(op, "__name__", "of your own"), op if isinstance(op, np.ufunc) else None, op, False
    )


def for_arrays(op: object, call: str) -> Operation:
    """The same for an upper-case call: what only works on objects, like MPI.MAXLOC on pairs, is refused."""
    found = operation(op, call)
    mpi = sys.modules.get("mpi4py.MPI")
    if found.ufunc is None and mpi is not None and isinstance(found.function, mpi.Op):
        raise explain.MPIError(
            f"{call} on the virtual cluster knows MPI.SUM, PROD, MAX, MIN and the logical and bitwise ones, "
            "NumPy's ufuncs and functions of two arrays; not this operation."
        )
    return found
