"""One allreduce behind a name: "mpi", "torch-gloo", "horovod-nccl" and more.

    with backends.opened("torch-gloo", comm) as link:
        vector = link.vector(1000)  # float32 zeros where this backend wants them, on the host or on a GPU
        link.sum(vector)            # in place, over all ranks; the result is there when it returns

The ranks are those of an MPI job, whatever carries the vector: so one file runs under mpiexec and srun.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from labkit import builds, launch, placement, timing, world
from labkit.collectives import ring_allreduce
from labkit.errors import LabError, NotHere

from support.lab51 import starting


class Backend(NamedTuple):
    """Who calls ("mpi4py", "torch", "horovod"), who carries ("mpi", "gloo", "nccl"), from where.

    build: the build of Horovod that it takes; None: any.
    """

    caller: str
    carrier: str
    on_gpu: bool = False
    build: str | None = None


# A carrier's own name: of vectors in host memory. "-gpu": of vectors in a GPU's memory.
BACKENDS = {
    "mpi": Backend("mpi4py", "mpi"),
    "mpi-gpu": Backend("mpi4py", "mpi", on_gpu=True),  # a CUDA-aware MPI such as MVAPICH2-GDR (lab 27)
    "torch-gloo": Backend("torch", "gloo"),
    "torch-gloo-gpu": Backend("torch", "gloo", on_gpu=True),
    "torch-mpi": Backend("torch", "mpi"),
    "torch-nccl": Backend("torch", "nccl", on_gpu=True),
    "horovod-mpi": Backend("horovod", "mpi"),
    "horovod-mpi-gpu": Backend("horovod", "mpi", on_gpu=True, build="mpi"),
    "horovod-gloo": Backend("horovod", "gloo"),
    "horovod-nccl": Backend("horovod", "nccl", on_gpu=True, build="nccl"),
}
NAMES = tuple(BACKENDS)
_LIBRARIES = {"mpi": "MPI", "gloo": "Gloo", "nccl": "NCCL"}


@dataclass(frozen=True)
class Link:
    """An open backend. sum(tensor): in place over all ranks. barrier(): all ranks wait for each other.

    where: the placement of its vectors.
    """

    name: str
    rank: int
    size: int
    where: placement.Placement
    sum: Callable
    barrier: Callable

    def vector(self, values: int, dtype=None):
        """A torch tensor of zeros (float32 if dtype is None) on this backend's device."""
        import torch

        return torch.zeros(values, dtype=dtype or torch.float32, device=self.where.device)

    def finish(self, call: Callable[[], object]) -> Callable[[], None]:
        """A call of `call` that returns when the device has done all that was asked of it."""

        def call_and_wait() -> None:
            call()
            timing.device_sync(self.where.device)

        return call_and_wait


def place(name: str) -> placement.Placement:
    """Where the backend's vectors are, and what carries them."""
    backend = _backend(name)
    library = _LIBRARIES[backend.carrier]
    if not backend.on_gpu:
        return placement.on_host(library)
    # ProcessGroupGloo copies CUDA tensors to pinned memory and back; MPI and NCCL are opened for GPU memory
    # only where they take it.
    staged = backend.carrier == "gloo"
    reason = "PyTorch copies them to host memory and back" if staged else ""
    return placement.Placement(world.device(), staged, library, reason=reason)


def _backend(name: str) -> Backend:
    if name not in BACKENDS:
        raise LabError(f"There is no backend {name!r}; there are {', '.join(NAMES)}.")
    return BACKENDS[name]


