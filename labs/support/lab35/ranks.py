"""Compressed gradients on real ranks: what exchanges and packing take, and over which links they pay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from labkit import timing


def exchange_times(comm, half: Callable, average: Callable, ways: Mapping, n: int) -> dict[str, list]:
    """way -> [the exchange, the same in a group of one rank, expanding one message]: Measurements.

    n: values on each rank. half, average, ways: as in `runs`, ways by name. A group of one does all the
    packing and sends nothing; all ranks do it at once, as in a step. float32 is MPI's Allreduce.
    """
    alone = comm.Split(comm.rank)
    vector = np.random.default_rng(comm.rank).standard_normal(n, np.float32)
    total = np.empty_like(vector)
    error = np.zeros_like(vector)
    groups = (comm, alone)
    calls = {
        "float32": [partial(group.Allreduce, vector, total) for group in groups],
        "float16": [partial(half, group, vector) for group in groups],
    }
    for name, (compress, expand) in ways.items():
        calls[name] = [partial(average, group, vector, error, compress, expand) for group in groups]
        calls[name].append(partial(expand, compress(vector), n))
    measure = partial(timing.measure, comm=comm, repeat=10, warmup=1, seconds=1.0)
    return {name: [measure(call) for call in row] for name, row in calls.items()}


def packing(times: Mapping[str, list], way: str, p: int) -> float:
    """Seconds that `way` works more than float32 with p ranks. times: of exchange_times, of any ranks."""
    _, alone, *expand = times[way]
    others = (p - 1) * expand[0].median if expand else 0.0
    return alone.median + others - times["float32"][1].median


def links(times: Mapping, bytes_sent: Callable, break_even: Callable, n: int, k: int) -> dict[str, dict]:
    """way -> {ranks: Gb/s below which it is faster than float32}. times: of exchange_times.

    bytes_sent(n, p, k), break_even(full, small, seconds): as in exercise 35.5.
    """
    below: dict[str, dict[int, float]] = {}
    for way in times:
        if way == "float32":
            continue
        below[way] = {}
        for p in (2, 4, 8, 16, 32):
            sent = bytes_sent(n, p, k)
            seconds = max(1e-9, packing(times, way, p))
            below[way][p] = 8e-9 * break_even(sent["float32"], sent[way], seconds)
    return below
