"""A communicator that also takes tensors of GPUs, where each rank has a GPU to itself.

Programs are written once, with mpi4py's calls and with tensors of `world.device()`:

    @launch.on_devices()
    def study(comm):
        weights = torch.ones(4, device=world.device())
        comm.Allreduce(weights, total)

On CPUs that is MPI's own communicator. Where each rank has a GPU to itself, tensors on it go by
NCCL, through the groups of a DeviceMesh of PyTorch's, while objects, barriers and collectives of
NumPy's arrays still go by MPI. So an MPI that takes no GPU memory is enough.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps

from labkit import placement, world
from labkit.errors import LabError, counted
from labkit.launch import groups
from labkit.launch.process import environment

# What PyTorch says of `tensor.numpy()`.
_HOST_ONLY = "device type tensor to numpy"


def on_devices(*, group: bool = False) -> Callable[[Callable], Callable]:
    """A decorator for functions of launch.run whose first parameter is `comm`: tensors of this
    rank's device may be handed to it.

    Inside, world.device() is "cuda:…" where each rank of the job has a GPU to itself, and "cpu"
    otherwise: NCCL refuses ranks that share one. group: there is a group of torch.distributed on
    CPUs as well, over Gloo; with GPUs there always is, over NCCL. As with launch.in_group, what the
    function returns must not hold on to the group.
    """

    def joined(function: Callable) -> Callable:
        @wraps(function)
        def inside(comm, *args: object, **kwargs: object) -> object:
            own_gpus = placement.ranks_on_a_gpu(comm) == 1
            if own_gpus:
                placement.take_device()
            elif comm.rank == 0 and world.device() != "cpu":
                _say_once(
                    f"{counted(comm.size, 'rank')} and {counted(world.gpu_count(), 'GPU')} here:"
                    " NCCL wants a GPU for each rank, so tensors stay in host memory."
                )
            settings = {} if own_gpus else {"LABKIT_DEVICE": "cpu"}
            with environment(settings), _group(comm, own_gpus, group):
                try:
                    return function(DeviceComm(comm) if own_gpus else comm, *args, **kwargs)
                except TypeError as error:
                    if _HOST_ONLY not in str(error):
                        raise
                    raise LabError(
                        f"This rank's tensors are on {world.device()}, where `.numpy()` cannot"
                        " reach. Give comm's calls the tensor itself, detached."
                    ) from None

        return inside

    return joined


@cache
def _say_once(text: str) -> None:
    print(text)


@contextmanager
def _group(comm, own_gpus: bool, always: bool) -> Iterator[None]:
    """The group of torch.distributed of a block: NCCL's with GPUs, Gloo's or none without."""
    if not own_gpus and not always:
        yield
        return
    import torch

    with groups.group(
        "nccl" if own_gpus else "gloo",
        comm.Barrier,
        store=_store(comm),
        rank=comm.rank,
        world_size=comm.size,
        device_id=torch.device(world.device()) if own_gpus else None,
    ):
        yield


def _store(comm):
    """Where the ranks of a group find each other. MPI tells them rank 0's address."""
    from torch import distributed

    hosts = comm.allgather(socket.gethostname())
    host = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
    store = None
    if comm.rank == 0:
        store = distributed.TCPStore(host, 0, comm.size, True, wait_for_workers=False)
    port = comm.bcast(store and store.port)
    return store or distributed.TCPStore(host, port, comm.size, False)


