"""One allreduce behind a name: "mpi", "torch-gloo", "horovod-nccl" and more. Lab 51 compares them.

    with backends.opened("torch-gloo", comm) as link:
        vector = link.vector(1000)  # float32 zeros where this backend wants them, on the host or on a GPU
        link.sum(vector)            # in place, over all ranks; the result is there when it returns

The ranks are those of an MPI job, whatever carries the vector: so one file runs under mpiexec and srun.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from labkit import doctor, launch, world
from labkit.collectives import ring_allreduce
from labkit.errors import LabError, NotHere

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
_ON_GPU = ("mpi-gpu", "torch-nccl", "horovod-nccl")


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
    if name in _ON_GPU and world.device() == "cpu":
        return "no GPU here" + (", and NCCL moves GPU memory only" if carrier == "nccl" else "")
    lacks = {"torch": _torch_lacks, "horovod": _horovod_lacks, "mpi": _mpi_lacks}[library]
    return lacks(carrier) or (_gpus_lack(hosts) if carrier == "nccl" else "")


def survey(comm, names: Sequence[str]) -> dict[str, str]:
    """{name: why it cannot run on some rank of comm, or ""}: the same on every rank."""
    everyone = comm.allgather({name: missing(name, comm) for name in names})
    return {name: next((one[name] for one in everyone if one[name]), "") for name in names}


@contextmanager
def opened(name: str, comm, meeting: Callable | None = None) -> Iterator[Link]:
    """The backend `name` on the ranks of comm, an mpi4py communicator; all of them call this.

    meeting(comm, host, port): the environment variables by which torch.distributed's ranks find each other,
    from this rank's own host and a free port there (default: `rank_0`). Raises NotHere with the reason when
    the backend cannot run here.
    """
    reason = missing(name, comm)
    if reason:
        raise NotHere(f"{name} cannot run: {reason}.")
    device = world.device() if name in _ON_GPU else "cpu"
    with begin(name, comm, device, meeting or rank_0) as call:
        yield Link(name, comm.rank, comm.size, device, call, comm.Barrier)


def each(names: Sequence[str], fn: Callable, *args, ranks: int, timeout: float = 120, meeting=None):
    """fn(link, *args) on `ranks` ranks by each backend: ({name: results by rank}, {name: why it cannot}).

    Alone, each backend gets processes of its own; under a launcher all use the job's. meeting: see `opened`.
    """
    results, why_not = {}, {}
    for name in names:
        reason = "" if world.launcher() else missing(name)  # on a job's nodes the ranks decide together
        found = (
            [reason]
            if reason
            else launch.run(_on_link, name, fn, args, meeting, ranks=ranks, timeout=timeout)
        )
        if isinstance(found[0], str):
            why_not[name] = found[0]
        else:
            results[name] = [one[0] for one in found]
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
    return Link("ring", comm.rank, comm.size, "cpu", lambda t: ring_allreduce(comm, t.numpy()), comm.Barrier)


def rank_0(comm, host: str, port: int) -> dict[str, str]:
    """What init_process_group reads: this rank's numbers, and rank 0's host and port."""
    host, port = comm.bcast((host, port), root=0)
    where = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    return {**where, "RANK": str(comm.rank), "WORLD_SIZE": str(comm.size)}


@contextmanager
def address(comm) -> Iterator[tuple[str, int]]:
    """(this host, as the other ranks of comm reach it; a port free on it, kept free inside of the `with`)."""
    alone = len(set(comm.allgather(socket.gethostname()))) == 1
    host = "127.0.0.1" if alone else socket.gethostname()
    with launch.reserve_port(host if alone else "") as taken:
        yield host, taken.getsockname()[1]


@contextmanager
def variables(**values: object) -> Iterator[None]:
    """Environment variables that hold inside of the `with`, and are as before afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: str(value) for name, value in values.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _mpi_lacks(carrier: str) -> str:
    if carrier != "gpu":
        return ""
    from mpi4py import MPI

    family, _ = doctor.identify(MPI.Get_library_version())
    state = doctor.switch(family, os.environ)
    if state and not state[0]:
        return f"{family} takes GPU memory only when told to: {state[1]}"
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
    began = horovod_began
    if began and began != controller_of(carrier):
        return (
            f"Horovod began with {began.upper()} in this process and cannot change; "
            f"start this file once more with backends {'horovod-' + carrier!r} alone"
        )
    return ""


def _gpus_lack(hosts: Sequence[str]) -> str:
    import torch

    gpus, ranks = torch.cuda.device_count(), hosts.count(socket.gethostname())
    return f"NCCL takes one rank a GPU, and {ranks} ranks share {gpus} here" if ranks > gpus else ""


