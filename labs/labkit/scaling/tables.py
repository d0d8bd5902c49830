"""Tables of measured times, {ranks or bytes: time}: put in order and checked before anybody computes.

A time is a number of seconds, several samples of it, or a timing.Measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from labkit.errors import LabError
from labkit.timing import samples_of


def ordered(times: Mapping, least: float = 1) -> dict:
    """`times` in order of its keys; LabError when a key is below `least` or a time is not above 0."""
    if not times:
        raise LabError("There are no times to look at.")
    for key, value in times.items():
        if not key >= least:
            raise LabError(f"{key} is not a number of ranks or bytes that can be measured.")
        seconds = samples_of(value)
        if not (len(seconds) and np.all(np.isfinite(seconds)) and np.all(seconds > 0)):
            raise LabError(f"The time at {key} is {value!r}; every time must be a number of seconds above 0.")
    return dict(sorted(times.items()))


def to_fit(keys: Mapping | Sequence, times: Sequence | None, least: float = 1) -> dict:
    """`ordered` from a table, or from its keys and its times; LabError when they are too few for a fit."""
    if times is not None:
        if len(keys) != len(times):
            raise LabError(f"{len(keys)} points and {len(times)} times do not belong together.")
        keys = dict(zip((float(key) for key in keys), times, strict=True))
    if not isinstance(keys, Mapping):
        raise LabError(
            "Give a dict of measured times, for example {1: 2.0, 2: 1.1, 4: 0.6}, or two sequences."
        )
    table = ordered(keys, least)
    if len(table) < 2:
        raise LabError(
            "A fit needs times at two different points or more; three or more tell how good it is."
        )
    return table
