"""How each backend of labkit.backends begins, what its allreduce call is, and how it ends."""

from __future__ import annotations

import ctypes
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from labkit import _probing

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


def mpi_takes_gpu_memory() -> bool:
    """What the MPI library in this process says of itself (a call that MPICH, MVAPICH and Open MPI have)."""
    for path in _probing.loaded_mpi():
        library, flag = ctypes.CDLL(path), ctypes.c_int(0)
        if hasattr(library, "MPIX_Query_cuda_support"):
            return bool(library.MPIX_Query_cuda_support())
        if hasattr(library, "MPIX_GPU_query_support"):
            library.MPIX_GPU_query_support(0, ctypes.byref(flag))  # 0 = MPIX_GPU_SUPPORT_CUDA
            return bool(flag.value)
    return False


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

    from labkit import backends

    with backends.address(comm) as (host, port), backends.variables(**meeting(comm, host, port)):
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
    from labkit import backends

    with backends.variables(HOROVOD_CONTROLLER="mpi", HOROVOD_CPU_OPERATIONS="mpi"):
        yield


@contextmanager
def _by_gloo(comm) -> Iterator[None]:
    """What `horovodrun --gloo` would set, and its server on rank 0, where Gloo's ranks find each other."""
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    from labkit import backends

    with ExitStack() as stack:
        host, _ = comm.bcast(stack.enter_context(backends.address(comm)))
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
        stack.enter_context(backends.variables(**{f"HOROVOD_{name}": one for name, one in values.items()}))
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
