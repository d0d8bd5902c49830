"""mpi4py as far as the program has loaded it, and MPI's special numbers: `mpi.ANY_SOURCE`, `mpi.PROC_NULL`.

Nothing here loads mpi4py: that would start MPI in a process that needs none.
"""

from __future__ import annotations

import sys
from types import ModuleType

# In MPICH's ABI. Where mpi4py is loaded its own numbers are taken: another MPI has others.
_MPICH = {"ANY_SOURCE": -2, "ANY_TAG": -1, "PROC_NULL": -1, "UNDEFINED": -32766, "COMM_TYPE_SHARED": 1}


def loaded() -> ModuleType | None:
    """mpi4py.MPI, or None where nobody has loaded it."""
    return sys.modules.get("mpi4py.MPI")


def __getattr__(name: str) -> int:
    """One of the numbers, looked up when it is asked for: a program may load mpi4py while it runs."""
    if name not in _MPICH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(loaded(), name, _MPICH[name])
