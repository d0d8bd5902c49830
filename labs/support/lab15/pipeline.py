"""From a JPEG to a training step: decoding, batches, a small net; and PyTorch's DataLoader of the files."""

from __future__ import annotations

import io
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from labkit import profiling
from labkit.errors import LabError

from support.lab15.files import Stored
from support.lab15.storage import Storage

WARM_UP = 3  # steps that are not counted


def decode(jpeg: bytes) -> np.ndarray:
    """The pixels of a JPEG: uint8, (height, width, 3)."""
    from PIL import Image

    return np.array(Image.open(io.BytesIO(jpeg)))


def batches(samples: Iterable[tuple[bytes, int]], batch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Decoded batches of (JPEG, label) pairs: float32 (batch, 3, side, side), int64. Spans "input"."""
    samples = iter(samples)
    count = 0
    while True:
        with profiling.span("input", "read and decode"):
            taken = [(decode(jpeg), label) for jpeg, label in itertools.islice(samples, batch)]
            if batch < 1 or (count == 0 and len(taken) < batch):
                sentence = f"A batch has 1 image or more, and no more than are stored: not {batch}"
                raise LabError(f"{sentence}, where {len(taken)} came.")
            if len(taken) < batch:
                return
            count += 1
            images = np.stack([image for image, _ in taken]).transpose(0, 3, 1, 2)
            ready = images / np.float32(255), np.array([label for _, label in taken])
        yield ready


def trainer(device: str, width: int) -> Callable:
    """A small convolutional net: returns step(images, labels), a training step as a span "compute"."""
    import torch

    if width < 1:
        raise LabError(f"width is 1 channel or more, not {width}.")
    torch.manual_seed(0)
    nn = torch.nn
    convolutions = [nn.Conv2d(3, width, 5, 4), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU()]
    classifier = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, 10)]
    net = nn.Sequential(*convolutions, *classifier).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(images, labels) -> float:
        with profiling.span("compute", "train"):
            sgd.zero_grad()
            images = torch.from_numpy(images).to(device)
            labels = torch.from_numpy(labels).to(device)
            loss = torch.nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            sgd.step()
            return loss.item()  # waits for a GPU

    return step


def time_steps(source: Iterator, train: Callable, steps: int) -> tuple[float, float]:
    """Seconds that a step waits for its batch, and that it computes: medians of `steps`, after a warm-up."""
    waits = []
    computes = []
    for _ in range(WARM_UP + steps):
        begin = time.perf_counter()
        ready = next(source)
        middle = time.perf_counter()
        train(*ready)
        waits.append(middle - begin)
        computes.append(time.perf_counter() - middle)
    source.close()
    return float(np.median(waits[WARM_UP:])), float(np.median(computes[WARM_UP:]))


def time_reading(source: Iterator, batches: int) -> float:
    """Seconds to read and decode a batch while nothing computes: the median of so many, after a warm-up."""
    times = []
    for _ in range(WARM_UP + batches):
        begin = time.perf_counter()
        next(source)
        times.append(time.perf_counter() - begin)
    source.close()
    return float(np.median(times[WARM_UP:]))


def check_shares(shares) -> None:
    """A sentence for shares of input over compute that measure nothing."""
    if np.ndim(shares) != 1 or 2 not in shares or min(shares) <= 0 or min(shares) >= 1:
        raise LabError(
            f"shares are more than 0; 2 and one below 1 are among them: the lab looks at those. Not {shares}."
        )


def storage_for(share: float, compute: float, decoding: float, nbytes: float) -> Callable[[], Storage]:
    """A maker of storages from which a batch of `nbytes` bytes comes, decoded, in `share` times `compute`.

    decoding: seconds of a batch, which are a part of its input. Where they are all of it (a fast GPU), the
    bytes take some more.
    """
    carry = max(share * compute - decoding, 0.2 * share * decoding)
    return partial(Storage, nbytes / carry)


class Decoded:
    """The single files as a data set for PyTorch's DataLoader, whose workers import it from here."""

    def __init__(self, files: list[Path]):
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> np.ndarray:
        return decode(self.files[number].read_bytes())


def loader(stored: Stored, batch: int, workers: int) -> tuple[float, float]:
    """(seconds to the first batch, images/s from there on) of DataLoader with so many worker processes.

    Workers come from a fork server, a fresh process that has no MPI in it; 0: no workers.
    """
    from torch.utils.data import DataLoader

    context = "forkserver" if workers else None
    feed = DataLoader(Decoded(stored.files), batch, num_workers=workers, multiprocessing_context=context)
    with _no_main():
        begin = time.perf_counter()
        feed = iter(feed)
        first = len(next(feed))
        ready = time.perf_counter()
        rest = sum(len(images) for images in feed)
        end = time.perf_counter()
    return ready - begin, rest / (end - ready) if rest else first / (end - begin)


@contextmanager
def _no_main():
    """Worker processes import the main module of a script again: the whole lab would run in each."""
    main = sys.modules["__main__"]
    taken = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(taken)
