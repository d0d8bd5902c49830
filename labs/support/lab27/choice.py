"""Which device this rank uses, and what its MPI says of device memory."""

from __future__ import annotations

import ctypes

from labkit import world

from support.lab27.cuda import Cuda
from support.lab27.emulated import StandIn


def here(latency: float, rate: float) -> StandIn | Cuda:
    """This rank's GPU; where there is none, a stand-in. latency: seconds a copy. rate: bytes per second."""
    name = world.device()
    return Cuda(name) if name.startswith("cuda") else StandIn(latency, rate)


def ask_mpi(comm) -> tuple[str, bool | None]:
    """(text of MPI_Get_library_version, does this MPI say that it takes CUDA memory? None: it has no say).

    comm: any communicator, as MPI has to run. Where both questions exist, MPIX_GPU_query_support comes first:
    in some old MPICHs the other, MPIX_Query_cuda_support, ends the program.
    """
    from labkit import doctor
    from mpi4py import MPI

    files, flag = doctor.loaded_mpi(), ctypes.c_int(0)
    text = MPI.Get_library_version().strip("\0\n ")
    library = ctypes.CDLL(files[0]) if files else None
    if hasattr(library, "MPIX_GPU_query_support"):
        library.MPIX_GPU_query_support(0, ctypes.byref(flag))  # 0 = MPIX_GPU_SUPPORT_CUDA
        return text, bool(flag.value)
    if hasattr(library, "MPIX_Query_cuda_support"):
        return text, bool(library.MPIX_Query_cuda_support())
    return text, None
