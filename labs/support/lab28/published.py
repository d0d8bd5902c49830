"""Published speeds of training and of allreduces, as their sources give them."""

from __future__ import annotations

from typing import NamedTuple

from labkit import nets

_NVIDIA = (
    "NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5/README.md, training "
    "performance, one GPU, container 21.03"
)
_TENSORFLOW = "TensorFlow's page Benchmarks, May 2017, one GPU of a DGX-1, synthetic images"
_DEEPBENCH = (
    "Baidu, DeepBench, results/train/DeepBench_IA_KNL7250.xlsx (2017): Intel MLSL, a process a node, Xeon "
    "Phi 7250, Omni-Path 100"
)


class Gpu(NamedTuple):
    """What training ResNet-50 reached on one GPU. images: a second; peak: operations a second of its kind."""

    name: str
    images: float
    peak: float
    source: str


class Allreduce(NamedTuple):
    """One that somebody measured. nbytes: of a rank's vector; seconds: of the whole allreduce."""

    nbytes: float
    nodes: int
    seconds: float
    source: str


class Net(NamedTuple):
    """gradient: bytes, in 32 bits. flops: of one picture's training, three times its way forward."""

    gradient: float
    flops: float


def _net(name: str) -> Net:
    table = nets.layer_table(name)
    return Net(4.0 * float(table.parameters.sum()), 3.0 * float(table.flops.sum()))


RESNET50 = _net("resnet50")

# Peaks: NVIDIA's data sheets of the P100 SXM2, V100 SXM2 and A100 SXM; 16 bits are those of the tensor cores.
GPUS = (
    Gpu("P100, 32 bits", 219.0, 10.6e12, _TENSORFLOW),
    Gpu("V100, 32 bits", 367.0, 15.7e12, _NVIDIA),
    Gpu("V100, 16 bits", 1200.0, 125e12, _NVIDIA),
    Gpu("A100, 16 bits", 2470.0, 312e12, _NVIDIA),
)

MEASURED = tuple(
    Allreduce(4.0 * floats, nodes, milliseconds / 1e3, _DEEPBENCH)
    for floats, nodes, milliseconds in (
        (100_000, 2, 0.09),
        (100_000, 32, 0.31),
        (3_097_600, 8, 2.26),
        (16_777_216, 8, 8.66),
        (16_777_216, 16, 14.72),
        (16_777_216, 32, 19.0),
        (64_500_000, 8, 54.73),
        (64_500_000, 32, 76.68),
    )
)