class DeviceComm:
    """mpi4py's calls, of which those that are given tensors of a GPU go by NCCL.

    Messages to higher ranks have a group of their own, and so have those to lower ones. In one
    group NCCL does all of a rank's messages in the order of their calls, so that two ranks that
    send to each other first would both wait for ever, where MPI's Isend lets them go on. Tags are
    ignored: messages between two ranks arrive in the order in which they were sent.
    """

    def __init__(self, comm):
        from torch import distributed
        from torch.distributed.device_mesh import init_device_mesh

        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.mesh = init_device_mesh("cuda", (comm.size,), mesh_dim_names=("ranks",))
        self._all = self.mesh.get_group("ranks")
        self._up = distributed.new_group()
        self._down = distributed.new_group()
        for group in (self._all, self._up, self._down):
            _connect(group, comm.size)

    def __getattr__(self, name: str):
        """MPI's own call. LabError if it is given a GPU's tensor, which MPI may be unable to
        read."""
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(self.comm, name)
        if not (callable(method) and name[0].isupper()):
            return method

        def call(*args, **options):
            if _on_gpu(*args, *options.values()):
                raise LabError(
                    f"comm.{name} takes no tensor on {world.device()} here. Send, Isend, Recv,"
                    " Irecv, Bcast, Allreduce, Allgather, Alltoall, Alltoallv and"
                    " Reduce_scatter_block do."
                )
            return method(*args, **options)

        return call

    def Send(self, buf, dest: int, tag: int = 0) -> None:
        self.Isend(buf, dest, tag).Wait()

    def Isend(self, buf, dest: int, tag: int = 0):
        from torch import distributed

        _refuse_host_memory("Isend", buf)
        group = self._up if dest > self.rank else self._down
        tensor = buf.detach().contiguous()
        return Request(distributed.isend(tensor, dest, group=group), tensor)

    def Recv(self, buf, source: int, tag: int | None = None, status=None) -> None:
        self.Irecv(buf, source).Wait()

    def Irecv(self, buf, source: int, tag: int | None = None):
        from torch import distributed

        _refuse_host_memory("Irecv", buf)
        group = self._up if source < self.rank else self._down
        return Request(distributed.irecv(buf.detach(), source, group=group), buf)

    def Bcast(self, buf, root: int = 0) -> None:
        from torch import distributed

        if self._by_nccl("Bcast", buf):
            distributed.broadcast(buf.detach(), root, group=self._all)
        else:
            self.comm.Bcast(buf, root)

    def Allreduce(self, sendbuf, recvbuf, op=None) -> None:
        if self._by_nccl("Allreduce", sendbuf, recvbuf):
            self.Iallreduce(sendbuf, recvbuf, op).Wait()
        else:
            self.comm.Allreduce(sendbuf, recvbuf, **_given(op=op))

    def Iallreduce(self, sendbuf, recvbuf, op=None):
        from mpi4py import MPI
        from torch import distributed

        if not self._by_nccl("Iallreduce", sendbuf, recvbuf):
            return self.comm.Iallreduce(sendbuf, recvbuf, **_given(op=op))
        if op not in (None, MPI.SUM):
            raise LabError(f"comm.Allreduce adds up tensors on {world.device()}, and no more.")
        total = recvbuf.detach()
        if sendbuf is not MPI.IN_PLACE:
            total.copy_(sendbuf.detach())
        return Request(distributed.all_reduce(total, group=self._all, async_op=True), total)

    def Allgather(self, sendbuf, recvbuf) -> None:
        from torch import distributed

        if self._by_nccl("Allgather", sendbuf, recvbuf):
            part = sendbuf.detach().contiguous()
            distributed.all_gather_into_tensor(recvbuf.detach(), part, group=self._all)
        else:
            self.comm.Allgather(sendbuf, recvbuf)

    def Reduce_scatter_block(self, sendbuf, recvbuf) -> None:
        from torch import distributed

        if self._by_nccl("Reduce_scatter_block", sendbuf, recvbuf):
            whole = sendbuf.detach().contiguous()
            distributed.reduce_scatter_tensor(recvbuf.detach(), whole, group=self._all)
        else:
            self.comm.Reduce_scatter_block(sendbuf, recvbuf)

    def Alltoall(self, sendbuf, recvbuf) -> None:
        from torch import distributed

        if self._by_nccl("Alltoall", sendbuf, recvbuf):
            parts = sendbuf.detach().contiguous()
            distributed.all_to_all_single(recvbuf.detach(), parts, group=self._all)
        else:
            self.comm.Alltoall(sendbuf, recvbuf)

    def Alltoallv(self, sendbuf, recvbuf) -> None:
        """sendbuf, recvbuf: a tensor and the count of its numbers for each rank, one behind the
        other."""
        from torch import distributed

        (send, outgoing), (receive, incoming) = sendbuf, recvbuf
        if self._by_nccl("Alltoallv", send, receive):
            distributed.all_to_all_single(
                receive.detach().view(-1),
                send.detach().contiguous().view(-1),
                _counts(incoming),
                _counts(outgoing),
                group=self._all,
            )
        else:
            self.comm.Alltoallv(sendbuf, recvbuf)

    def _by_nccl(self, name: str, *buffers: object) -> bool:
        """Whether a collective is NCCL's. LabError for a host tensor: the others' are on GPUs."""
        if _on_gpu(*buffers) or any(hasattr(buffer, "is_cuda") for buffer in buffers):
            _refuse_host_memory(name, *buffers)
            return True
        return False


def _connect(group, size: int) -> None:
    """Let all ranks of a group connect, in the same order on each.

    NCCL connects two ranks at their first message, and waits for both. Two ranks whose first
    messages are to each other, in two groups, would wait for ever.
    """
    import torch
    from torch import distributed

    own = torch.zeros(size, device=world.device())
    distributed.all_to_all_single(torch.empty_like(own), own, group=group)


class Request:
    """What Isend and its like return: a message of NCCL's, waited for as one of MPI's."""

    def __init__(self, work, tensor):
        self._work = work
        self._tensor = tensor  # which must not go before the message has arrived

    def Wait(self, status=None) -> bool:
        self._work.wait()
        return True

    def Test(self, status=None) -> bool:
        return self._work.is_completed()

    def wait(self, status=None) -> None:
        self.Wait()

    def test(self, status=None) -> tuple[bool, None]:
        return self.Test(), None


def _on_gpu(*buffers: object) -> bool:
    return any(getattr(buffer, "is_cuda", False) for buffer in buffers)


def _refuse_host_memory(name: str, *buffers: object) -> None:
    """LabError unless all of a call's buffers are on a GPU. A message that leaves one rank by NCCL
    would wait for ever for another that expects it by MPI."""
    from mpi4py import MPI

    if all(buffer is MPI.IN_PLACE or _on_gpu(buffer) for buffer in buffers):
        return
    raise LabError(
        f"comm.{name} was given memory of the host, and this rank's tensors are on"
        f" {world.device()}. Give it a tensor there: torch.empty(…, device=…) makes one."
    )


def _counts(numbers: Sequence) -> list[int]:
    """Alltoallv's counts. LabError where displacements stand beside them, as MPI allows."""
    if any(hasattr(number, "__len__") for number in numbers):
        raise LabError(
            f"comm.Alltoallv takes a tensor on {world.device()} without displacements: its parts"
            " follow one another. Give it [tensor, counts]."
        )
    return [int(number) for number in numbers]


def _given(**options: object) -> dict[str, object]:
    """The options that somebody has given; MPI has values of its own for the others."""
    return {name: value for name, value in options.items() if value is not None}
