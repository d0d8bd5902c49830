"""What lab 12 measures: layers with their flops and bytes, and a training step with its data."""

from __future__ import annotations

import torch
from labkit import nets, world
from labkit.errors import LabError


def begin(threads: int, pictures: int, batch: int, **positive) -> None:
    """Set PyTorch's threads (0: one a core); a sentence, if these parameters leave nothing to measure."""
    for name, value in {**positive, "pictures": pictures, "batch": batch}.items():
        if not value > 0:
            raise LabError(f"{name} = {value} leaves nothing to measure: it must be more than 0.")
    if threads < 0:
        raise LabError(f"threads = {threads}: give how many, or 0 for as many as there are cores.")
    if batch > pictures:
        raise LabError(
            f"A batch of {batch} images cannot be drawn from {pictures}: batch is at most pictures."
        )
    torch.set_num_threads(threads or world.cores())


def layers(linear_cost, conv_cost, side: int, device: str) -> dict:
    """name -> (layer, its images, flops, bytes). side: inputs and outputs of the linear layer.

    conv: of ResNet's first stage. ReLU works in place and counts as a flop a number.
    """
    rows = {}
    for batch in (1, 8, 32, 128):
        linear = torch.nn.Linear(side, side, bias=False)
        rows[f"linear, {batch}"] = linear, (batch, side), linear_cost(batch, side, side, 4)
    for kernel, filters in ((3, 64), (1, 256)):
        padding = kernel // 2
        conv = torch.nn.Conv2d(64, filters, kernel, padding=padding, bias=False)
        cost = conv_cost(8, 64, 56, 56, filters, kernel, 1, padding, 4)
        rows[f"conv {kernel} x {kernel}, 8"] = conv, (8, 64, 56, 56), cost
    numbers = 16 * 64 * 112 * 112
    rows["ReLU, 16"] = torch.nn.ReLU(inplace=True), (16, 64, 112, 112), (numbers, 2 * 4 * numbers)
    return {
        name: (layer.to(device), torch.randn(shape, device=device), *cost)
        for name, (layer, shape, cost) in rows.items()
    }


def run(layers: dict) -> None:
    """Each layer once, on its images."""
    with torch.inference_mode():
        for layer, images, *_ in layers.values():
            layer(images)


def setting(pictures: int, batch: int, device: str):
    """net, optimizer, pixels (uint8, noise in CIFAR-10's shape), labels, and the rows of one batch."""
    pixels = torch.randint(256, (pictures, 3, 32, 32), dtype=torch.uint8, device=device)
    labels = torch.randint(10, (pictures,), device=device)
    net = nets.torch_conv().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    return net, optimizer, pixels, labels, torch.randperm(pictures, device=device)[:batch]
