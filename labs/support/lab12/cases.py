"""Trial cases of lab 12: layers of odd shapes, and small images on which a training step is tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from support.lab12.counting import flops

LINEAR = ((1, 5, 7), (3, 7, 5), (128, 4096, 4096))  # batch, inputs, outputs
# batch, channels, height, width, filters, kernel, stride, padding
CONV = ((2, 3, 9, 12, 5, 3, 1, 1), (3, 4, 11, 8, 6, 3, 2, 0), (1, 3, 224, 224, 64, 11, 4, 2))


@dataclass(frozen=True)
class TrialLayer:
    """A layer, the arguments of its cost, and what PyTorch says of it: flops, bytes of its tensors."""

    kind: str  # "linear" or "conv"
    layer: torch.nn.Module
    arguments: tuple[int, ...]  # of linear_cost or conv_cost, without `size`
    size: int  # bytes of a number
    flops: int
    bytes_of: dict[str, int]  # "images", "weights", "result"
    shapes: tuple[tuple[int, ...], tuple[int, ...]]  # of images and result

    def __str__(self) -> str:
        images, result = self.shapes
        return f"{self.layer} for images {images} (out: {result})"

    @property
    def nbytes(self) -> int:
        """The least bytes that its forward pass moves."""
        return sum(self.bytes_of.values())

    def wrong_bytes(self) -> dict[str, float]:
        """Mistake -> the bytes that it leads to."""
        missing = {
            f"missing among the bytes: the {part}, {nbytes:,} bytes": self.nbytes - nbytes
            for part, nbytes in self.bytes_of.items()
        }
        other_size = {
            f"where a number has {self.size} bytes, you count {size} for it": self.nbytes * size / self.size
            for size in (1, 2, 4)
        }
        return missing | other_size


def trial_layers() -> Iterator[TrialLayer]:
    """Linear layers and convolutions of odd shapes, with strides and padding, in float32 and float16.

    They lie on PyTorch's device "meta": tensors have shapes, and nothing is computed.
    """
    for batch, inputs, outputs in LINEAR:
        layer = torch.nn.Linear(inputs, outputs, bias=False, device="meta")
        yield from _in_two_types("linear", layer, (batch, inputs), (batch, inputs, outputs))
    for *images, filters, kernel, stride, padding in CONV:
        layer = torch.nn.Conv2d(
            images[1], filters, kernel, stride=stride, padding=padding, bias=False, device="meta"
        )
        arguments = (*images, filters, kernel, stride, padding)
        yield from _in_two_types("conv", layer, tuple(images), arguments)


def _in_two_types(kind, layer, shape, arguments) -> Iterator[TrialLayer]:
    for size, dtype in ((4, torch.float32), (2, torch.float16)):
        layer = layer.to(dtype)
        images = torch.empty(shape, device="meta", dtype=dtype)
        result = layer(images)
        work = flops(lambda layer=layer, images=images: layer(images))
        bytes_of = {"images": images.nbytes, "weights": layer.weight.nbytes, "result": result.nbytes}
        yield TrialLayer(kind, layer, arguments, size, work, bytes_of, (shape, tuple(result.shape)))


def small_images(images: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """(pixels, labels) of so many images of 8 x 8 pixels; their colours differ, as in pictures."""
    pixels = torch.randint(256, (images, 3, 8, 8), dtype=torch.uint8, generator=random)
    pixels //= torch.tensor([1, 2, 4], dtype=torch.uint8).view(3, 1, 1)
    return pixels, torch.randint(10, (images,), generator=random)


def small_net() -> torch.nn.Sequential:
    """A net for them, always with the same weights."""
    nn = torch.nn
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
