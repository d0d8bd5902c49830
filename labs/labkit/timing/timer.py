"""Timing as all labs do it: warm-up, device synchronise, barrier, slowest rank, median, quartiles,
verdict.

Lab 01 builds the idea by hand. A number from here is never one run and never a bare mean: it is the
median of several runs with the range of their middle half, and a sentence when that range is too
wide to quote.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import repeat as forever
from time import perf_counter_ns

import numpy as np

from labkit import world
from labkit.errors import LabError
from labkit.timing.measurement import FEWEST, Measurement, Ratio

EVENT_RESOLUTION = 0.5e-6  # seconds, as CUDA's documentation of cudaEventElapsedTime gives it


def measure(
    call: Callable[[], object],
    *,
    repeat: int = 20,
    warmup: int = 3,
    comm=None,
    device: str | None = None,
    seconds: float | None = None,
    batch: int = 1,
) -> Measurement:
    """Time `call()`: `warmup` runs that do not count, then `repeat` runs that do.

    comm: an mpi4py communicator, or a TorchGroup; all its ranks call measure with the same numbers.
    Each run begins with a
      barrier, a sample is the time of the slowest rank, and every rank gets the same Measurement.
    device: "cuda…" times with CUDA events (with comm: clock and synchronise), as calls return
    before the work
      is done. TensorFlow on a GPU: let the call end in `.numpy()`.
    seconds: stop after about that long, though not before 5 runs. batch: calls per sample, for
    calls so short that the clock's step shows. Samples stay seconds per call.
    """
    return _measure([call], repeat, warmup, comm, device, seconds, batch)[0]


def ratio(a: Callable[[], object], b: Callable[[], object], **options) -> Ratio:
    """Time `a()` beside `b()` in the order a b b a a b b a …, so that noise and drift hit both.

    Options (repeat, warmup, comm, device, seconds, batch) and what they are if not given: as in
    `measure`.
    """
    return Ratio(*_measure([a, b], **measure.__kwdefaults__ | options))


def in_turns(calls: Mapping[str, Callable[[], object]], **options) -> dict[str, Measurement]:
    """Time several calls in the order a b c c b a a b c …, so that noise and drift hit all (lab
    24).

    calls: name -> call. Returns name -> Measurement. Options (repeat, warmup, comm, device,
    seconds, batch) and what they are if not given: as in `measure`.
    """
    measurements = _measure(list(calls.values()), **measure.__kwdefaults__ | options)
    return dict(zip(calls, measurements, strict=True))


class TorchGroup:
    """As `comm`: the ranks of launch.in_group, which have torch.distributed in place of MPI."""

    def Barrier(self) -> None:
        from torch import distributed

        distributed.barrier()

    def largest(self, own: np.ndarray) -> np.ndarray:
        """Element by element the largest value over the ranks."""
        import torch
        from torch import distributed

        values = torch.tensor(own, device=world.device())
        distributed.all_reduce(values, distributed.ReduceOp.MAX)
        return values.cpu().numpy()


def device_sync(device: str | None) -> None:
    """Wait until `device` has done all its work. Nothing to wait for on "cpu" or None."""
    if _is_cuda(device):
        import torch

        torch.cuda.synchronize(device)


@lru_cache(maxsize=1)
def clock_resolution() -> float:
    """Seconds: the smallest step seen between two unequal readings of the clock."""
    smallest = 10**9
    for _ in range(200):
        start = end = perf_counter_ns()
        while end == start:
            end = perf_counter_ns()
        smallest = min(smallest, end - start)
    return smallest * 1e-9


@contextmanager
def no_garbage_collection():
    """While the block runs, no collection falls into a sample."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _measure(
    calls: Sequence[Callable], repeat, warmup, comm, device, seconds, batch
) -> list[Measurement]:
    """The Measurement of each call; the calls take turns. Options as in `measure`."""
    for name, value, least in (("repeat", repeat, 1), ("warmup", warmup, 0), ("batch", batch, 1)):
        if value < least:
            raise LabError(f"timing: {name}={value} makes no measurement; give {least} or more.")
    with_events = _is_cuda(device) and comm is None
    sampler = _event_sampler if with_events else _clock_sampler
    samplers = [sampler(_batched(call, batch), device) for call in calls]
    for _ in range(warmup):
        for call in calls:
            call()
    device_sync(device)
    with no_garbage_collection():
        nanoseconds = _slowest(_collect(samplers, repeat, seconds, comm), comm)
    resolution = (EVENT_RESOLUTION if with_events else clock_resolution()) / batch
    return [Measurement(column * 1e-9 / batch, resolution) for column in nanoseconds.T]


def _collect(samplers: list, repeat: int, seconds: float | None, comm) -> list[list[float]]:
    """Up to `repeat` rows of one sample per sampler, in nanoseconds; every second row runs
    backwards."""
    rows: list[list[float]] = []
    order = list(enumerate(samplers))
    orders = (order, order[::-1])
    barrier = comm.Barrier if comm is not None else None
    begin = perf_counter_ns()
    limit = repeat if seconds is None else min(repeat, FEWEST)
    while len(rows) < limit:
        for turn in range(len(rows), limit):
            row = [0.0] * len(samplers)
            for column, sample in orders[turn % 2]:
                if barrier:
                    barrier()
                row[column] = sample()
            rows.append(row)
        if limit < repeat:
            # The ranks agree on what still fits: one that stopped alone would leave the others at a
            # barrier.
            spent = _slowest([perf_counter_ns() - begin], comm)[0] * 1e-9
            fits = int((seconds - spent) / (spent / limit))
            # Half of what fits, and look again: the estimate gets better as the runs go on.
            limit = min(repeat, limit + (max(1, fits // 2) if fits > 0 else 0))
    return rows


def _clock_sampler(call, device) -> Callable[[], float]:
    def sample() -> float:
        start = perf_counter_ns()
        call()
        return perf_counter_ns() - start

    if not _is_cuda(device):
        return sample

    def sample_on_device() -> float:
        # Messages between ranks are not on the device's own time line, so the host's clock is the
        # one to ask.
        device_sync(device)
        start = perf_counter_ns()
        call()
        device_sync(device)
        return perf_counter_ns() - start

    return sample_on_device


def _event_sampler(call, device) -> Callable[[], float]:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.current_stream(device)

    def sample() -> float:
        start.record(stream)
        call()
        end.record(stream)
        torch.cuda.synchronize(device)
        return start.elapsed_time(end) * 1e6  # milliseconds to nanoseconds

    return sample


def _batched(call, batch: int):
    if batch == 1:
        return call

    def calls() -> None:
        for _ in forever(None, batch):
            call()

    return calls


def _slowest(values, comm) -> np.ndarray:
    """Element by element the largest value over the ranks of `comm`."""
    own = np.array(values, dtype=float)
    if comm is None:
        return own
    if isinstance(comm, TorchGroup):
        return comm.largest(own)
    from mpi4py import MPI

    slowest = np.empty_like(own)
    comm.Allreduce(own, slowest, op=MPI.MAX)
    return slowest


def _is_cuda(device) -> bool:
    return device is not None and str(device).startswith("cuda")
