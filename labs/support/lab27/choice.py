"""Which device this rank uses, and what its MPI says of device memory."""

from __future__ import annotations

from labkit import doctor, world

from support.lab27.cuda import Cuda
from support.lab27.emulated import StandIn


def here(latency: float, rate: float) -> StandIn | Cuda:
    """This rank's GPU; where there is none, a stand-in. latency: seconds a copy. rate: bytes per second."""
    name = world.device()
    return Cuda(name) if name.startswith("cuda") else StandIn(latency, rate)


def ask_mpi(comm) -> tuple[str, bool | None]:
    """(text of MPI_Get_library_version, does this MPI say that it takes CUDA memory? None: it has no say).

    comm: any communicator, as MPI has to run.
    """
    from mpi4py import MPI

    text = MPI.Get_library_version().strip("\0\n ")
    return text, doctor.takes_gpu_memory()
