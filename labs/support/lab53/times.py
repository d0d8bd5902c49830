"""Seconds of steps on ranks, drawn by chance: of one mean and spread, and of different shapes."""

from __future__ import annotations

import numpy as np
from labkit.errors import LabError

MEAN = 0.020  # seconds of a step on one rank
SPREAD = 0.005  # their standard deviation
KINDS = ("steady", "normal", "heavy-tailed")
INDEX = 3  # of the Pareto distribution: the chance of a time beyond t falls as t to the power of -3


def draw(kind: str, steps: int, ranks: int, seed: int = 0) -> np.ndarray:
    """Seconds of each step on each rank: (steps, ranks), independent of each other.

    kind: "steady" (all MEAN), "normal", or "heavy-tailed": of the same MEAN and SPREAD, by a Pareto
    distribution, whose mean is a / (a - 1) and whose variance a / ((a - 1)^2 (a - 2)) of its shortest value
    1, with a = INDEX. Raises LabError for another kind.
    """
    rng = np.random.default_rng((seed, steps, ranks))
    if kind == "steady":
        return np.full((steps, ranks), MEAN)
    if kind == "normal":
        # Four standard deviations below its mean a time would be negative; that is cut off.
        return np.maximum(MEAN + SPREAD * rng.standard_normal((steps, ranks)), MEAN / 100)
    if kind == "heavy-tailed":
        values = 1 + rng.pareto(INDEX, (steps, ranks))
        mean = INDEX / (INDEX - 1)
        spread = np.sqrt(INDEX / (INDEX - 2)) / (INDEX - 1)
        return MEAN + SPREAD * (values - mean) / spread
    raise LabError(f"lab53.draw knows {', '.join(KINDS)}, not {kind!r}.")


def slow_rank(steps: int, ranks: int, rank: int, factor: float = 1.5) -> np.ndarray:
    """Seconds of steps with a tenth of the SPREAD, (steps, ranks), of which one rank's are longer."""
    times = MEAN + 0.1 * (draw("normal", steps, ranks) - MEAN)
    times[:, rank] *= factor
    return times
