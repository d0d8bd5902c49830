"""How each backend starts on the ranks of an MPI job, what its allreduce call is, and how it ends."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from labkit import launch
from labkit.horovod import meet_by_gloo

horovod_began: str | None = None  # Horovod's controller in this process, which it cannot change any more


@contextmanager
def started(backend, comm, device: str, meeting: Callable) -> Iterator[Callable]:
    """Start a backend on all ranks of comm; yields sum(tensor), in place, done when it returns.

    backend: one of backends.BACKENDS. device: of its tensors.
    """
    with ExitStack() as stack:
        if device != "cpu":
            import torch

            torch.cuda.set_device(device)
        if backend.caller == "torch":
            call = stack.enter_context(_torch(comm, backend.carrier, meeting))
        elif backend.caller == "horovod":
            call = stack.enter_context(_horovod(comm, backend.carrier))
        else:
            call = _mpi(comm)
        yield call if device == "cpu" else _finished(call, device)


def controller_of(carrier: str) -> str:
    """Who brings Horovod's ranks together when its tensors go by `carrier`: Gloo needs Gloo, others MPI."""
    return "gloo" if carrier == "gloo" else "mpi"


def meet_at_rank_0(comm, host: str, port: int) -> dict[str, str]:
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


def _finished(call: Callable, device: str) -> Callable:
    """`call` between two waits for the device.

    MPI reads memory that a kernel may still write, and NCCL's call returns before its kernel has run.
    """
    import torch

    def sum_and_wait(tensor) -> None:
        torch.cuda.synchronize(device)
        call(tensor)
        torch.cuda.synchronize(device)

    return sum_and_wait


def _mpi(comm) -> Callable:
    from mpi4py import MPI

    def call(tensor) -> None:
        # A numpy view of the tensor's memory costs less than the protocol by which mpi4py reads tensors.
        comm.Allreduce(MPI.IN_PLACE, tensor if tensor.is_cuda else tensor.numpy())

    return call


@contextmanager
def _torch(comm, carrier: str, meeting: Callable) -> Iterator[Callable]:
    import torch.distributed as dist

    with address(comm) as (host, port):
        variables = {name: str(value) for name, value in meeting(comm, host, port).items()}
        with launch.environment(variables):
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
    begin_with = meet_by_gloo if horovod_began == "gloo" else _by_mpi
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
    """What `horovodrun --mpi` would set."""
    with launch.environment({"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}):
        yield
