"""The MPI of a rank, seen from inside: its library, its files, and the thread level that Horovod is given."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from typing import NamedTuple

from labkit import builds, doctor, world

UNBOUND = builds.switches("mvapich2", {})  # what MVAPICH2 needs to grant MPI_THREAD_MULTIPLE
SINGLE = {"HOROVOD_MPI_THREADS_DISABLE": "1"}  # Horovod then asks for MPI_THREAD_SINGLE
LEVELS = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")  # MPI's order; 0 to 3 in MPICH's kin and Open MPI


class Inside(NamedTuple):
    """What a rank tells of itself.

    library: "MPICH 5.0.2". text: of MPI_Get_library_version. mpiname: what that tool prints. files: the MPI
    libraries that the process has mapped. level: the thread level that MPI gave. on_node: ranks on its node.
    """

    library: str
    text: str
    mpiname: str
    files: list[str]
    level: str
    on_node: int


def settings_of(library: str) -> dict[str, dict[str, str]]:
    """{name: variables} of the settings whose thread level is asked for, beside UNBOUND's.

    labkit gives MVAPICH2's ranks UNBOUND, unless they have another setting: so "on" is said.
    """
    bound = {"MV2_ENABLE_AFFINITY": "1"}
    settings = {"asked for less": UNBOUND | SINGLE}
    if library.startswith("MVAPICH2"):
        settings["affinity on"] = bound
        settings["affinity on, socket"] = bound | {"MV2_CPU_BINDING_LEVEL": "socket"}
    return settings


def mpiname() -> str:
    """What MVAPICH2's own tool `mpiname -a` prints; "" where there is none."""
    tool = shutil.which("mpiname")
    if tool is None:
        return ""
    return subprocess.run([tool, "-a"], capture_output=True, text=True, timeout=10, check=False).stdout


def channel(text: str) -> str:
    """The part of an MPI that moves the bytes, as its text names it, such as "ch3:sock"; "" if unnamed."""
    named = re.search(r"^\w+ Device\s*:\s*(\S+)", text, re.MULTILINE)
    return named[1] if named else ""


def look_inside() -> Inside:
    """On a rank: see Inside.

    mpi4py begins, asking for MPI_THREAD_MULTIPLE as Horovod would, and calls nothing while Horovod's thread
    runs: imported after it, on a lower level, it can break a rank.
    """
    from mpi4py import MPI

    text = MPI.Get_library_version().strip("\0\n ")
    level = LEVELS[MPI.Query_thread()]
    import horovod.torch as hvd

    hvd.init()
    hvd.shutdown()  # it leaves MPI to mpi4py
    tool = mpiname()
    library = " ".join(map(str, doctor.identify(text, tool)))
    return Inside(library, text, tool, doctor.loaded_mpi(), level, world.local_size())


def thread_level() -> str:
    """On a rank: one of LEVELS, what MPI gave Horovod, which started it.

    Nothing but Horovod may use MPI meanwhile: below MULTIPLE, another thread's calls can break it. A rank
    ends its MPI when it is left, which MVAPICH2 does not survive at the level that it grants a bound rank.
    """
    import horovod.torch as hvd

    hvd.init()
    level = LEVELS[_level_given()]
    own_process = "LABKIT_RUN" in os.environ  # it ends with this function: leave Horovod to its end
    if hvd.mpi_threads_supported() and not own_process:
        hvd.shutdown()  # so that this process may start Horovod again
    return level


def _level_given() -> int:
    """MPI_Query_thread of the library that this process holds; any thread may call it on any level."""
    given = ctypes.c_int()
    ctypes.CDLL(doctor.loaded_mpi()[0]).MPI_Query_thread(ctypes.byref(given))
    return given.value