# How each backend of labkit.backends begins, what its allreduce call is, and how it ends.


horovod_began: str | None = None  # Horovod's controller in this process, which it cannot change any more


@contextmanager
def begin(name: str, comm, device: str, meeting: Callable) -> Iterator[Callable]:
    """Start backend `name` on all ranks of comm; yields sum(tensor), in place, done when it returns."""
    library, _, carrier = name.partition("-")
    with ExitStack() as stack:
        if device != "cpu":
            import torch

            torch.cuda.set_device(device)
        if library == "torch":
            call = stack.enter_context(_torch(comm, carrier, meeting))
        elif library == "horovod":
            call = stack.enter_context(_horovod(comm, carrier))
        else:
            call = _mpi(comm)
        yield call if device == "cpu" else _finished(call, device)


def controller_of(carrier: str) -> str:
    """Who brings Horovod's ranks together when its tensors go by `carrier`: Gloo needs Gloo, others MPI."""
    return "gloo" if carrier == "gloo" else "mpi"


def _finished(call: Callable, device: str) -> Callable:
    """`call` between two waits for the device: MPI reads memory that a kernel may still write, and NCCL's
    call returns before its kernel has run."""
    import torch

    def sum_and_wait(tensor) -> None:
        torch.cuda.synchronize(device)
        call(tensor)
        torch.cuda.synchronize(device)

    return sum_and_wait


def _mpi(comm) -> Callable:
    from mpi4py import MPI

    def on_host(tensor) -> None:
        # A numpy view of the tensor's memory costs less than the protocol by which mpi4py reads tensors.
        comm.Allreduce(MPI.IN_PLACE, tensor if tensor.is_cuda else tensor.numpy())

    return on_host


@contextmanager
def _torch(comm, carrier: str, meeting: Callable) -> Iterator[Callable]:
    import torch.distributed as dist

    pass

    with address(comm) as (host, port), variables(**meeting(comm, host, port)):
        dist.init_process_group(carrier)
        comm.Barrier()  # or a rank that is done at once would leave while another still connects to it
    try:
        yield dist.all_reduce
    finally:
        dist.destroy_process_group()


@contextmanager
def _horovod(comm, carrier: str) -> Iterator[Callable]:
    global horovod_began
    import horovod.torch as hvd

    horovod_began = controller_of(carrier)
    begin_with = _by_gloo if horovod_began == "gloo" else _by_mpi
    with begin_with(comm):
        hvd.init()
        try:
            # One name for each length: Horovod then remembers the tensor (its response cache).
            yield lambda tensor: hvd.allreduce_(tensor, op=hvd.Sum, name=f"{tensor.dtype}.{tensor.numel()}")
        finally:
            hvd.shutdown()
            comm.Barrier()


@contextmanager
def _by_mpi(comm) -> Iterator[None]:
    pass

    with variables(HOROVOD_CONTROLLER="mpi", HOROVOD_CPU_OPERATIONS="mpi"):
        yield


@contextmanager
def _by_gloo(comm) -> Iterator[None]:
    """What `horovodrun --gloo` would set, and its server on rank 0, where Gloo's ranks find each other."""
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    pass

    with ExitStack() as stack:
        host, _ = comm.bcast(stack.enter_context(address(comm)))
        where = port = None
        if comm.rank == 0:
            # Bound to this one address: Horovod's own start would listen on every interface.
            server = stack.enter_context(RendezvousHTTPServer((host, 0), RendezvousHandler, 0))
            server.init([])
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
            where, port = server.server_address[:2]
        where, port = comm.bcast((where, port))
        values = {"GLOO_RENDEZVOUS_ADDR": where, "GLOO_RENDEZVOUS_PORT": port, **_seats(comm)}
        values |= {"CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo"}
        if where == "127.0.0.1":
            values["GLOO_IFACE"] = "lo"
        stack.enter_context(variables(**{f"HOROVOD_{name}": one for name, one in values.items()}))
        yield


def _seats(comm) -> dict[str, object]:
    """This rank's numbers as Horovod counts: in the job, on its host, among hosts that have such a rank."""
    hosts = comm.allgather(socket.gethostname())
    mine = hosts[comm.rank]
    local = [rank for rank, host in enumerate(hosts) if host == mine]
    place = local.index(comm.rank)
    across = [host for host in dict.fromkeys(hosts) if hosts.count(host) > place]
    return {
        "HOSTNAME": mine,
        "RANK": comm.rank,
        "SIZE": comm.size,
        "LOCAL_RANK": place,
        "LOCAL_SIZE": len(local),
        "CROSS_RANK": across.index(mine),
        "CROSS_SIZE": len(across),
    }
