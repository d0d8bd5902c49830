"""Trial cases of lab 13: masks of cores, ten images, and a net with pictures to time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from labkit import data, nets
from labkit.errors import LabError

# As os.sched_getaffinity gives them: a set, in no order, of a part of the machine, numbered from anywhere.
MASKS = ({0, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6}, {8, 9, 10, 11}, {64, 2, 65, 3, 66, 1, 67, 0}, {5}, {0, 2, 4, 6})
LOCAL_SIZES = (1, 2, 3, 4, 5, 8)


def trial_masks() -> Iterator[tuple[set[int], int]]:
    """(cores, local_size): masks, each a new set, and how many ranks share the cores: no more than these."""
    for mask in MASKS:
        for local_size in LOCAL_SIZES:
            if local_size <= len(mask):
                yield set(mask), local_size


def digits(count: int):
    """So many images of the digits, and their labels, as tensors."""
    import torch

    images, labels = data.digits()[:2]
    return torch.tensor(images[:count]), torch.tensor(labels[:count])


def pictures(width: int, images: int):
    """A net whose convolutions are `width` channels wide, and made-up images and labels for it."""
    import torch

    for name, value in (("width", width), ("batch", images)):
        if not isinstance(value, int) or value < 1:
            raise LabError(f"{name} must be a whole number of at least 1, not {value!r}.")
    rng = np.random.default_rng(13)
    pixels = torch.from_numpy(rng.standard_normal((images, 3, 32, 32), dtype=np.float32))
    return nets.torch_conv(width), pixels, torch.from_numpy(rng.integers(0, 10, images))


def part_of(images: int, ranks: int, rank: int) -> np.ndarray:
    """The numbers of a rank's images; with more ranks than divide them the first ones get one more."""
    return np.array_split(np.arange(images), ranks)[rank]
