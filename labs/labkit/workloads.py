"""Workloads worth a GPU: ResNet-50 and GPT-2 on made-up data, timed, and compared with the peak.

    for name in workloads.chosen("auto"):          # on a CPU none, and a sentence that says so
        load = workloads.load(name, world.device())
        step = partial(train_step, load.net, optimizer, load.inputs, load.labels)
        speed = load.speeds({"your step": step})["your step"]
        print(speed)                               # images/s or tokens/s, and MFU
        record.add("workload", **speed.fields())

| name | what it is |
|---|---|
| `chosen`, `ranks` | names of the workloads that a lab's parameter asks for; ranks to start |
| `load`, `Workload` | a network, its data and its operations on one device |
| `Speed`, `mfu` | what a step reached; model FLOPs utilization, defined here and nowhere else |
| `peak` | operations per second that a device can do: published, or measured |
| `resnet50`, `gpt2` | the networks in plain PyTorch, also in smaller sizes |

A loss is torch.nn.functional.cross_entropy(net(inputs), labels) for both, so a training step that
a learner wrote for images takes them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from labkit import launch, placement, timing, world
from labkit.errors import LabError

# ------------------------------------------------------------------------------ the networks

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, first stride


def resnet50(stages: Sequence[tuple] = STAGES, classes: int = 1000) -> nn.Sequential:
    """ResNet-50 with the stride on the 3 x 3 convolution ("v1.5"): 25,557,032 parameters.

    (n, 3, pixels, pixels) -> logits (n, classes). He et al. 2015, "Deep Residual Learning for Image
    Recognition", table 1. stages: (width, blocks, first stride) of each.
    """
    channels = stages[0][0]
    layers = [_convolution(3, channels, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    for width, count, first_stride in stages:
        for place in range(count):
            layers.append(Bottleneck(channels, width, first_stride if place == 0 else 1))
            channels = 4 * width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers, *head)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, and batch normalization behind it."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """1 x 1 to fewer channels, 3 x 3, 1 x 1 to four times as many, added to the input."""

    def __init__(self, channels: int, width: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            _convolution(channels, width, 1),
            nn.ReLU(inplace=True),
            _convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            _convolution(width, 4 * width, 1),
        )
        same = channels == 4 * width and stride == 1
        self.shortcut = nn.Identity() if same else _convolution(channels, 4 * width, 1, stride)

    def forward(self, images):
        return torch.relu(self.body(images) + self.shortcut(images))


def gpt2(
    layers: int = 12, heads: int = 12, width: int = 768, length: int = 1024, vocabulary: int = 50257
) -> nn.Sequential:
    """GPT-2 in its smallest size, without dropout: 124,439,808 parameters.

    Tokens (n, positions) -> logits (n * positions, vocabulary). Radford et al. 2019, "Language
    Models are Unsupervised Multitask Learners", table 2 and section 2.3; the table of tokens is the
    last layer's matrix, too. Start weights: normal, standard deviation 0.02 (OpenAI's code).
    """
    embedding = Embedding(vocabulary, length, width)
    blocks = [Block(width, heads) for _ in range(layers)]
    head = nn.Linear(width, vocabulary, bias=False)
    head.weight = embedding.tokens.weight
    for module in (embedding, *blocks):
        for part in module.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.normal_(part.weight, std=0.02)
    return nn.Sequential(embedding, *blocks, nn.LayerNorm(width), head, nn.Flatten(0, 1))


class Embedding(nn.Module):
    """A vector for each token and one for its position, added up."""

    def __init__(self, vocabulary: int, length: int, width: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions[: tokens.shape[1]]


class Block(nn.Module):
    """Causal attention, then two linear layers; each behind a layer norm, and added to its
    input."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        texts, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(texts, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(texts, length, width))
        return x + self.down(functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class InBfloat16(nn.Sequential):
    """The same layers, whose matrix products and convolutions compute in bfloat16; logits in
    float32.

    Mixed precision (lab 14) inside the network, so that a training step around it needs no change.
    """

    def forward(self, inputs):
        with torch.autocast(inputs.device.type, torch.bfloat16):
            logits = super().forward(inputs)
        return logits.float()


# ------------------------------------------------------------------------------ the workloads


@dataclass(frozen=True)
class Kind:
    """A workload before it is on a device.

    batch: images, or texts of `length` tokens, of a rank in a step, on a GPU and on a CPU. pixels:
    of an image's side. matrix: rows of the matrices whose product is the peak where that is
    measured.
    """

    title: str
    network: Callable[[], nn.Sequential]
    classes: int
    batch: tuple[int, int]
    pixels: int = 0
    length: tuple[int, int] = (0, 0)
    matrix: tuple[int, int] = (8192, 1024)
    tiny: bool = False

    @property
    def unit(self) -> str:
        return "images" if self.pixels else "tokens"


_SMALL_STAGES = ((8, 1, 1), (16, 1, 2))
_TOKENS = 50257
_SMALL_GPT = {"layers": 2, "heads": 2, "width": 32, "length": 16, "vocabulary": 64}
# What forward keeps for backward, counted as in lab 14, is 86 MB for an image and 0.8 GB for a text
# in float32: 11 GB and 7 GB for a GPU's batches. A GPU of less than 20 GiB gets a quarter of them.
KINDS = {
    "resnet50": Kind("ResNet-50", resnet50, 1000, (128, 2), pixels=224),
    "gpt2": Kind("GPT-2", gpt2, _TOKENS, (8, 1), length=(1024, 128)),
    "tiny resnet": Kind(
        "a tiny ResNet",
        partial(resnet50, _SMALL_STAGES, 10),
        10,
        (4, 4),
        pixels=32,
        matrix=(256, 256),
        tiny=True,
    ),
    "tiny gpt": Kind(
        "a tiny GPT",
        partial(gpt2, **_SMALL_GPT),
        64,
        (2, 2),
        length=(16, 16),
        matrix=(256, 256),
        tiny=True,
    ),
}
LARGE = ("resnet50", "gpt2")
TINY = ("tiny resnet", "tiny gpt")
_ASKED = {"digits": (), "tiny": TINY, "resnet50": ("resnet50",), "gpt2": ("gpt2",)}


def chosen(asked: str) -> tuple[str, ...]:
    """Names of the workloads that a lab's parameter asks for; for none, a sentence is printed.

    asked: "auto" is ResNet-50 and GPT-2 on a GPU and none on a CPU; "tiny" is a tiny variant of
    each; "resnet50" or "gpt2" is that one, on any device; "digits" is none.
    """
    if asked == "auto":
        if world.device() != "cpu":
            return LARGE
        print(
            "There is no GPU here. On one, this cell trains ResNet-50 and GPT-2;"
            ' workload="tiny" takes two steps with tiny variants of them.'
        )
        return ()
    if asked not in _ASKED:
        names = ", ".join(f'"{name}"' for name in ("auto", *_ASKED))
        raise LabError(f"There is no workload {asked!r}; there are {names}.")
    if asked == "digits":
        print('workload="digits" leaves the large workloads out.')
    return _ASKED[asked]


def ranks(on_cpu: int) -> int:
    """Ranks to start for a workload: one for each GPU, `on_cpu` without any; a launcher's, if
    started by one."""
    return launch.ranks_here(world.gpu_count() or on_cpu)


@dataclass(frozen=True)
class Workload:
    """A network and its data on one device, of this rank.

    amount: images or tokens of a step. flops: operations of its forward and backward pass. peak:
    operations per second that this rank's device can do, and where that number is from. timing:
    options of timing.measure.
    """

    name: str
    device: str
    precision: str
    net: nn.Sequential
    inputs: torch.Tensor
    labels: torch.Tensor
    amount: int
    flops: float
    peak: float
    peak_from: str
    timing: Mapping[str, int]

    def speeds(
        self, steps: Mapping[str, Callable], comm=None, control: str | None = None
    ) -> dict[str, Speed]:
        """{way: Speed} of training steps of this workload, which take turns (timing.in_turns).

        control: the way that does not communicate; what the others take longer is communication.
        """
        took = timing.in_turns(steps, comm=comm, device=self.device, **self.timing)
        alone = took[control] if control else None
        return {
            way: self._speed(measured, None if measured is alone else alone)
            for way, measured in took.items()
        }

    def _speed(self, took: timing.Measurement, alone: timing.Measurement | None) -> Speed:
        share = None if alone is None else max(0.0, 1 - alone.median / took.median)
        return Speed(
            workload=self.name,
            device=self.device,
            precision=self.precision,
            unit=KINDS[self.name].unit,
            ranks=world.size(),
            seconds=took,
            rate=self.amount * world.size() / took.median,
            flops=self.flops,
            peak=self.peak,
            peak_from=self.peak_from,
            communication=share,
        )


@dataclass(frozen=True)
class Speed:
    """What training steps of a workload reached.

    rate: images or tokens per second, of all ranks together. flops: of a step, on one rank. peak:
    of one rank's device. communication: share of the step; None of the control, and without one.
    """

    workload: str
    device: str
    precision: str
    unit: str
    ranks: int
    seconds: timing.Measurement
    rate: float
    flops: float
    peak: float
    peak_from: str
    communication: float | None

    @property
    def mfu(self) -> float:
        return mfu(self.flops, self.seconds.median, self.peak)

    def fields(self) -> dict[str, object]:
        """For record.add("workload", **…)."""
        names = ("workload", "device", "precision", "ranks", "seconds", "rate", "flops")
        names += ("peak", "peak_from", "communication")
        kept = {name: getattr(self, name) for name in names}
        return {"unit": f"{self.unit}/s", **kept, "mfu": self.mfu}

    def __str__(self) -> str:
        title = KINDS[self.workload].title
        lines = [
            f"{title} in {self.precision} on {self.device}: {self.rate:,.0f} {self.unit}/s",
            f"a step takes {self.seconds}",
            f"MFU {self.mfu:.1%} of {timing.digits(self.peak / 1e12)} Tflop/s ({self.peak_from})",
        ]
        if self.communication is not None:
            lines.append(f"communication is {self.communication:.0%} of the step")
        return "\n  ".join(lines)


def load(
    name: str, device: str, precision: str = "auto", *, contiguous: bool = False, comm=None
) -> Workload:
    """The workload on a device, with the same weights and other data on each rank.

    precision: "bf16" (mixed, and channels last for images), "fp32", or "auto", which is bf16 on
    GPUs whose tensor cores have it, and for tiny variants. contiguous: weights are never stored
    channels last, and so neither are gradients; for code that flattens them by a view, and for
    Horovod, which refuses others. comm: of the ranks that call it; None: all of this job. Ranks
    that share a GPU share the batch.
    """
    kind = KINDS[name]
    on_gpu = torch.device(device).type == "cuda"
    if precision == "auto":
        has_it = on_gpu and torch.cuda.get_device_capability(device)[0] >= 8  # Ampere, and later
        precision = "bf16" if has_it or kind.tiny else "fp32"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = kind.network()
    if precision == "bf16":
        net = InBfloat16(*net)
    layout = torch.channels_last if precision == "bf16" else torch.contiguous_format
    sharing = placement.ranks_on_a_gpu(comm) or 1
    inputs, labels = _data(kind, _batch(kind, device, sharing), 0 if on_gpu else 1)
    if kind.pixels:
        inputs = inputs.to(memory_format=layout)
        net = net.to(memory_format=torch.contiguous_format if contiguous else layout)
    size, source = peak(device, precision, kind.matrix[0 if on_gpu else 1], sharing)
    many = on_gpu and not kind.tiny
    return Workload(
        name=name,
        device=str(device),
        precision=precision,
        net=net.to(device),
        inputs=inputs.to(device),
        labels=labels.to(device),
        amount=len(inputs) if kind.pixels else inputs.numel(),
        flops=flops_of(name, None if kind.pixels else inputs.shape[1]) * len(inputs),
        peak=size,
        peak_from=source,
        timing={"repeat": 10, "warmup": 3} if many else {"repeat": 2, "warmup": 0},
    )


def _batch(kind: Kind, device: str, sharing: int) -> int:
    if torch.device(device).type != "cuda":
        return kind.batch[1]
    memory = torch.cuda.get_device_properties(device).total_memory
    small = 4 if memory < 20 << 30 and not kind.tiny else 1
    return max(2, kind.batch[0] // (small * sharing))


def _data(kind: Kind, batch: int, place: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random images, or tokens and the tokens that follow them; each rank has others."""
    draw = torch.Generator().manual_seed(world.rank())
    if kind.pixels:
        images = torch.randn(batch, 3, kind.pixels, kind.pixels, generator=draw)
        return images, torch.randint(kind.classes, (batch,), generator=draw)
    text = torch.randint(kind.classes, (batch, kind.length[place] + 1), generator=draw)
    return text[:, :-1].contiguous(), text[:, 1:].flatten()


# ------------------------------------------------------------------------------ operations, and MFU


@lru_cache(maxsize=8)
def flops_of(name: str, length: int | None = None) -> float:
    """Operations of a forward and a backward pass of one image or text, as PyTorch counts them.

    A multiply-add is two. Counted by torch.utils.flop_counter on tensors without memory: matrix
    products and convolutions. Of attention the whole square counts, as in PaLM's formula, although
    a causal kernel computes half of it. What activation checkpointing computes again does not
    count.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    kind = KINDS[name]
    batch = 2  # batch normalization wants two values of a channel
    with torch.device("meta"):
        net = kind.network()
        if kind.pixels:
            inputs = torch.empty(batch, 3, kind.pixels, kind.pixels)
        else:
            inputs = torch.empty(batch, length or kind.length[0], dtype=torch.long)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        net(inputs).sum().backward()
    return counter.get_total_flops() / batch


def mfu(flops: float, seconds: float, peak: float) -> float:
    """Model FLOPs utilization: the share of a device's peak that the model's own operations reach.

    flops: of a step's forward and backward pass on the device, a multiply-add counted as two.
    Operations that the model does not ask for, such as those of checkpointing, do not count. peak:
    operations per second. Chowdhery et al. 2022, "PaLM: Scaling Language Modeling with Pathways"
    (arXiv 2204.02311), section 4.1 and appendix B.
    """
    return flops / (seconds * peak)


# Words of a GPU's name, and the dense bfloat16 operations per second of its tensor cores, by
# NVIDIA's data sheets of the A100, H100 (SXM, PCIe, NVL), H200 (SXM, NVL) and L40S. The sheets
# of the H100 and H200 print the numbers "with sparsity", which are twice as large. The first row
# that fits counts.
PEAKS = (
    (r"\bA100\b", 312e12),
    (r"\bH100 PCIe\b", 756e12),
    (r"\bH[12]00 NVL\b", 835e12),
    (r"\bH100 .*HBM3\b|\bH100 SXM", 989e12),
    (r"\bH200\b", 989e12),
    (r"\bL40S\b", 362e12),
)
PUBLISHED, MEASURED = "NVIDIA's data sheet", "measured, a matrix product"


def published(name: str) -> float | None:
    """The peak of a GPU with this name, by PEAKS; None for another, and for a part of one (MIG)."""
    if " MIG " in name:
        return None
    return next((flops for words, flops in PEAKS if re.search(words, name)), None)


def peak(device: str, precision: str, rows: int, sharing: int = 1) -> tuple[float, str]:
    """Operations per second that this rank's device can do in this precision, and where that is
    from.

    Published for bf16 on the GPUs of PEAKS, of which ranks that share one get their part. Else
    measured: a product of two square matrices of so many rows. In mixed precision a step computes
    in both precisions, so the faster one counts: on a CPU without instructions for bf16, fp32.
    sharing: ranks that have this GPU.
    """
    if torch.device(device).type == "cuda" and precision == "bf16":
        flops = published(torch.cuda.get_device_name(device))
        if flops is not None:
            return flops / sharing, PUBLISHED
    least = []
    for kind in (torch.float32, torch.bfloat16) if precision == "bf16" else (torch.float32,):
        left, right = (torch.rand(rows, rows, device=device).to(kind) for _ in range(2))
        took = timing.measure(lambda a=left, b=right: a @ b, repeat=10, warmup=2, device=device)
        least.append(float(np.min(took.samples)))
    return 2 * rows**3 / min(least), MEASURED