def missing(name: str, comm=None) -> str:
    """Why this process cannot use the backend `name`, in words; "" if it can.

    comm: the MPI job's communicator, without which MPI is not asked, nor who shares a GPU; all its ranks call
    this. Raises LabError for a name that is none.
    """
    backend = _backend(name)
    gpus = comm.allgather(own_gpu()) if comm else []
    if backend.on_gpu and world.device() == "cpu":
        return "no GPU here" + (", and NCCL moves GPU memory only" if backend.carrier == "nccl" else "")
    reason = ""
    if backend.caller == "torch":
        reason = _torch_lacks(backend.carrier)
    elif backend.caller == "horovod":
        reason = _horovod_lacks(name, backend, comm is not None)
    if not reason and backend.carrier == "nccl":
        reason = gpus_lack(gpus, own_gpu())
    if not reason and backend.carrier == "mpi" and backend.on_gpu and comm is not None:
        reason = placement.mpi_reason()
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
    where = place(name)
    with starting.started(BACKENDS[name], comm, where.device, meeting or starting.meet_at_rank_0) as call:
        yield Link(name, comm.rank, comm.size, where, call, comm.Barrier)


def each(names: Sequence[str], fn: Callable, *args, ranks: int, timeout: float = 120, meeting=None):
    """fn(link, *args) on `ranks` ranks by each backend: ({name: results by rank}, {name: why it cannot}).

    Alone, each backend gets processes of its own, with the build of Horovod that it takes; under a launcher
    all use the job's. meeting: see `opened`.
    """
    results: dict[str, list] = {}
    why_not: dict[str, str] = {}
    for name in names:
        alone = world.launcher() is None  # on a job's nodes the ranks decide together, and have their build
        reason = missing(name) if alone else ""
        if reason:
            why_not[name] = reason
            continue
        build = BACKENDS[name].build if alone else None
        arguments = (name, fn, args, meeting)
        by_rank = launch.run(_on_link, *arguments, ranks=ranks, timeout=timeout, horovod=build)
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

    return Link("ring", comm.rank, comm.size, placement.on_host("MPI"), by_ring, comm.Barrier)


def _torch_lacks(carrier: str) -> str:
    import torch.distributed as dist

    built = {"gloo": dist.is_gloo_available, "mpi": dist.is_mpi_available, "nccl": dist.is_nccl_available}
    if dist.is_available() and built[carrier]():
        return ""
    cure = "; that takes a build from its sources" if carrier == "mpi" else ""
    return f"this PyTorch was built without {carrier.upper()}{cure}"


def _horovod_lacks(name: str, backend: Backend, on_ranks: bool) -> str:
    if backend.build and not on_ranks:
        # Its ranks will have that build; this process may have another.
        cure = f"`make setup GPU_OPERATIONS={backend.build.upper()}` builds it"
        return (
            ""
            if backend.build in builds.horovod_builds()
            else f"Horovod's build {backend.build} is not here; {cure}"
        )
    try:
        import horovod.torch as hvd
    except ImportError as error:
        return f"horovod.torch cannot be imported ({error}); `make setup` builds it"
    current = builds.current_horovod()
    if backend.build and current != backend.build:
        return (
            f"this job has Horovod's build {current}; start this file once more with "
            f"HOROVOD={backend.build} and backends {name!r} alone"
        )
    built = {"mpi": hvd.mpi_built, "gloo": hvd.gloo_built, "nccl": hvd.nccl_built}
    if not built[backend.carrier]():
        return f"this Horovod was built without {backend.carrier.upper()}"
    began = starting.horovod_began
    if began and began != starting.controller_of(backend.carrier):
        return (
            f"Horovod began with {began.upper()} in this process and cannot change; "
            f"start this file once more with backends {name!r} alone"
        )
    return ""


def own_gpu() -> str | None:
    """This rank's GPU, in the same words on every rank that has it; None where there is none."""
    device = world.device()
    if device == "cpu":
        return None
    import torch

    return f"{socket.gethostname()} {torch.cuda.get_device_properties(device).uuid}"


def gpus_lack(gpus: Sequence[str | None], own: str | None) -> str:
    """Why NCCL cannot run on this rank's GPU `own`, where a job's ranks have these; "" if it is its alone."""
    ranks = gpus.count(own)
    return f"NCCL takes one rank a GPU, and {ranks} ranks share this one" if ranks > 1 else ""
