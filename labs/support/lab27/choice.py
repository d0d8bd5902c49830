"""Which device this rank uses, and what its MPI says of device memory."""

from __future__ import annotations

import os

from labkit import doctor, world

from support.lab27.cuda import Cuda
from support.lab27.emulated import StandIn

_OF_MPI = ("MV2_", "MVP_", "MPICH_", "MPIR_", "OMPI_")  # how names of MPIs' variables begin


def here(latency: float, rate: float) -> StandIn | Cuda:
    """This rank's GPU; where there is none, a stand-in. latency: seconds a copy. rate: bytes per second."""
    name = world.device()
    return Cuda(name) if name.startswith("cuda") else StandIn(latency, rate)


def ask_mpi(comm) -> tuple[str, bool | None, dict[str, str]]:
    """(text of MPI_Get_library_version, does this MPI say that it takes CUDA memory? None: it has no say; its
    settings, in the words of variables).

    comm: any communicator, as MPI has to run. Settings of Open MPI are those of its files, too, under the
    first of a setting's names; Open MPI 5, which has no switch, counts as switched on.
    """
    from mpi4py import MPI

    text = MPI.Get_library_version().strip("\0\n ")
    settings = {name: value for name, value in os.environ.items() if name.startswith(_OF_MPI)}
    family, version = doctor.identify(text)
    if family == "Open MPI":
        state = doctor.switch(family, doctor.parameters(os.environ), version)
        settings["OMPI_MCA_opal_cuda_support"] = "1" if state is None or state[0] else "0"
    return text, doctor.takes_gpu_memory(), settings
