"""MPI's special numbers, as mpi4py has them where it is loaded, else as in MPICH's ABI."""

from __future__ import annotations

import sys
from types import SimpleNamespace

_MPICH = {"ANY_SOURCE": -2, "ANY_TAG": -1, "PROC_NULL": -1, "UNDEFINED": -32766}


def now() -> SimpleNamespace:
    mpi = sys.modules.get("mpi4py.MPI")
    return SimpleNamespace(**{name: getattr(mpi, name, value) for name, value in _MPICH.items()})
