"""Where a lab's tensors are, and how they get to the library that carries them.

    where = placement.of_mpi()               # on a rank: its device, and what its MPI may be given
    net.to(where.device)
    where.allreduce(comm, gradient)          # in place; through the host where MPI takes no GPU
                                             memory
    record.add("step", seconds=took, **where.fields())

| name | what it is |
|---|---|
| `Placement` | device, staged or not, library; the calls that hand tensors over accordingly |
| `of_mpi` | of tensors that MPI carries, after MPI was asked what it takes |
| `of_horovod`, `on_gpu_by_horovod` | of tensors that Horovod carries: the build in use decides |
| `through_numpy` | of tensors that the lab copies to NumPy's arrays for MPI |
| `on_host` | of tensors that stay in host memory, whatever else is here |
| `take_device` | this rank's device, made PyTorch's current one |
| `device_of_tensorflow` | this rank's device, where TensorFlow computes |
| `own_gpu` | its GPU by its host and UUID: ranks may share one |
| `ranks_on_a_gpu` | the most ranks that share a GPU; 1: each rank has its own |
| `pinned_like`, `for_mpi` | host memory for a copy of a tensor; a tensor as mpi4py takes it |

*Staged* means: a GPU's tensors go through host memory on their way. Some libraries do so by
themselves; for others the lab has to, since a library that takes no GPU memory reads it as if it
were the host's.

Horovod's rules: v0.28.1, common/operations.cc (CreateOperationManager), torch/mpi_ops_v2.cc
(DoAllreduceCudaOnCPU). That MPI must find the memory ready, as it knows no streams: mpi4py's
manual, "Support for GPU-aware MPI".
"""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from labkit import builds, mpis, world

THROUGH_HOST = "through the host"


@dataclass(frozen=True)
class Placement:
    """Where tensors are, and what carries them.

    device: "cpu" or "cuda:1", where net and data live. staged: they go through host memory on their
    way. library: that carries them, "MPI", "NCCL" or "Gloo". by_lab: the lab has to stage them, as
    the library takes no GPU memory. reason: why they are staged, in words.
    """

    device: str
    staged: bool
    library: str
    by_lab: bool = False
    reason: str = ""

    def fields(self) -> dict[str, str]:
        """For record.add(**…): `device`, `staged` ("through the host" or "no") and `library`."""
        return {
            "device": self.device,
            "staged": THROUGH_HOST if self.staged else "no",
            "library": self.library,
        }

    def describe(self) -> str:
        """One line: "Tensors on cuda:1, staged through the host for MPI: this MPICH does not take
        …"."""
        if self.device == "cpu":
            return f"Tensors in host memory; {self.library} carries them."
        if not self.staged:
            return f"Tensors on {self.device}; {self.library} takes them as they are."
        return f"Tensors on {self.device}, staged {THROUGH_HOST} for {self.library}: {self.reason}."

    @contextmanager
    def lend(self, tensor) -> Iterator:
        """What the library may be given for a tensor, while a block runs: itself, or a pinned copy
        of it.

        At the end of the block the copy is copied back, so that what the library wrote is in
        `tensor`.
        """
        if not self.by_lab:
            self._settle(tensor)
            yield tensor
            return
        values = tensor.detach()  # a net's weights, too, are only numbers here
        copy = pinned_like(values)
        copy.copy_(values)  # returns when the copy is there
        yield copy
        values.copy_(copy)

    def allreduce(self, comm, tensor) -> None:
        """Sum a tensor over all ranks of comm (mpi4py's), in place; the sum is there when this
        returns."""
        from mpi4py import MPI

        with self.lend(tensor) as memory:
            comm.Allreduce(MPI.IN_PLACE, for_mpi(memory))

    def broadcast(self, comm, tensor, root: int = 0) -> None:
        """Rank root's tensor, in place, on all ranks of comm (mpi4py's)."""
        with self.lend(tensor) as memory:
            comm.Bcast(for_mpi(memory), root=root)

    def broadcast_parameters(
        self, hvd, parameters: Mapping[str, object], root_rank: int = 0
    ) -> None:
        """hvd.broadcast_parameters, for the tensors of a net's state_dict(), staged where the lab
        has to.

        hvd: horovod.torch.
        """
        if not self.by_lab:
            hvd.broadcast_parameters(parameters, root_rank)
            return
        for name, tensor in sorted(parameters.items()):
            with self.lend(tensor) as memory:
                hvd.broadcast_(memory, root_rank, name=name)

    def compression(self, hvd):
        """For hvd.DistributedOptimizer(compression=…): stages gradients where the lab has to, else
        nothing.

        hvd: horovod.torch. Its optimizer compresses a gradient before its allreduce, and
        decompresses what comes back: a copy to pinned host memory, and one back, are a compression
        of that kind.
        """
        return Staging if self.by_lab else hvd.Compression.none

    def _settle(self, tensor) -> None:
        """Wait until all work on a GPU tensor is done, where the library would not: MPI knows no
        streams."""
        if self.library == "MPI" and tensor.is_cuda:
            import torch

            torch.cuda.synchronize(tensor.device)


class Staging:
    """A compressor of Horovod's kind: copies a tensor to pinned host memory, and back what comes of
    it."""

    @staticmethod
    def compress(tensor):
        """(copy on the host, where the tensor was)."""
        copy = pinned_like(tensor)
        copy.copy_(tensor)
        return copy, tensor.device

    @staticmethod
    def decompress(tensor, device):
        """The tensor on that device."""
        return tensor.to(device)


