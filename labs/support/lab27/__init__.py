"""Device memory behind one small interface: a GPU's, or a stand-in's that copies at a stated pace (lab 27).

A device has `name`, `empty(nbytes)`, `array(values)`, `peek(memory)`, `pinned(*shape)`, `for_mpi(memory)`,
and asynchronous copies, `to_host(host, memory)` and `to_device(memory, host)`, whose result has `wait()`.
Everything is bytes (uint8). Device memory is sliced as arrays are: `memory[start:stop]`.
"""

from __future__ import annotations

import ctypes

from labkit import world

from support.lab27.checks import STEPS, busy, direct, on_ranks, race, trials
from support.lab27.cuda import Cuda
from support.lab27.emulated import StandIn
from support.lab27.published import COPY_ENGINE, CPU_TO_DEVICE, CPU_TO_HOST, pipeline_time

__all__ = [
    "COPY_ENGINE",
    "CPU_TO_DEVICE",
    "CPU_TO_HOST",
    "STEPS",
    "Cuda",
    "StandIn",
    "ask_mpi",
    "busy",
    "direct",
    "here",
    "on_ranks",
    "pipeline_time",
    "race",
    "trials",
]


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
