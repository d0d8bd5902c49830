"""Measured times in order, speed-up and efficiency of them, and the law behind them (lab 50).

`times` is always a dict: ranks or bytes -> seconds, or -> several samples of seconds, or -> a
timing.Measurement.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labkit.errors import LabError
from labkit.timing import quartiles, samples_of


def ordered(times: Mapping, least: float = 1) -> dict:
    """`times` in order of its keys; LabError when a key is below `least` or a time is not above
    0."""
    if not times:
        raise LabError("There are no times to look at.")
    for key, value in times.items():
        if not key >= least:
            raise LabError(f"{key} is not a number of ranks or bytes that can be measured.")
        seconds = samples_of(value)
        if not (len(seconds) and np.all(np.isfinite(seconds)) and np.all(seconds > 0)):
            raise LabError(
                f"The time at {key} is {value!r}; every time must be a number of seconds above 0."
            )
    return dict(sorted(times.items()))


def to_fit(times: Mapping, least: float = 1) -> dict:
    """`ordered`; LabError when they are no table, or too few for a fit."""
    if not isinstance(times, Mapping):
        raise LabError("Give a dict of measured times, for example {1: 2.0, 2: 1.1, 4: 0.6}.")
    table = ordered(times, least)
    if len(table) < 2:
        raise LabError(
            "A fit needs times at two different points or more; three or more tell how good it is."
        )
    return table


def speedup(times: Mapping[int, object], weak: bool = False) -> dict[int, float]:
    """How many times faster than one rank. weak: the work grew with the ranks, so each rank's share
    counts.

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
    return {
        ranks: unit / (quartiles(value)[0] * (1 if weak else ranks))
        for ranks, value in times.items()
    }


def amdahl(ranks, serial: float):
    """Speed-up at equal total work when the share `serial` of it cannot be shared: 1 / (s +
    (1-s)/p).

    ranks: number or array. Amdahl, AFIPS 1967.
    """
    if not 0 <= serial <= 1:
        raise LabError(f"`serial` is a share between 0 and 1, not {serial}.")
    if not np.all(np.asarray(ranks) >= 1):
        raise LabError(f"A job has at least one rank, not {ranks}.")
    return 1 / (serial + (1 - serial) / np.asarray(ranks, dtype=float))
