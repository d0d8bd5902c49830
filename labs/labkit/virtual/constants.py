"""MPI's special numbers, as mpi4py has them where it is loaded, else as in MPICH's ABI."""

from __future__ import annotations

import sys

_MPICH = {"ANY_SOURCE": -2, "ANY_TAG": -1, "PROC_NULL": -1, "UNDEFINED": -32766, "COMM_TYPE_SHARED": 1}


class Numbers:
    """`.ANY_SOURCE` and its like, looked up when asked for: a program may import mpi4py while it runs."""

    def __getattr__(self, name: str) -> int:
        if name not in _MPICH:
            raise AttributeError(name)
        return getattr(sys.modules.get("mpi4py.MPI"), name, _MPICH[name])


def now() -> Numbers:
    return Numbers()
