"""Speed-up, efficiency, the laws behind them, and fits of the laws to measured times. Pure functions.

`times` is always a dict: ranks -> seconds, or -> several samples of seconds, or -> a timing.Measurement.
Lab 50 uses the laws, lab 22 the α-β fit, lab 52 the prediction. Closed forms of collectives: labkit.costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from labkit.errors import LabError
from labkit.scaling.costs import (
    algbw,
    busbw,
    chain_broadcast_time,
    leader_allreduce_time,
    message_time,
    parameter_server_time,
    rabenseifner_allreduce_time,
    recursive_doubling_allreduce_time,
    ring_allgather_time,
    ring_allreduce_time,
    scatter_allgather_broadcast_time,
    tree_allreduce_time,
    tree_broadcast_time,
    two_dimensional_allreduce_time,
)
from labkit.scaling.fits import AlphaBeta, Fit, fit_alpha_beta, fit_amdahl, fit_gustafson, ordered
from labkit.timing import quartiles

__all__ = [
    "AlphaBeta",
    "Fit",
    "algbw",
    "amdahl",
    "bucketed_step_time",
    "busbw",
    "chain_broadcast_time",
    "efficiency",
    "exposed",
    "fit_alpha_beta",
    "fit_amdahl",
    "fit_gustafson",
    "gustafson",
    "leader_allreduce_time",
    "message_time",
    "parameter_server_time",
    "predict_times",
    "rabenseifner_allreduce_time",
    "recursive_doubling_allreduce_time",
    "ring_allgather_time",
    "ring_allreduce_time",
    "scatter_allgather_broadcast_time",
    "speedup",
    "step_time",
    "tree_allreduce_time",
    "tree_broadcast_time",
    "two_dimensional_allreduce_time",
]


def speedup(times: Mapping[int, object], weak: bool = False) -> dict[int, float]:
    """How many times faster than one rank. weak: the work grew with the ranks, so each rank's share counts.

    Where one rank was not measured, the fewest ranks measured count as perfectly efficient.
    """
    return {ranks: share * ranks for ranks, share in efficiency(times, weak).items()}


def efficiency(times: Mapping[int, object], weak: bool = False) -> dict[int, float]:
    """Speed-up over ranks, ideally 1.0.

    t(1) / (p t(p)) at equal total work; t(1) / t(p) when the work grew with the ranks (weak).
    """
    times = ordered(times)
    fewest, first = next(iter(times.items()))
    unit = quartiles(first)[0] * (1 if weak else fewest)
    return {ranks: unit / (quartiles(value)[0] * (1 if weak else ranks)) for ranks, value in times.items()}


def amdahl(ranks, serial: float):
    """Speed-up at equal total work when the share `serial` of it cannot be shared: 1 / (s + (1-s)/p).

    ranks: number or array. Amdahl, AFIPS 1967.
    """
    _share("serial", serial)
    return 1 / (serial + (1 - serial) / _at_least_one(ranks))


def gustafson(ranks, serial: float):
    """Scaled speed-up at equal work per rank: p - s(p-1), s the serial share of the time on p ranks.

    Gustafson, CACM 31(5), 1988.
    """
    _share("serial", serial)
    ranks = _at_least_one(ranks)
    return ranks - serial * (ranks - 1)


def step_time(compute: float, communicate: float, overlap: float = 0.0) -> float:
    """Seconds of a training step: compute, and the communication that does not hide behind it.

    overlap: share of the communication that could run during compute, 0 to 1; never more hides than compute
    lasts.
    """
    _share("overlap", overlap)
    return compute + communicate - min(overlap * communicate, compute)


def exposed(step: float, compute: float) -> float:
    """Seconds of a step that are communication alone: what the step takes beyond its compute, at least 0."""
    return max(0.0, step - compute)


def bucketed_step_time(compute: float, ready: Sequence[float], communicate: Sequence[float]) -> float:
    """Seconds of a step that sends gradients in buckets while the backward pass goes on.

    ready: when each bucket's gradients are there; communicate: how long each takes to send. One bucket is
    sent at a time: bucket i starts at max(ready_i, end of i-1). S-SGD as a graph: Shi et al.,
    arXiv 1805.03812, 2018.
    """
    end = 0.0
    for start, seconds in zip(ready, communicate, strict=True):
        end = max(start, end) + seconds
    return max(compute, end)


def predict_times(
    ranks: Iterable[int],
    compute: float,
    n: float,
    alpha: float,
    beta: float,
    *,
    weak: bool = True,
    overlap: float = 0.0,
    allreduce: Callable[..., float] = ring_allreduce_time,
) -> dict[int, float]:
    """Seconds per training step at each number of ranks, from one rank's `compute` seconds and n gradient
    bytes.

    weak: each rank keeps its batch; otherwise the batch, and so compute, is shared. allreduce: any closed
    form here.
    """
    return {
        p: step_time(compute if weak else compute / p, allreduce(n, p, alpha, beta), overlap) for p in ranks
    }


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise LabError(f"`{name}` is a share between 0 and 1, not {value}.")


def _at_least_one(ranks):
    values = np.asarray(ranks, dtype=float)
    if not np.all(values >= 1):
        raise LabError(f"A job has at least one rank, not {ranks}.")
    return values if values.ndim else float(values)