def of_mpi() -> Placement:
    """Where this rank's tensors are when MPI carries them. MPI has to run (mpi4py's import starts
    it).

    A GPU's memory goes to MPI as it is only where MPI was asked and takes it
    (mpis.takes_gpu_memory, and the switch of its family); otherwise the lab stages. This rank's
    device becomes PyTorch's current one.
    """
    device = take_device()
    if device == "cpu":
        return on_host("MPI")
    reason = mpi_reason()
    return Placement(device, bool(reason), "MPI", by_lab=bool(reason), reason=reason)


def through_numpy() -> Placement:
    """Of tensors that the lab copies to NumPy's arrays, which MPI carries: staged, whatever MPI
    takes.

    This rank's device becomes PyTorch's current one.
    """
    device = take_device()
    if device == "cpu":
        return on_host("MPI")
    return Placement(device, True, "MPI", by_lab=True, reason="it gets NumPy's arrays")


def mpi_reason() -> str:
    """Why this rank's MPI, which has to run, must not be handed GPU memory; "" if it may be."""
    from mpi4py import MPI

    family, version = mpis.identify(MPI.Get_library_version())
    return mpis.staging_reason(
        family, version, mpis.takes_gpu_memory(), mpis.parameters(os.environ)
    )


def of_horovod(hvd=None) -> Placement:
    """Where this rank's tensors are when Horovod carries them, for the build in use, after
    hvd.init().

    hvd: horovod.torch or horovod.tensorflow; default: the one that is imported. On a GPU: a build
    with NCCL hands tensors to NCCL; one for MPI to MPI, if that takes them; any other stages them
    itself if it was compiled with CUDA. Else the lab has to. PyTorch's current device becomes this
    rank's.
    """
    hvd = hvd or _imported_horovod()
    carrier = "Gloo" if hvd.gloo_enabled() else "MPI"
    with_torch = hvd.__name__ == "horovod.torch"
    device = take_device() if with_torch else device_of_tensorflow()
    if device == "cpu":
        return on_host(carrier)
    # TensorFlow copies by itself what an operation without a kernel for GPUs needs.
    copies = hvd.cuda_built() or not with_torch
    return on_gpu_by_horovod(device, hvd.nccl_built(), copies, carrier, mpi_reason)


def on_gpu_by_horovod(
    device: str, nccl: bool, copies: bool, carrier: str, reason_of_mpi: Callable[[], str]
) -> Placement:
    """Of a GPU's tensors, with the build of Horovod in use.

    nccl: it was built with NCCL. copies: it copies to the host by itself. carrier: what carries the
    copies. reason_of_mpi: gives the reason why MPI must not be handed GPU memory; "" if it may be.
    """
    if nccl:
        return Placement(device, False, "NCCL")
    if builds.current_horovod() == "host":
        reason = "this build of Horovod has no operations for GPUs"
        return Placement(device, True, carrier, by_lab=not copies, reason=reason)
    reason = reason_of_mpi()
    return Placement(
        device, bool(reason), carrier if reason else "MPI", by_lab=bool(reason), reason=reason
    )


def on_host(library: str) -> Placement:
    """Tensors that are in host memory, also where there are GPUs: NumPy's arrays, say."""
    return Placement("cpu", False, library)


def take_device() -> str:
    """This rank's device (world.device()), made PyTorch's current one.

    What asks for "the" device, pinned memory, MPI and kernels among them, then finds this one, not
    GPU 0.
    """
    device = world.device()
    if device != "cpu":
        import torch

        torch.cuda.set_device(device)
    return device


def device_of_tensorflow() -> str:
    """world.device(), but "cpu" where TensorFlow sees no GPU: `tensorflow-cpu` beside a PyTorch
    with CUDA, say."""
    device = world.device()
    if device == "cpu":
        return device
    import tensorflow as tf

    return device if tf.config.list_physical_devices("GPU") else "cpu"


def own_gpu() -> str | None:
    """This rank's GPU, in the same words on every rank that has it; None where there is none."""
    device = world.device()
    if device == "cpu":
        return None
    import torch

    return f"{socket.gethostname()} {torch.cuda.get_device_properties(device).uuid}"


def ranks_on_a_gpu(comm=None) -> int:
    """The most ranks that share a GPU; 0 where a rank has none. All ranks call it, and get the
    same.

    comm: of the ranks; None: all of this job. Ranks of launch.run see all GPUs of this host, and
    are counted. A launcher may show each of its ranks one GPU alone, so there the GPUs are
    compared.
    """
    if comm is None and world.launcher() in (None, "labkit"):
        return 0 if world.device() == "cpu" else -(-world.local_size() // world.gpu_count())
    if comm is None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    gpus = comm.allgather(own_gpu())
    return 0 if None in gpus else max(Counter(gpus).values())


def for_mpi(tensor):
    """A tensor as mpi4py reads it soonest: a NumPy view of the host's memory, a GPU's tensor as it
    is.

    mpi4py asks PyTorch for the address (DLPack), which tells it of tensors of the current device
    alone that want no gradient.
    """
    values = tensor.detach()
    return values if values.is_cuda else values.numpy()


def pinned_like(tensor):
    """Host memory for a copy of a tensor, pinned where it is a GPU's: only such copies run at full
    speed."""
    import torch

    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)


def _imported_horovod():
    for name in ("horovod.torch", "horovod.tensorflow"):
        if name in sys.modules:
            return sys.modules[name]
    import horovod.torch

    return horovod.torch
