"""Which ways gradients could go here, what this machine has for each, and why one of them is closed."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from labkit import builds, doctor, launch, world

BESIDE = "mvapich2"  # the MPI that `make mvapich2` puts beside the one of the set-up
GLOO = "HOROVOD_CONTROLLER=gloo HOROVOD_CPU_OPERATIONS=gloo"
SWITCHES = {
    "MVAPICH2-GDR": {"MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1"},
    "MVAPICH-Plus": {"MVP_ENABLE_GPU": "1"},
}  # of a CUDA-aware MPI, by its family
BUILDS = {"host MPI": "host", "Gloo": "host", "CUDA-aware MPI": "mpi", "NCCL": "nccl"}  # HOROVOD=…


class Machine(NamedTuple):
    """What decides which libraries can carry gradients.

    builds: Horovod's builds that are there, of "host", "mpi", "nccl". mpi: the family of the MPI library, as
    doctor.identify names it. mpi_takes_gpu_memory: was it built for that? gpus, ranks: on each node.
    """

    builds: tuple[str, ...]
    mpi: str
    mpi_takes_gpu_memory: bool
    gpus: int
    ranks: int


class Way(NamedTuple):
    """A library, and the MPI under it, which starts the ranks in every way.

    name: in tables. mpi: a build of MPI, as in launch.run(mpi=…); None is the one that is used anyway.
    """

    name: str
    library: str
    mpi: str | None = None

    @property
    def file_name(self) -> str:
        """The name as part of a file's name."""
        return "_".join(re.findall(r"\w+", self.name))


def ways() -> list[Way]:
    """All that this lab would like to run here: host MPI by each MPI that is there, then other libraries."""
    own = _own_family()
    every = [Way(f"host, {own}", "host MPI")]
    others = [name for name in dict.fromkeys([*builds.mpi_builds(), BESIDE]) if name != builds.current_mpi()]
    if not own.startswith("MVAPICH"):
        every += [Way(f"host, {name.upper()}", "host MPI", name) for name in others]
    return [*every, Way("CUDA-aware MPI", "CUDA-aware MPI"), Way("NCCL", "NCCL"), Way("Gloo", "Gloo")]


def closed(way: Way) -> str:
    """Why this run cannot take the way, whatever the machine has; "" if it can.

    A process holds one MPI library, and one controller of Horovod. In a job they are those with which it was
    started.
    """
    if way.mpi and way.mpi not in builds.mpi_builds():
        return f"not here: `make {way.mpi}` builds it"
    if world.launcher() is None:
        return ""
    if way.mpi:
        return f"another MPI than this job's: `make submit LAB=46 MPI={way.mpi}` runs it"
    by_gloo = os.environ.get("HOROVOD_CONTROLLER") == "gloo"
    if by_gloo and way.library != "Gloo":
        return "this job's controller is Gloo: one without HOROVOD_CONTROLLER=gloo runs it"
    if way.library == "Gloo" and not by_gloo:
        return f'this job\'s controller is MPI: `make submit LAB=46 ENV="{GLOO}"` runs it'
    return ""


def machine(way: Way, ranks: int) -> Machine:
    """What this machine has, for this way on so many ranks. In a job: what the job was started with."""
    in_a_job = world.launcher() is not None
    own_build = builds.current_horovod()
    there = (own_build,) if in_a_job and own_build else tuple(builds.horovod_builds())
    family = way.mpi.upper() if way.mpi else _own_family()
    gpus = _gpus()
    takes = bool(gpus) and launch.run(_takes_gpu_memory, ranks=launch.ranks_here(1), echo=False)[0]
    return Machine(there, family, takes, gpus, world.local_size() if in_a_job else ranks)


def missing(library: str, machine: Machine) -> str:
    """What is missing so that this library could carry gradients on the machine; "" if nothing is."""
    build = BUILDS[library]
    if build != "host" and not machine.gpus:
        return "no GPU"
    if build not in machine.builds:
        return "no build"
    if library == "CUDA-aware MPI" and not machine.mpi_takes_gpu_memory:
        return "MPI takes no GPU memory"
    if library == "NCCL" and machine.ranks > machine.gpus:
        return "ranks share a GPU"
    return ""


def variables(library: str, mpi: str) -> dict[str, str]:
    """The variables with which Horovod lets this library carry gradients. mpi: the family of the MPI.

    MVAPICH2-GDR's: its user guide 2.3.7, section 7.3; affinity: lab 42. MVP_ENABLE_GPU: MVAPICH's list of
    variables. Gloo's: Horovod 0.28.1, horovod/common/utils/env_parser.cc.
    """
    if library == "Gloo":
        return dict(pair.split("=") for pair in GLOO.split())
    needed = {}
    if mpi.startswith("MVAPICH2"):
        needed["MV2_ENABLE_AFFINITY"] = "0"
    if library == "CUDA-aware MPI":
        needed |= SWITCHES.get(mpi, {})
    return needed


def why_not(way: Way, reason: str) -> str:
    """A sentence for what `missing` names; another text as it is."""
    build = BUILDS[way.library]
    sentences = {
        "no GPU": f"no GPU here. On a GPU cluster: `make submit LAB=46 HOROVOD={build}`",
        "no build": f"this run has no build `{build}` of Horovod: `make submit LAB=46 HOROVOD={build}`",
        "MPI takes no GPU memory": "this MPI was built without CUDA; MVAPICH2-GDR would do",
        "ranks share a GPU": "NCCL wants a GPU for each rank: start as many ranks on a node as it has GPUs",
    }
    return sentences.get(reason, reason)


def _own_family() -> str:
    """The MPI that is used here, by what it says of itself; in a job, the one that is loaded."""
    mpi = doctor.loaded_mpi_described() if world.launcher() else doctor.which_mpi()
    return mpi.family or mpi.banner


def _gpus() -> int:
    """GPUs of this node that PyTorch can use."""
    if world.device() == "cpu":
        return 0
    import torch

    return torch.cuda.device_count()


def _takes_gpu_memory(comm) -> bool:
    """On a rank, whose communicator says that MPI runs: was it built for GPU memory?"""
    return bool(comm and doctor.takes_gpu_memory())
