"""Compressed gradients on trial: what a check asks of them, what a net learns, what they cost. Lab 35.

A way is a pair (compress, expand): compress(values) makes a message (uint8) of float32 values, and
expand(message, n) makes n values of it. An average(comm, gradient, error, compress, expand) has error
feedback: it returns the mean over all ranks of what their messages say, and leaves in `error` what this
rank's own did not say (Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from labkit import nets, timing, virtual
from labkit.checks import expect
from labkit.collectives import ring_allreduce

from support.lab35.checks import (
    LENGTHS,
    expect_bits,
    expect_feedback,
    expect_half,
    expect_top,
    from_whole,
    gradients,
    try_feedback,
    try_half,
    whole,
)

__all__ = ["LENGTHS", "accuracy", "exchange_times", "expect_bits", "expect_feedback", "expect_half"]
__all__ += [
    "expect_prices",
    "expect_top",
    "from_whole",
    "gradients",
    "packing",
    "traffic",
    "try_feedback",
    "try_half",
    "whole",
]


def accuracy(average: Callable, way: tuple | None, *, keep: bool = True, **training) -> list[float]:
    """Percent of the digits' test images that are right after training, for each seed; on virtual ranks.

    way: None for MPI's float32 mean. keep: False throws the error away after each step. training: as
    `nets.accuracy` takes it.
    """

    def plain(comm, gradient, error):
        mean = np.empty_like(gradient)
        comm.Allreduce(gradient, mean)
        return mean / comm.size

    def compressed(comm, gradient, error):
        mean = average(comm, gradient, error, *way)
        error *= keep
        return mean

    return nets.accuracy(compressed if way else plain, **training)


def expect_prices(sent: Callable, even: Callable, half: Callable, average: Callable, ways: Callable) -> None:
    """Fail unless sent(n, p, k) are the bytes of virtual runs, and even(full, small, seconds) holds there.

    half, average: as above. ways: k -> {name: (compress, expand)}. sent returns bytes by name, "float32" (a
    ring) and "float16" among them.
    """
    for p, n, k in [(p, 720 * p, k) for p in (1, 2, 3, 4, 5, 8, 16) for k in (1, 50)]:
        calls = {"float32": ring_allreduce, "float16": half}
        calls |= {name: _whole_call(average, way) for name, way in ways(k).items()}
        want = {name: max(_run(p, call, n).sent_bytes) for name, call in calls.items()}
        expect.close(sent(n, p, k), want, f"{p} ranks, {n} values, k = {k}: bytes sent")
    expect.equal(even(100, 200, 1.0), 0, "100 bytes without and 200 with compression: break_even")
    for p, work in [(p, work) for p in (2, 4, 8) for work in (1e-3, 0.1)]:
        price, who = sent(7200, p, 1), f"{p} ranks, 7200 values, {work} s of packing"
        rate = even(price["float32"], price["1 bit"], work)
        expect(rate > 0, f"{who}: break_even should be above {rate}.")
        link = virtual.ideal(alpha=0, bandwidth=rate)
        plain = _run(p, ring_allreduce, 7200, link).time
        bits = _run(p, _whole_call(average, ways(1)["1 bit"]), 7200, link, work).time
        words = f"{who}: over a link of break_even, {rate:.4g} bytes/s, float32 takes {plain:.4g} s"
        expect(np.isclose(plain, bits, rtol=1e-3), f"{words}, bits {bits:.4g} s. Both should take as long.")


def _whole_call(average, way):
    return lambda comm, vector: average(comm, vector, np.zeros_like(vector), *way)


def _run(p, call, n, machine=None, work=0.0):
    def program(comm):
        comm.compute(work)
        call(comm, np.ones(n, np.float32))

    return virtual.Cluster(nodes=p, machine=machine).run(program)


def traffic(p: int, kind: str, nbytes: float, machine) -> float:
    """Virtual seconds of the messages alone, on p nodes of one rank. nbytes: of each rank's message.

    kind: "ring" (allreduce), "there and back" (chunks to their owners and to all), "allgather".
    """

    def program(comm):
        if kind == "ring":
            ring_allreduce(comm, virtual.vector(np.ones(comm.size), stands_for=nbytes))
        if kind == "there and back":
            mine = virtual.vector(np.ones(comm.size), stands_for=nbytes)
            comm.Alltoall(mine, np.empty_like(mine))
            comm.Allgather(mine[:1], np.empty_like(mine))
        if kind == "allgather":
            comm.Allgather(virtual.vector(np.ones(1), stands_for=nbytes), np.empty(comm.size))

    return virtual.Cluster(nodes=p, machine=machine).run(program).time


def exchange_times(comm, half: Callable, average: Callable, ways: dict, n: int) -> dict[str, list]:
    """way -> [the exchange, the same in a group of one rank, expanding one message]: Measurements.

    n: values on each rank. half, average: as above; ways: name -> (compress, expand). A group of one does all
    the packing and sends nothing; all ranks do it at once, as in a step. float32 is MPI's Allreduce.
    """
    alone = comm.Split(comm.rank)
    vector = np.random.default_rng(comm.rank).standard_normal(n, np.float32)
    total, error, groups = np.empty_like(vector), np.zeros_like(vector), (comm, alone)
    calls = {"float32": [partial(group.Allreduce, vector, total) for group in groups]}
    calls["float16"] = [partial(half, group, vector) for group in groups]
    for name, (compress, expand) in ways.items():
        calls[name] = [partial(average, group, vector, error, compress, expand) for group in groups]
        calls[name].append(partial(expand, compress(vector), n))
    timed = partial(timing.measure, comm=comm, repeat=10, warmup=1, seconds=1.0)
    return {name: [timed(call) for call in row] for name, row in calls.items()}


def packing(found: dict[str, list], way: str, p: int) -> float:
    """Seconds that `way` works more than float32 with p ranks. found: of exchange_times, of any ranks."""
    _, alone, *expand = found[way]
    return alone.median + sum((p - 1) * one.median for one in expand) - found["float32"][1].median


def links(found, sent: Callable, even: Callable, n: int, k: int) -> dict[str, dict[int, float]]:
    """way -> {ranks: Gb/s below which it is faster than float32}. found: of exchange_times; rest as above."""
    below: dict[str, dict[int, float]] = {way: {} for way in found if way != "float32"}
    for way, p in [(way, p) for way in below for p in (2, 4, 8, 16, 32)]:
        price, seconds = sent(n, p, k), max(1e-9, packing(found, way, p))
        below[way][p] = 8e-9 * even(price["float32"], price[way], seconds)
    return below
