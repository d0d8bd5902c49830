"""One allreduce behind a name: "mpi", "torch-gloo", "horovod-nccl" and more.

    with backends.opened("torch-gloo", comm) as link:
        vector = link.vector(1000)  # float32 zeros where this backend wants them, on the host or on a GPU
        link.sum(vector)            # in place, over all ranks; the result is there when it returns

The ranks are those of an MPI job, whatever carries the vector: so one file runs under mpiexec and srun.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from labkit import doctor, launch, world
from labkit.collectives import ring_allreduce
from labkit.errors import LabError, NotHere

from support.lab51 import starting

NAMES = (
    "mpi",  # MPI's own allreduce, by mpi4py, on host memory
    "mpi-gpu",  # the same on GPU memory: a CUDA-aware MPI such as MVAPICH2-GDR (lab 27)
    "torch-gloo",
    "torch-mpi",
    "torch-nccl",
    "horovod-mpi",
    "horovod-gloo",
    "horovod-nccl",
)
ON_GPU = ("mpi-gpu", "torch-nccl", "horovod-nccl")


@dataclass(frozen=True)
class Link:
    """An open backend. sum(tensor): in place over all ranks. barrier(): all ranks wait for each other."""

    name: str
    rank: int
    size: int
    device: str
    sum: Callable
    barrier: Callable

    def vector(self, values: int, dtype=None):
        """A torch tensor of zeros (float32 if dtype is None) on this backend's device."""
        import torch

        return torch.zeros(values, dtype=dtype or torch.float32, device=self.device)


def missing(name: str, comm=None) -> str:
    """Why this process cannot use the backend `name`, in words; "" if it can.

    comm: the MPI job's communicator, to see how many ranks share a node's GPUs; all its ranks call this.
    Raises LabError for a name that is none.
    """
    if name not in NAMES:
        raise LabError(f"There is no backend {name!r}; there are {', '.join(NAMES)}.")
    hosts = comm.allgather(socket.gethostname()) if comm else []
    library, _, carrier = name.partition("-")
    if name == "mpi-gpu" and comm is None and world.device() != "cpu":
        return ""  # only MPI can tell, and it is not started outside of a job
    if name in ON_GPU and world.device() == "cpu":
        return "no GPU here" + (", and NCCL moves GPU memory only" if carrier == "nccl" else "")
    lacks = {"torch": _torch_lacks, "horovod": _horovod_lacks, "mpi": _mpi_lacks}[library]
    reason = lacks(carrier)
    if not reason and carrier == "nccl":
        reason = gpus_lack(hosts)
    return reason


def survey(comm, names: Sequence[str]) -> dict[str, str]:
    """{name: why it cannot run on some rank of comm, or ""}: the same on every rank."""
    everyone = comm.allgather({name: missing(name, comm) for name in names})
    return {name: next((reasons[name] for reasons in everyone if reasons[name]), "") for name in names}


@contextmanager
def opened(name: str, comm, meeting: Callable | None = None) -> Iterator[Link]:
    """The backend `name` on the ranks of comm, an mpi4py communicator; all of them call this.

    meeting(comm, host, port): the environment variables by which torch.distributed's ranks find each other,
    from this rank's own host and a free port there (default: `starting.meet_at_rank_0`). Raises NotHere
    with the reason when the backend cannot run here.
    """
    reason = missing(name, comm)
    if reason:
        raise NotHere(f"{name} cannot run: {reason}.")
    device = world.device() if name in ON_GPU else "cpu"
    with starting.started(name, comm, device, meeting or starting.meet_at_rank_0) as call:
        yield Link(name, comm.rank, comm.size, device, call, comm.Barrier)


def each(names: Sequence[str], fn: Callable, *args, ranks: int, timeout: float = 120, meeting=None):
    """fn(link, *args) on `ranks` ranks by each backend: ({name: results by rank}, {name: why it cannot}).

    Alone, each backend gets processes of its own; under a launcher all use the job's. meeting: see `opened`.
    """
    results: dict[str, list] = {}
    why_not: dict[str, str] = {}
    for name in names:
        reason = "" if world.launcher() else missing(name)  # on a job's nodes the ranks decide together
        if reason:
            why_not[name] = reason
            continue
        by_rank = launch.run(_on_link, name, fn, args, meeting, ranks=ranks, timeout=timeout)
        if isinstance(by_rank[0], str):
            why_not[name] = by_rank[0]
        else:
            results[name] = [result for (result,) in by_rank]
    return results, why_not


def _on_link(comm, name: str, fn: Callable, args: tuple, meeting: Callable | None):
    """Why `name` cannot run, or (what fn returns,)."""
    reason = survey(comm, [name])[name]
    if reason:
        return reason
    with opened(name, comm, meeting) as link:
        return (fn(link, *args),)


def over(comm) -> Link:
    """A Link whose sum is lab 23's ring on comm, which may be a virtual cluster's: to try programs on."""

    def by_ring(tensor) -> None:
        ring_allreduce(comm, tensor.numpy())

    return Link("ring", comm.rank, comm.size, "cpu", by_ring, comm.Barrier)


def _mpi_lacks(carrier: str) -> str:
    if carrier != "gpu":
        return ""
    from mpi4py import MPI

    family, _ = doctor.identify(MPI.Get_library_version())
    state = doctor.switch(family, os.environ)
    if state:
        on, sentence = state
        if not on:
            return f"{family} takes GPU memory only when told to: {sentence}"
    return "" if doctor.takes_gpu_memory() else f"this {family or 'MPI'} does not take GPU memory"


def _torch_lacks(carrier: str) -> str:
    import torch.distributed as dist

    built = {"gloo": dist.is_gloo_available, "mpi": dist.is_mpi_available, "nccl": dist.is_nccl_available}
    if dist.is_available() and built[carrier]():
        return ""
    cure = "; that takes a build from its sources" if carrier == "mpi" else ""
    return f"this PyTorch was built without {carrier.upper()}{cure}"


def _horovod_lacks(carrier: str) -> str:
    try:
        import horovod.torch as hvd
    except ImportError as error:
        return f"horovod.torch cannot be imported ({error}); `make setup` builds it"
    built = {"mpi": hvd.mpi_built, "gloo": hvd.gloo_built, "nccl": hvd.nccl_built}
    if not built[carrier]():
        return f"this Horovod was built without {carrier.upper()}"
    began = starting.horovod_began
    if began and began != starting.controller_of(carrier):
        return (
            f"Horovod began with {began.upper()} in this process and cannot change; "
            f"start this file once more with backends {'horovod-' + carrier!r} alone"
        )
    return ""


def gpus_lack(hosts: Sequence[str]) -> str:
    """Why NCCL cannot run where a job's ranks are on these hosts; "" if each has a GPU for itself."""
    import torch

    gpus = torch.cuda.device_count()
    ranks = hosts.count(socket.gethostname())
    return f"NCCL takes one rank a GPU, and {ranks} ranks share {gpus} here" if ranks > gpus else ""
