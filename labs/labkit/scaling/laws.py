"""Speed-up and efficiency of measured times, and the law behind them. Pure functions (lab 50).

`times` is always a dict: ranks -> seconds, or -> several samples of seconds, or -> a timing.Measurement.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labkit.errors import LabError
from labkit.scaling.tables import ordered
from labkit.timing import quartiles


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
    if not 0 <= serial <= 1:
        raise LabError(f"`serial` is a share between 0 and 1, not {serial}.")
    if not np.all(np.asarray(ranks) >= 1):
        raise LabError(f"A job has at least one rank, not {ranks}.")
    return 1 / (serial + (1 - serial) / np.asarray(ranks, dtype=float))
