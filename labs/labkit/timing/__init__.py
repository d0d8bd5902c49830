"""FACE of labkit.timing."""

from labkit.timing import benchmarks
from labkit.timing.measurement import (
    FEWEST,
    Measurement,
    Ratio,
    digits,
    human,
    quartiles,
    samples_of,
    time_unit,
)
from labkit.timing.timer import clock_resolution, device_sync, in_turns, measure, no_garbage_collection, ratio

__all__ = [
    "FEWEST",
    "Measurement",
    "Ratio",
    "benchmarks",
    "clock_resolution",
    "device_sync",
    "digits",
    "human",
    "in_turns",
    "measure",
    "no_garbage_collection",
    "quartiles",
    "ratio",
    "samples_of",
    "time_unit",
]
