"""The MPI that is here, as its ranks see it: its library, and the thread level that Horovod is given."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

UNBOUND = {"MV2_ENABLE_AFFINITY": "0"}  # what MVAPICH2 needs to grant MPI_THREAD_MULTIPLE
SINGLE = {"HOROVOD_MPI_THREADS_DISABLE": "1"}  # Horovod then asks for MPI_THREAD_SINGLE


def mpiname() -> str:
    """What MVAPICH2's own tool `mpiname -a` prints; "" where there is none."""
    tool = shutil.which("mpiname")
    if tool is None:
        return ""
    return subprocess.run([tool, "-a"], capture_output=True, text=True, timeout=10, check=False).stdout


def look_inside() -> tuple[str, str, str]:
    """On a rank: the texts of MPI_Get_library_version and /proc/self/maps, and the level as `thread_level`.

    mpi4py begins, asking for MPI_THREAD_MULTIPLE as Horovod would, and calls nothing while Horovod's thread
    runs: imported after it, on a lower level, it can break a rank.
    """
    from mpi4py import MPI

    text = MPI.Get_library_version().strip("\0\n ")
    import horovod.torch as hvd

    hvd.init()
    level = "MULTIPLE" if hvd.mpi_threads_supported() else "less"
    maps = Path("/proc/self/maps").read_text()
    hvd.shutdown()  # it leaves MPI to mpi4py
    return text, maps, level


def thread_level() -> str:
    """On a rank: "MULTIPLE" if that is what Horovod was given, by hvd.mpi_threads_supported(); else "less".

    Nothing but Horovod may use MPI meanwhile: on less, another thread's calls can break it. A rank ends its
    MPI when it is left, which MVAPICH2 does not survive at the level that it grants a bound rank.
    """
    import horovod.torch as hvd

    hvd.init()
    if not hvd.mpi_threads_supported():
        return "less"
    hvd.shutdown()  # so that this process may start Horovod again
    return "MULTIPLE"
