"""What answers of labs 46 and 47 are tried on: calls of a timeline, drifting runs, published benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from labkit import nets
from labkit.horovod import timeline

# ------------------------------------------------------------------------------------------ timelines (46.1)

GRADIENTS = frozenset({"conv1", "conv2", "fc1", "fc2"})


def call(name: str, tensors: str, milliseconds: float) -> timeline.Collective:
    """One call: call("MPI_ALLREDUCE", "conv1 conv2", 3.0)."""
    parts = [timeline.Activity(tensor, name, 0.0, milliseconds / 1e3) for tensor in tensors.split()]
    return timeline.Collective(name, parts)


# story: (calls, steps that they are of, {library: (calls a step, milliseconds a step)}). Made up, but the
# names, and which tensors meet in a call, are as Horovod 0.28.1 writes them: nccl_operations.cc (for the
# hierarchical one) and mpi_operations.cc. A tensor that lies on the host goes by MPI in every build.
TIMELINES = {
    "a step of MPI, fused to two calls": (
        [call("MPI_ALLREDUCE", "fc2 fc1", 4.0), call("MPI_ALLREDUCE", "conv2 conv1", 1.0)],
        1,
        {"MPI": (2.0, 5.0)},
    ),
    "two steps of Gloo, fused to three calls": (
        [
            call("GLOO_ALLREDUCE", "fc2 fc1 conv2 conv1", 6.0),
            call("GLOO_ALLREDUCE", "fc2 fc1 conv2", 5.0),
            call("GLOO_ALLREDUCE", "conv1", 1.0),
        ],
        2,
        {"GLOO": (1.5, 6.0)},
    ),
    "NCCL; the start, and each step's loss, which lies on the host, by MPI": (
        [
            call("MPI_BCAST", "optimizer_state", 2.0),
            call("NCCL_ALLREDUCE", "fc2 fc1 conv2 conv1", 3.0),
            call("MPI_ALLREDUCE", "loss", 0.5),
            call("NCCL_ALLREDUCE", "fc2 fc1 conv2 conv1", 3.0),
            call("MPI_ALLREDUCE", "loss", 0.5),
        ],
        2,
        {"NCCL": (1.0, 3.0)},
    ),
    "HOROVOD_HIERARCHICAL_ALLREDUCE=1: NCCL in the node, MPI between nodes": (
        [
            call("NCCL_REDUCESCATTER", "fc2 fc1 conv2 conv1", 1.0),
            call("MPI_ALLREDUCE", "fc2 fc1 conv2 conv1", 7.0),
            call("NCCL_ALLGATHER", "fc2 fc1 conv2 conv1", 1.0),
        ],
        1,
        {"NCCL": (2.0, 2.0), "MPI": (1.0, 7.0)},
    ),
    "MPI that fuses a gradient and the loss": (
        [call("MPI_ALLREDUCE", "fc2 fc1 conv2", 4.0), call("MPI_ALLREDUCE", "conv1 loss", 1.0)],
        1,
        {"MPI": (2.0, 5.0)},
    ),
}

# ---------------------------------------------------------------------------------------- made-up runs (46.2)


def drifting_runs(communication: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """(seconds of a step, of the same without communication), 25 pairs, each one right after the other.

    Communication is this share of every step but the first, which something else held up. A neighbour makes
    12 pairs three times as long: so the medians of the two columns are of different moments.
    """
    slowed = np.where(np.arange(25) % 2 == 0, 1.0, 3.0)
    alone = 0.08 * slowed
    step = alone / (1 - communication)
    step[0] *= 20
    return step, alone


# ---------------------------------------------------------------------------------------- published (46, 47)


class Published(NamedTuple):
    """A line of a published table.

    carrier: of the gradients. images: per second, of all GPUs; one_gpu: of a single one. gbit: of a server's
    link, in 10^9 bits/s.
    """

    carrier: str
    net: str
    gpus: int
    gbit: float
    images: float
    one_gpu: float
    batch: int = 64  # images of each GPU in a step

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self.batch * self.gpus / self.images

    @property
    def alone(self) -> float:
        """Seconds of a step of a single GPU."""
        return self.batch / self.one_gpu

    @property
    def nbytes(self) -> int:
        """Bytes of the gradients, in float32."""
        return 4 * int(nets.layer_table(self.net)["parameters"].sum())

    @property
    def beta(self) -> float:
        """Seconds that a byte takes on the link."""
        return 8 / (self.gbit * 1e9)

    def __str__(self) -> str:
        names = {"vgg16": "VGG-16", "resnet101": "ResNet-101", "inception_v3": "Inception V3"}
        return f"{names[self.net]}, {self.gpus} GPUs, {self.carrier}"


SOURCE = "Horovod's README of September 2017 (github.com/horovod/horovod, blob/d54e3a88/README.md)"
# Servers with 4 Pascal GPUs each; synthetic images, 64 for each GPU. "host": "allreduce on CPU", by MPI.
_ONE_GPU = {
    16: {"inception_v3": 134.4, "resnet101": 119.4, "vgg16": 130.9},
    64: {"inception_v3": 148.8, "resnet101": 136.0, "vgg16": 149.6},
}
_TABLE = (
    ("host over TCP", 16, 25, {"inception_v3": 2073.3, "resnet101": 1338.3, "vgg16": 616.8}),
    ("host over RDMA", 16, 25, {"inception_v3": 2073.1, "resnet101": 1446.3, "vgg16": 618.0}),
    ("NCCL over TCP", 16, 25, {"inception_v3": 1990.7, "resnet101": 1685.1, "vgg16": 1308.7}),
    ("NCCL over RDMA", 16, 25, {"inception_v3": 2022.6, "resnet101": 1746.2, "vgg16": 1787.4}),
    ("host over TCP", 64, 40, {"inception_v3": 6549.6, "resnet101": 3761.6, "vgg16": 1462.6}),
    ("NCCL over TCP", 64, 40, {"inception_v3": 7932.1, "resnet101": 7741.6, "vgg16": 6084.2}),
)


def published(net: str | None = None, gpus: int | None = None) -> list[Published]:
    """The lines of the tables in SOURCE that were measured with Horovod; of one net, of so many GPUs."""
    lines: Sequence[Published] = [
        Published(carrier, name, count, gbit, images, _ONE_GPU[count][name])
        for carrier, count, gbit, row in _TABLE
        for name, images in row.items()
    ]
    return [line for line in lines if net in (None, line.net) and gpus in (None, line.gpus)]
