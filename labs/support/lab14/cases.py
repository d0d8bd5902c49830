"""Trial cases of lab 14: nets and optimizers, and gradients of float16."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from labkit import nets


def small_vgg(width: int = 8, side: int = 16, classes: int = 10, seed: int = 0) -> torch.nn.Sequential:
    """(n, 3, side, side) -> logits: 3 x 3 convolutions, ReLU, max-pooling in VGG's order, two linear layers.

    The weights depend on `seed` alone; PyTorch's global generator is left as it was.
    """
    nn = torch.nn
    layers: list[torch.nn.Module] = []
    inputs = 3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for outputs in (width, 2 * width):
            for _ in range(2):
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        units = inputs * (side // 4) ** 2
        layers += [nn.Flatten(), nn.Linear(units, 8 * width), nn.ReLU(), nn.Linear(8 * width, classes)]
        return nn.Sequential(*layers)


def deep(pairs: int, width: int = 64, classes: int = 10, seed: int = 0) -> torch.nn.Sequential:
    """(n, width) -> logits: so many pairs of linear layer and ReLU; the last ReLU is a classifier."""
    nn = torch.nn
    layers: list[torch.nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(pairs):
            layers += [nn.Linear(width, width), nn.ReLU()]
        for layer in layers[::2]:  # as large in each layer, forward and backward (He et al. 2015)
            nn.init.normal_(layer.weight, std=(2 / width) ** 0.5)
        return nn.Sequential(*layers[:-1], nn.Linear(width, classes))


OPTIMIZERS: dict[str, Callable] = {
    "SGD": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
}
# name -> (the net, shape of an image)
NETS: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "digits": (nets.torch_digits, (64,)),
    "small VGG": (small_vgg, (3, 16, 16)),
    "VGG, 400 classes": (partial(small_vgg, classes=400), (3, 16, 16)),
}
# net, optimizer, images, type of the numbers
STEPS = (
    ("digits", "SGD", 8, torch.float32),
    ("digits", "momentum", 8, torch.float32),
    ("digits", "Adam", 8, torch.float32),
    ("small VGG", "SGD", 8, torch.float32),
    ("small VGG", "momentum", 8, torch.float32),
    ("small VGG", "Adam", 8, torch.float32),
    ("small VGG", "Adam", 24, torch.bfloat16),
    ("VGG, 400 classes", "SGD", 8, torch.float32),
)


def gradients_with(number: float, first: bool = False) -> list[torch.Tensor]:
    """Two tensors of float16 gradients; `number` is in the second of them, or in the first."""
    usual = torch.tensor([1, -2, 2.0**-10]).half()
    special = torch.tensor([0.5, number]).half()
    return [special, usual] if first else [usual, special]


def wrong_updates(gradient: torch.Tensor, rate: float, scale: float) -> dict[str, torch.Tensor]:
    """Mistake -> the weights that it leaves, 0 before. gradient: float16, times the scale."""
    exact = gradient.float()
    return {
        "no weight changed. Change it in place, and divide in float32": 0 * exact,
        "the gradients are still times the scale. Divide it away": -rate * exact,
        "this is uphill. Subtract the gradient": rate * exact / scale,
        "a small gradient became 0 on its way. Divide in float32, not in float16": (
            -rate * (gradient / scale).float()
        ),
    }
