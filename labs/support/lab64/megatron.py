"""Published GPTs, how they may be laid out on GPUs, what that holds, and what a step then takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from labkit.errors import LabError

MEMORY = 80e9  # bytes of an A100's memory (A100 80GB)


class Layout(NamedTuple):
    """tensor, pipeline, data: ranks in each direction. micro: sequences of a micro-batch."""

    tensor: int
    pipeline: int
    data: int
    micro: int = 1

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data


class Net(NamedTuple):
    """A GPT, the batch of a step in sequences, and the record: its layout and TFLOP/s of a GPU."""

    name: str
    heads: int
    hidden: int
    layers: int
    batch: int
    gpus: int
    layout: Layout | None = None
    teraflops: float | None = None
    sequence: int = 2048
    vocabulary: int = 51_200

    @property
    def parameters(self) -> float:
        """Narayanan and others (2021), equation (2): 12 l h² (1 + 13/(12 h) + (V + s)/(12 l h))."""
        hidden = self.hidden
        inner = 12 * self.layers * hidden**2 + 13 * self.layers * hidden
        return inner + (self.vocabulary + self.sequence) * hidden

    def flops(self, sequences: int) -> float:
        """Floating-point operations of `sequences` sequences in a step, activations computed twice.

        Narayanan and others (2021), equation (3): 96 B s l h² (1 + s/(6 h) + V/(16 l h)).
        """
        hidden = self.hidden
        more = 1 + self.sequence / (6 * hidden) + self.vocabulary / (16 * self.layers * hidden)
        return 96 * sequences * self.sequence * self.layers * hidden**2 * more


# Narayanan and others, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC
# 2021 (arXiv 2104.04473), table 1; micro-batches from NVIDIA/Megatron-LM,
# examples/academic_paper_scripts/sc21/run_table_1.sh.
# billions, heads, hidden, layers, tensor, pipeline, GPUs, batch, micro-batch, TFLOP/s a GPU, PFLOP/s of all
TABLE = (
    ("1.7", 24, 2304, 24, 1, 1, 32, 512, 16, 137, 4.4),
    ("3.6", 32, 3072, 30, 2, 1, 64, 512, 16, 138, 8.8),
    ("7.5", 32, 4096, 36, 4, 1, 128, 512, 16, 142, 18.2),
    ("18.4", 48, 6144, 40, 8, 1, 256, 1024, 8, 135, 34.6),
    ("39.1", 64, 8192, 48, 8, 2, 512, 1536, 4, 138, 70.8),
    ("76.1", 80, 10240, 60, 8, 4, 1024, 1792, 2, 140, 143.8),
    ("145.6", 96, 12288, 80, 8, 8, 1536, 2304, 2, 148, 227.1),
    ("310.1", 128, 16384, 96, 8, 16, 1920, 2160, 1, 155, 297.4),
    ("529.6", 128, 20480, 105, 8, 35, 2520, 2520, 1, 163, 410.2),
    ("1008.0", 160, 25600, 128, 8, 64, 3072, 3072, 1, 163, 502.0),
)


def published() -> list[Net]:
    """The ten GPTs of the paper's table 1, from 1.7 to 1008 billion parameters. 145.6 is GPT-3-like."""
    nets = []
    for name, heads, hidden, layers, tensor, pipeline, gpus, batch, micro, teraflops, _ in TABLE:
        layout = Layout(tensor, pipeline, gpus // (tensor * pipeline), micro)
        nets.append(Net(name, heads, hidden, layers, batch, gpus, layout, teraflops))
    return nets


def bytes_on_a_gpu(net: Net, layout: Layout) -> float:
    """Bytes of the first stage's GPUs: parameters with Adam, and activations, of which most are not kept.

    20 bytes a parameter: weights and gradients in 16 bits and in 32, and Adam's averages (NVIDIA/Megatron-LM,
    documentation of its distributed optimizer: fp16 parameters and gradients without it). Each
    layer keeps what enters it, 2 bytes a number, for as many micro-batches as 1F1B has in flight; the layer
    whose activations are just there has s b h (10 + 24/t + 5 a s/(h t)) bytes: Korthikanti and others, 2022
    (arXiv 2205.05198), equation (2).
    """
    tensor, pipeline, data, micro = layout
    numbers = net.sequence * micro * net.hidden
    under_way = min(pipeline, net.batch / (data * micro))
    entering = 2 * numbers * net.layers / pipeline * under_way
    layer = numbers * (10 + 24 / tensor + 5 * net.heads * net.sequence / (net.hidden * tensor))
    return 20 * net.parameters / (tensor * pipeline) + entering + layer


def layouts(net: Net, memory: float = MEMORY) -> Iterator[Layout]:
    """All layouts of the net's GPUs with micro-batches of one sequence, that come out even and fit."""
    for tensor in (1, 2, 4, 8, 16, 32):
        for pipeline in range(1, net.layers + 1):
            model = tensor * pipeline
            if net.heads % tensor or net.layers % pipeline or net.gpus % model:
                continue
            layout = Layout(tensor, pipeline, net.gpus // model)
            if net.batch % layout.data == 0 and bytes_on_a_gpu(net, layout) <= memory:
                yield layout


class Cost(NamedTuple):
    """Seconds of a step by part: arithmetic, the tensor ranks' sums, the pipe's idle time, the gradients."""

    arithmetic: float
    sums: float
    bubble: float
    gradients: float

    @property
    def total(self) -> float:
        return sum(self)


def parts_of_step(net: Net, layout: Layout, gpus) -> Cost:
    """A step's seconds by part. gpus: answers to compute(net, sequences), allreduce(ranks, apart, nbytes)."""
    tensor, pipeline, data, micro = layout
    count = net.batch / (data * micro)
    arithmetic = gpus.compute(net, micro) / (tensor * pipeline)
    nbytes = 2 * micro * net.sequence * net.hidden
    sums = 6 * net.layers / pipeline * gpus.allreduce(tensor, 1, nbytes)
    gradients = gpus.allreduce(data, tensor, 2 * net.parameters / (tensor * pipeline))
    return Cost(count * arithmetic, count * sums, (pipeline - 1) * (arithmetic + sums), gradients)


def error(step_seconds: Callable, net: Net, gpus) -> float:
    """How far the model's TFLOP/s of a published net are off: 0.1 is 10 % too fast."""
    if net.teraflops is None:
        raise LabError(f"Of the net with {net.name} billion parameters no speed is known.")
    seconds = step_seconds(net, net.layout, gpus)
    return net.flops(net.batch) / seconds / net.gpus / (1e12 * net.teraflops) - 1
