"""What a check asks of a step's memory, predicted by part, and which kind of wrong it finds (lab 14)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from labkit import memory, models
from labkit.expectations import expect

OPTIMIZERS = {
    "SGD": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
}
PARTS = {"parameters", "gradients", "optimizer", "activations"}
_KEYS = '"parameters", "gradients", "optimizer", "activations"'
NETS = {"digits": (models.torch_digits, (64,)), "small VGG": (memory.small_vgg, (3, 16, 16))}
NETS["VGG, 400 classes"] = (partial(memory.small_vgg, classes=400), (3, 16, 16))


def compare_parts(predict: Callable, name: str, how: str, count: int, kind: torch.dtype, device) -> tuple:
    """(predicted, measured) bytes by part, of a step of the net `name` on `count` images of type `kind`."""
    make, shape = NETS[name]
    net, images = make().to(device, kind), torch.rand(count, *shape, device=device, dtype=kind)
    labels = torch.arange(count, device=device) % 10
    optimizer = OPTIMIZERS[how](net.parameters(), lr=0.01)
    layers, image = memory.table(net, images), images[0].numel()
    predicted = predict(layers, image, count, how, images.element_size())
    return predicted, memory.parts(net, optimizer, images, labels)


def expect_parts(predict: Callable, device) -> None:
    """Fail unless predict(layers, image, batch, optimizer, value) gives what PyTorch's tensors hold."""
    trials = [(name, how, 8, torch.float32) for name in ("digits", "small VGG") for how in OPTIMIZERS]
    more = [("small VGG", "Adam", 24, torch.bfloat16), ("VGG, 400 classes", "SGD", 8, torch.float32)]
    for name, how, count, kind in [*trials, *more]:
        wrong: list[str] = []

        def watched(layers, image, count, how, value, wrong=wrong):
            got = predict(layers, image, count, how, value)
            expect(isinstance(got, dict) and set(got) == PARTS, f"Return a dict with the keys {_KEYS}.")
            wrong.append(kind_of_wrong(got["activations"], layers, image, count, value))
            return got

        got, real = compare_parts(watched, name, how, count, kind, device)
        for part, nbytes in real.items():
            where = f"{name}, {how}, {count} images, {str(kind)[6:]}: {part}"
            expect(part != "activations" or not wrong[0], f"{where}: {wrong[0]}")
            expect.close(got[part], nbytes, f"{where} (expected: bytes in PyTorch's tensors)", rtol=2e-3)


def kind_of_wrong(got, layers, image: int, count: int, value: int) -> str:
    """A sentence on what is wrong with `got` bytes of activations, "" if they are right or no guess fits."""
    sums = layers.groupby("kind").activations.sum()
    relu, pooled, last = sums.get("relu", 0), sums.get("pool", 0), layers.activations.iloc[-1]
    right = value * (image + relu + pooled + last) + 8 * pooled
    rest = layers.activations.sum() - relu - pooled - last
    both = "pooling keeps its outputs and, 8 bytes each whatever `value` is, the places of its maxima."
    guesses = (  # pooling first: in these nets it has as many outputs as an image has numbers
        (right / count - right, f"these are the bytes of one image; a step keeps {count} of them."),
        *((off * pooled, both) for off in (-8, -value, value - 8, 2 * value - 8)),
        (-value * image, "the images are missing: the first layer needs its input."),
        (value * image * (1 / count - 1), f"the image is counted once; a step has {count} of them."),
        (-value * last, "the last layer's outputs are missing: the loss keeps as many numbers."),
        (-value * relu, "ReLU's outputs are missing."),
        (value * rest, "a linear layer or convolution needs no output of its own for backward."),
        (value * (rest - image), "linear layers and convolutions keep inputs, so the image, not outputs."),
        (value * rest - 8 * pooled, "not every layer's output is kept; and pooling also keeps places."),
    )
    off = got / count - right
    near = [why for guess, why in guesses if guess and abs(off - guess) < 1e-4 * right]
    return near[0] if near and abs(off) > 2e-3 * right else ""
