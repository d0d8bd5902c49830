"""Compressed gradients on real ranks: what exchanges and packing take, and over which links they pay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from labkit import placement, timing


def exchange_times(
    comm, half: Callable, average: Callable, ways: Mapping, n: int, where: placement.Placement | None = None
) -> tuple[dict[str, list], dict[str, placement.Placement]]:
    """(times, places) of exchanges of n float32 values on each rank.

    times: way -> [the exchange, the same in a group of one rank, expanding one message]: Measurements.
    places: way -> where its gradient was. half, average, ways: as in `runs`, ways by name. A group of one
    does all the packing and sends nothing; all ranks do it at once, as in a step. float32 is MPI's Allreduce.
    On a GPU the gradient is there before each exchange, and the mean afterwards. Packing is NumPy's, on the
    host: these ways are staged, whatever MPI takes. where: default placement.of_mpi().
    """
    where = where or placement.of_mpi()
    alone = comm.Split(comm.rank)
    vector = np.random.default_rng(comm.rank).standard_normal(n, np.float32)
    device = None
    if where != placement.on_host("MPI"):
        device = _Device(where, vector)
        vector = device.vector
    total = np.empty_like(vector)
    error = np.zeros_like(vector)
    groups = (comm, alone)
    calls = {
        "float32": [partial(_sum, group, vector, total) for group in groups],
        "float16": [partial(half, group, vector) for group in groups],
    }
    for name, (compress, expand) in ways.items():
        calls[name] = [partial(average, group, vector, error, compress, expand) for group in groups]
    places = dict.fromkeys(calls, where)
    if device:
        calls, places = device.staged(calls, groups)
    for name, (compress, expand) in ways.items():
        calls[name].append(partial(expand, compress(vector), n))
    measure = partial(timing.measure, comm=comm, device=where.device, repeat=10, warmup=1, seconds=1.0)
    times = {name: [measure(call) for call in row] for name, row in calls.items()}
    return times, places


def _sum(group, vector: np.ndarray, total: np.ndarray) -> np.ndarray:
    """MPI's sum of the vectors, in `total`."""
    group.Allreduce(vector, total)
    return total


class _Device:
    """A gradient on a GPU, and `vector`, pinned memory of the host with a copy of it."""

    def __init__(self, where: placement.Placement, values: np.ndarray):
        import torch

        self.where = where
        self.gradient = torch.from_numpy(values).to(where.device)
        self.mean = torch.empty_like(self.gradient)
        self.host = placement.pinned_like(self.gradient)
        self.host.copy_(self.gradient)
        self.vector = self.host.numpy()

    def staged(self, calls: Mapping[str, list], groups: Sequence) -> tuple[dict, dict]:
        """(calls, places): the same calls between copies to the host and back.

        float32 goes to MPI as it is where MPI takes a GPU's memory.
        """
        staged = replace(self.where, staged=True, by_lab=True, reason="NumPy packs on the host")
        made = {name: [partial(self._there_and_back, call) for call in row] for name, row in calls.items()}
        places = dict.fromkeys(made, staged)
        if not self.where.staged:
            zeros = self.gradient * 0  # sums of sums stay finite
            made["float32"] = [partial(self.where.allreduce, group, zeros) for group in groups]
            places["float32"] = self.where
        return made, places

    def _there_and_back(self, call: Callable) -> None:
        self.host.copy_(self.gradient)
        self.vector[:] = call()
        self.mean.copy_(self.host)


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
