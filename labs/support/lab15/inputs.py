"""What lab 15 reads, with what, and what it feeds: images in four formats, storage as fast as you choose.

The reader of a `Storage` sleeps until storage of that bandwidth and latency would have delivered; `drop` and
`resident` are about the files' pages in memory.
"""

from __future__ import annotations

import io
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from labkit import profiling, record, timing
from labkit.errors import LabError

from support.lab15.checks import expect_as_torch, expect_buffer, expect_prefetch, expect_reader, expect_split
from support.lab15.files import Stored, from_files, from_hdf5, from_lmdb, from_shards, from_webdataset, write
from support.lab15.show import classes_in_batch, compare_formats, compare_opens, knob, lanes, show_ranks
from support.lab15.storage import Storage, cold_and_cached, drop, new_pipe, resident

__all__ = [
    "Storage",
    "Stored",
    "batches",
    "classes_in_batch",
    "cold_and_cached",
    "compare_formats",
    "compare_loaders",
    "compare_opens",
    "decode",
    "drop",
    "expect_as_torch",
    "expect_buffer",
    "expect_prefetch",
    "expect_reader",
    "expect_split",
    "from_files",
    "from_hdf5",
    "from_lmdb",
    "from_shards",
    "from_webdataset",
    "knob",
    "lanes",
    "resident",
    "show_ranks",
    "through_one_pipe",
    "trainer",
    "write",
]
# ------------------------------------------------------------------------------------------------- the step


def decode(jpeg: bytes) -> np.ndarray:
    """The pixels of a JPEG: uint8, (height, width, 3)."""
    from PIL import Image

    return np.array(Image.open(io.BytesIO(jpeg)))


def batches(samples: Iterable[tuple[bytes, int]], batch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Decoded batches of (JPEG, label) pairs: float32 (batch, 3, side, side), int64. Spans "input"."""
    samples, some = iter(samples), False
    while True:
        with profiling.span("input", "read and decode"):
            taken = [(decode(jpeg), label) for jpeg, label in itertools.islice(samples, batch)]
            if batch < 1 or not some and len(taken) < batch:
                words = f"A batch has 1 image or more, and no more than are stored: not {batch}"
                raise LabError(f"{words}, where {len(taken)} came.")
            if len(taken) < batch:
                return
            some = True
            images = np.stack([image for image, _ in taken]).transpose(0, 3, 1, 2)
            ready = images / np.float32(255), np.array([label for _, label in taken])
        yield ready


def trainer(device: str, width: int) -> Callable:
    """A small convolutional net: returns step(images, labels), a training step as a span "compute"."""
    import torch

    if width < 1:
        raise LabError(f"width is 1 channel or more, not {width}.")
    torch.manual_seed(0)
    layers = [
        torch.nn.Conv2d(3, width, 5, 4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(width, width, 3),
        torch.nn.ReLU(),
    ]
    layers += [torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(16 * width, 10)]
    net = torch.nn.Sequential(*layers).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(images, labels) -> float:
        with profiling.span("compute", "train"):
            sgd.zero_grad()
            images, labels = torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device)
            loss = torch.nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            sgd.step()
            return loss.item()  # waits for a GPU

    return step


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


def compare_loaders(stored: Stored, batch: int, workers: int) -> None:
    """Print and record `loader` without workers, and with them."""
    if workers < 0:
        raise LabError(f"loader_workers is 0 or more, not {workers}.")
    for count in sorted({0, workers}):
        first, rate = loader(stored, batch, count)
        record.add("loader", workers=count, first_batch=first, rate=rate, unit="images/s")
        print(f"DataLoader, {count} workers: first batch after {first:.2f} s, then {rate:,.0f} images/s")


@contextmanager
def _no_main():
    """Worker processes import the main module of a script again: the whole lab would run in each."""
    main = sys.modules["__main__"]
    kept = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(kept)


# ----------------------------------------------------------------------------------------------------- ranks


def through_one_pipe(comm, read_shard, prefetch, stored: Stored, storages: dict, rounds: int):
    """On 1, 2, 4, … ranks: all read a shard at once. Returns {storage: {ranks: seconds}}.

    storages: name -> (bytes/s of a rank, bytes/s that all share, seconds an open).
    """
    from mpi4py import MPI

    found: dict[str, dict[int, object]] = {name: {} for name in storages}
    sizes = sorted({min(2**power, comm.size) for power in range(comm.size.bit_length() + 1)})
    for size in sizes:
        group = comm.Split(int(comm.rank >= size))
        if comm.rank >= size:
            continue
        node = group.Split_type(MPI.COMM_TYPE_SHARED)
        for name, (own, shared, latency) in storages.items():
            pipe = node.bcast(new_pipe() if node.rank == 0 else None)
            # On several nodes, each has a pipe of its own: its part of the bandwidth.
            storage = Storage(own, latency, shared * node.size / size, pipe)
            path = stored.shards[group.rank % len(stored.shards)]

            def read(storage=storage, path=path) -> None:
                with storage.open(path) as stream:
                    for jpeg, _ in prefetch(read_shard(stream), 8):
                        decode(jpeg)

            try:
                found[name][size] = timing.measure(read, repeat=rounds, warmup=1, comm=group)
            finally:
                if node.rank == 0:
                    pipe.unlink()
    return found
