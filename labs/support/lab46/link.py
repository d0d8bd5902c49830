"""Lab 47: an allreduce alone, by MPI and by Horovod, on the ranks of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from labkit import launch, placement, timing

from support.lab46.ranks import horovod, started

SHORT = 1 << 10  # bytes
LONG = 1 << 25
RUNS = {SHORT: 20, LONG: 8}


class LinkTimes(NamedTuple):
    """Seconds of an allreduce on all ranks, of float32.

    mpi: of SHORT bytes, by MPI. short, long: of SHORT and LONG bytes, by Horovod, as lent by the place where
    gradients lie. busy: long, while each rank computes besides. rare: short, while Horovod looks for ready
    tensors less often.
    """

    mpi: timing.Measurement
    short: timing.Measurement
    long: timing.Measurement
    busy: timing.Measurement
    rare: timing.Measurement


def time_link(comm, milliseconds: float) -> LinkTimes:
    """On all ranks of comm, with Horovod on PyTorch. milliseconds: between the rare looks.

    The last thing to do with Horovod in a process: once started for rare looks it keeps to them (seen with
    0.28.1).
    """
    values = np.zeros(SHORT // 4, np.float32)
    sums = np.empty_like(values)
    mpi = timing.measure(lambda: comm.Allreduce(values, sums), repeat=RUNS[SHORT], warmup=2, comm=comm)
    with started(comm, "pytorch") as where:
        short = _time_allreduce(comm, where, SHORT)
        long = _time_allreduce(comm, where, LONG)
        with _computing():
            busy = _time_allreduce(comm, where, LONG)
    cycle = {"HOROVOD_CYCLE_TIME": str(milliseconds)}
    with launch.environment(cycle), started(comm, "pytorch") as where:
        rare = _time_allreduce(comm, where, SHORT)
    return LinkTimes(mpi, short, long, busy, rare)


def _time_allreduce(comm, where: placement.Placement, nbytes: int) -> timing.Measurement:
    call = _allreduce(where, nbytes)
    return timing.measure(call, repeat=RUNS[nbytes], warmup=2, comm=comm, device=where.device)


def _allreduce(where: placement.Placement, nbytes: int) -> Callable[[], None]:
    """An allreduce of so many bytes that lie where the gradients lie."""
    import torch

    hvd = horovod("pytorch")
    vector = torch.zeros(nbytes // 4, device=where.device)

    def call() -> None:
        with where.lend(vector) as memory:
            hvd.allreduce_(memory, name=f"link of {nbytes} bytes")

    return call


@contextmanager
def _computing() -> Iterator[None]:
    """Products of matrices on a thread of this rank, until the end of the block."""
    import torch

    over = threading.Event()
    matrix = torch.rand(256, 256)

    def compute() -> None:
        while not over.is_set():
            matrix @ matrix

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
