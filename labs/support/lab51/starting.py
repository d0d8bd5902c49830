"""How each backend starts on the ranks of an MPI job, what its allreduce call is, and how it ends."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from labkit import launch

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
    """What `horovodrun --mpi` would set."""
    with launch.environment({"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}):
        yield


@contextmanager
def _by_gloo(comm) -> Iterator[None]:
    """What `horovodrun --gloo` would set, and its server on rank 0, where Gloo's ranks find each other."""
    with ExitStack() as stack:
        host, _ = comm.bcast(stack.enter_context(address(comm)))
        where = port = key = None
        if comm.rank == 0:
            key = os.urandom(32).hex()  # it answers only to who knows this: the ranks of this job
            where, port = stack.enter_context(launch.rendezvous(key, host))
        where, port, key = comm.bcast((where, port, key))
        values = {
            "CONTROLLER": "gloo",
            "CPU_OPERATIONS": "gloo",
            "GLOO_RENDEZVOUS_ADDR": where,
            "GLOO_RENDEZVOUS_PORT": port,
            **_seats(comm),
        }
        if where == "127.0.0.1":
            values["GLOO_IFACE"] = "lo"
        variables = {f"HOROVOD_{name}": str(value) for name, value in values.items()}
        variables["_HOROVOD_SECRET_KEY"] = key
        stack.enter_context(launch.environment(variables))
        yield


def _seats(comm) -> dict[str, object]:
    """This rank's numbers as Horovod counts: in the job, on its host, among hosts that have such a rank."""
    hosts = comm.allgather(socket.gethostname())
    own = hosts[comm.rank]
    local = [rank for rank, host in enumerate(hosts) if host == own]
    place = local.index(comm.rank)
    across = [host for host in dict.fromkeys(hosts) if hosts.count(host) > place]
    return {
        "HOSTNAME": own,
        "RANK": comm.rank,
        "SIZE": comm.size,
        "LOCAL_RANK": place,
        "LOCAL_SIZE": len(local),
        "CROSS_RANK": across.index(own),
        "CROSS_SIZE": len(across),
    }
