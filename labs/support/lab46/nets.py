"""The two nets of lab 46, equal in PyTorch and Keras: a small one for CPUs, and ResNet-50 for GPUs."""

from __future__ import annotations

from labkit import world
from labkit.errors import LabError

NAMES = ("small", "resnet50")
PIXELS = {"small": 32, "resnet50": 224}
CLASSES = {"small": 10, "resnet50": 1000}
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # ResNet-50: width, blocks, first stride


def chosen(net: str) -> str:
    """The net that is meant: "auto" is ResNet-50 where there is a GPU, and the small one elsewhere."""
    if net == "auto":
        return "small" if world.device() == "cpu" else "resnet50"
    if net not in NAMES:
        raise LabError(f"There is no net {net!r}; there are auto, {', '.join(NAMES)}.")
    return net


def in_torch(net: str, seed: int = 0):
    """The net in PyTorch: (n, 3, pixels, pixels) float32 -> logits (n, classes).

    The weights depend on seed.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return {"small": _torch_small, "resnet50": _torch_resnet50}[net]()


def in_keras(net: str, seed: int = 0):
    """The net in Keras: (n, pixels, pixels, 3) float32 -> logits (n, classes)."""
    import keras

    keras.utils.set_random_seed(seed)
    shape = (PIXELS[net], PIXELS[net], 3)
    if net == "resnet50":
        return keras.applications.ResNet50(
            weights=None, input_shape=shape, classes=CLASSES[net], classifier_activation=None
        )
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(256, activation="relu"),
            layers.Dense(CLASSES[net]),
        ]
    )


def _torch_small():
    """Two convolutions and two linear layers: 1,070,794 parameters, 4.3 MB of gradient, most in one layer.

    Like VGG-16 it sends much for what it computes.
    """
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 256),
        nn.ReLU(),
        nn.Linear(256, CLASSES["small"]),
    )


def _torch_resnet50():
    """ResNet-50 with the stride on the 3 x 3 convolution ("v1.5"): 25,557,032 parameters.

    He et al. 2015, "Deep Residual Learning for Image Recognition", table 1.
    """
    from torch import nn

    stem = [_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    blocks = []
    channels = 64
    for width, count, first_stride in STAGES:
        for place in range(count):
            blocks.append(_bottleneck(channels, width, first_stride if place == 0 else 1))
            channels = 4 * width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES["resnet50"])]
    return nn.Sequential(*stem, *blocks, *head)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1):
    """A convolution without bias, and batch normalisation behind it."""
    from torch import nn

    padding = kernel // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs)
    )


def _bottleneck(channels: int, width: int, stride: int):
    """1 x 1 to fewer channels, 3 x 3, 1 x 1 to four times as many, added to the input."""
    import torch
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self):
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

    return Bottleneck()
