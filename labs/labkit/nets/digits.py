"""The small nets that the labs train.

The digits' net of labs 10 to 41, equal in every framework: 64 pixels -> 128 -> 64 -> 10 classes,
ReLU between, logits out: 17,226 parameters. With start weights of other sizes it takes larger
images. A convolutional net that computes much and sends little. And a deep one in blocks, to be
cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SIZES = (64, 128, 64, 10)  # units per layer, input first


def start_weights(seed: int = 0, sizes: Sequence[int] = SIZES) -> list[np.ndarray]:
    """[W1 (64, 128), b1 (128,), W2 (128, 64), b2 (64,), W3 (64, 10), b3 (10,)], float32; or of
    other sizes.

    He initialisation: normal with variance 2 / inputs, biases 0 (He et al. 2015, "Delving Deep into
    Rectifiers", equation 10). The same numbers for one seed. A layer computes x @ W + b.
    """
    rng = np.random.default_rng(seed)
    weights = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        weights.append(
            (rng.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)).astype(np.float32)
        )
        weights.append(np.zeros(outputs, np.float32))
    return weights


def _layer_sizes(weights: Sequence[np.ndarray]) -> list[int]:
    """Units per layer, input first, of weights as start_weights draws them."""
    return [len(weights[0]), *(len(bias) for bias in weights[1::2])]


def torch_digits(weights: list[np.ndarray] | None = None):
    """The net in PyTorch: (n, 64) float32 -> logits (n, 10), holding `weights` (default:
    start_weights()).

    Its layers have the sizes of `weights`. torch.nn.Linear stores a matrix as (outputs, inputs), so
    each W is transposed on its way in.
    """
    import torch

    weights = start_weights() if weights is None else weights
    sizes = _layer_sizes(weights)
    net = torch.nn.Sequential(
        torch.nn.Linear(sizes[0], sizes[1]),
        torch.nn.ReLU(),
        torch.nn.Linear(sizes[1], sizes[2]),
        torch.nn.ReLU(),
        torch.nn.Linear(sizes[2], sizes[3]),
    )
    with torch.no_grad():
        for parameter, weight in zip(net.parameters(), weights, strict=True):
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(np.asarray(weight).T)))
    return net


def keras_digits(weights: list[np.ndarray] | None = None):
    """The net in Keras 3: (n, 64) float32 -> logits (n, 10), holding `weights` (default:
    start_weights()).

    Its layers have the sizes of `weights`.
    """
    from labkit import noise

    noise.silence()
    import keras

    weights = start_weights() if weights is None else weights
    sizes = _layer_sizes(weights)
    net = keras.Sequential(
        [
            keras.Input((sizes[0],)),
            keras.layers.Dense(sizes[1], activation="relu"),
            keras.layers.Dense(sizes[2], activation="relu"),
            keras.layers.Dense(sizes[3]),
        ]
    )
    net.set_weights([np.asarray(weight) for weight in weights])
    return net


def torch_conv(width: int = 32, classes: int = 10, seed: int = 0):
    """A net that computes much and sends little: (n, 3, 32, 32) float32 -> logits (n, classes).

    Four 3 x 3 convolutions and one linear layer. With width 32 and 10 classes: 66,218 parameters,
    so 265 kB of gradient, against 49 million flops forward per image. The weights depend on `seed`
    alone; PyTorch's global generator is left as it was.
    """
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, classes),
        )


def torch_blocks(widths: Sequence[int], seed: int = 0) -> list:
    """A deep net as a list of blocks, torch.nn.Sequential of Linear and ReLU; the last has no ReLU
    (62, 63).

    widths: inputs of the first block, of the second, …, outputs of the last. The same seed gives
    the same weights (He's start: normal, variance 2 / inputs; biases 0) on every rank.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    blocks = []
    for place, (inputs, outputs) in enumerate(zip(widths, widths[1:], strict=False)):
        layer = torch.nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.copy_(
                torch.randn(outputs, inputs, generator=generator) * (2 / inputs) ** 0.5
            )
            layer.bias.zero_()
        last = place == len(widths) - 2
        blocks.append(
            torch.nn.Sequential(layer) if last else torch.nn.Sequential(layer, torch.nn.ReLU())
        )
    return blocks
