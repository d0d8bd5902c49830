"""Lab 02: its checks, published costs and speeds of training as their sources give them, and its
plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas
import torch
from labkit import check, expect, plots

SMALL = pandas.DataFrame(
    {
        "kind": ["conv", "relu", "conv", "linear"],
        "parameters": [10, 0, 10, 25],
        "flops": [300.0, 0.0, 300.0, 50.0],
        "activations": [7, 7, 9, 4],
    }
)
CHANGED = "The number is right, but `table` was changed; it belongs to the caller."
ALONE = "Memory holds parameters, gradients and Adam's two averages; 0 images have no activations"
# These names stand left of their points, as others stand right.
_LEFT = {"VGG-16", "Neural translation"}
_LOWER = {"Seq2Seq"}


@check.exercise("02.1")
def operations_of_trainings(training_flops, vgg16):
    """The operations of two training runs."""
    # The second result does not fit into 64-bit integers.
    for table, pictures, epochs in ((SMALL, 50, 6), (vgg16, 1_281_167, 90)):
        forward = table.flops.sum()
        given = table.copy()
        expect.close(
            training_flops(given, pictures, epochs),
            3 * forward * pictures * epochs,
            f"operations of a training run: {forward:.3g} forward, images: {pictures:,}, epochs:"
            f" {epochs}",
            slips={
                "this is only the forward pass; the backward pass takes twice as many": (
                    forward * pictures * epochs
                ),
                "this is only the backward pass; the forward pass comes on top": (
                    2 * forward * pictures * epochs
                ),
                "this is one epoch": 3 * forward * pictures,
                "64-bit integers cannot hold this number; keep the floating point of the column": (
                    (int(3 * forward) * pictures * epochs + 2**63) % 2**64 - 2**63
                ),
            },
        )
        expect(given.equals(table), CHANGED)


@check.exercise("02.2")
def bytes_of_a_step(training_bytes, vgg16):
    """The bytes for two tables, and batches of 0 to 256 images."""
    for table, batch in ((SMALL, 0), (SMALL, 10), (vgg16, 256)):
        parameters = table.parameters.sum()
        activations = table.activations.sum()
        given = table.copy()
        expect.close(
            training_bytes(given, batch),
            16 * parameters + 4 * batch * activations,
            f"bytes for {parameters:,} parameters, {activations:,} activations per image, images:"
            f" {batch}",
            slips={
                "these are numbers; each has 4 bytes": 4 * parameters + batch * activations,
                "the parameters exist once, however many images there are": (
                    4 * batch * (4 * parameters + activations)
                ),
                "each image of the batch has its own activations": (
                    16 * parameters + 4 * activations
                ),
            },
            because="" if batch else ALONE,
        )
        expect(given.equals(table), CHANGED)


@check.exercise("02.3")
def bound_of_the_exchange(best_speedup):
    """The bound where computation takes longer, and where communication does."""
    for devices, compute, gradient, link in (
        (1, 0.3, 4e8, 2e9),
        (100, 0.4, 2e8, 1.5e9),
        (4, 0.5, 8e8, 5e8),
    ):
        exchange = 2 * (devices - 1) / devices * gradient / link
        exact = "of 2 gradients each NIC sends only the part (p − 1) / p"
        where = (
            f"devices: {devices}, {compute} s of computation, {gradient / 1e6:.0f} MB,"
            f" {link / 1e9:g} GB/s"
        )
        with check.case(where):
            expect.close(
                best_speedup(devices, compute, gradient, link),
                devices * compute / max(compute, exchange),
                "the most that is possible",
                slips={
                    exact if devices > 1 else "a single device sends nothing": (
                        devices * compute / max(compute, 2 * gradient / link)
                    ),
                    "most of the gradients are sent once and most of the sum once, hence the "
                    "factor 2": devices * compute / max(compute, exchange / 2),
                    # A batch divided among the devices, or bytes that are not divided by them.
                    "every device computes a whole batch, for `compute` seconds, and sends "
                    "2 (p − 1) / p times the gradients": compute / max(compute / devices, exchange),
                    "this leaves out the communication": devices,
                    "this counts batches per second; divide by those of one device": (
                        devices / max(compute, exchange)
                    ),
                    "at best communication and computation overlap, so the longer one counts, "
                    "not the sum": devices * compute / (compute + exchange),
                    "this is the step's time, not the speed-up": max(compute, exchange),
                    "a step also takes at least `compute` seconds": (
                        devices * compute / (exchange or 1)
                    ),
                    "this is the efficiency; multiplied by the number of devices it is "
                    "the speed-up": compute / max(compute, exchange),
                },
            )


PETAFLOP_DAY = 1e15 * 86_400  # operations: 10^15 a second, for a day


class Cost(NamedTuple):
    """What training one net cost. days: petaflop/s-days. counted: by operations, not by GPUs and
    hours."""

    net: str
    year: float
    days: float
    counted: bool
    source: str


_OPENAI = "Amodei and Hernandez, AI and Compute, OpenAI 2018, appendix"
_BROWN = "Brown and others, Language Models are Few-Shot Learners, 2020, table D.1"

# The years are those of the papers' first versions on arXiv, or of the conference (AlexNet).
# GPT-3's table gives 3.64e3 petaflop/s-days.
COSTS = (
    Cost("AlexNet", 2012.9, 0.0054, True, _OPENAI),
    Cost("DQN", 2013.9, 2.7e-5, True, _OPENAI),
    Cost("VGG-16", 2014.7, 0.098, True, _OPENAI),
    Cost("Seq2Seq", 2014.7, 0.085, True, _OPENAI),
    Cost("ResNet-152", 2015.9, 0.117, True, _OPENAI),
    Cost("Deep Speech 2", 2015.9, 0.30, True, _OPENAI),
    Cost("Neural translation", 2016.7, 79.0, False, _OPENAI),
    Cost("Xception", 2016.8, 5.0, False, _OPENAI),
    Cost("Architecture search", 2016.8, 22.0, True, _OPENAI),
    Cost("GPT-3", 2020.4, 3640.0, True, _BROWN),
)

# Images per second in training, synthetic images, one P100 of a DGX-1; 512 images a step for
# AlexNet, 64 for the others. TensorFlow's page "Benchmarks", May 2017.
P100 = {"alexnet": 2987.0, "inception_v3": 142.0, "resnet50": 219.0, "vgg16": 154.0}

# (images per second of 64 GPUs, of one): 16 servers of 4 Pascal GPUs, 40 Gb/s, 64 images a GPU,
# Horovod with NCCL over TCP. Horovod's README, commit d54e3a88 (2017).
SCALED = {"inception_v3": (7932.1, 148.8), "resnet101": (7741.6, 136.0), "vgg16": (6084.2, 149.6)}


def kept(net: torch.nn.Module, inputs: torch.Tensor) -> int:
    """Bytes of the tensors, without parameters, that PyTorch keeps for the backward pass of
    net(inputs)."""
    parameters = {weights.data_ptr() for weights in net.parameters()}
    sizes: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        sizes[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        net(inputs)
    return sum(size for address, size in sizes.items() if address not in parameters)


@plots.styled
def draw_costs(costs: Sequence[Cost], own: Mapping[str, float]):
    """Petaflop/s-days against the year, both published and one's own. Returns the figure.

    own: net's name -> petaflop/s-days that the learner counted; drawn as a ring around the
    published point.
    """
    figure, axes = plots.one_axes(
        "The cost of the largest training runs grew", "year", "petaflop/s-days", height=4.8
    )
    for counted, marker, label in (
        (True, "o", "operations counted"),
        (False, "s", "from GPUs and hours"),
    ):
        group = [cost for cost in costs if cost.counted == counted]
        axes.plot(
            [cost.year for cost in group],
            [cost.days for cost in group],
            linestyle="none",
            marker=marker,
            color=plots.COLORS[0 if counted else 1],
            label=f"published, {label}",
        )
    rings = [(cost.year, own[cost.net]) for cost in costs if cost.net in own]
    if rings:
        years, days = zip(*rings, strict=True)
        axes.plot(
            years,
            days,
            linestyle="none",
            marker="o",
            markersize=13,
            markerfacecolor="none",
            color=plots.INK,
            label="counted by you",
        )
    axes.set_yscale("log")
    plots.plain_log(axes.yaxis)
    for cost in costs:
        left = cost.net in _LEFT
        axes.annotate(
            cost.net,
            (cost.year, cost.days),
            xytext=(-12 if left else 10, -12 if cost.net in _LOWER else 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=9,
        )
    axes.set_xlim(2011.5, 2022)
    axes.legend(loc="upper left")
    return plots.done(figure, "training_costs")
