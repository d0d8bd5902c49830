"""Runs whose start-up and speeds are known, for the check of exercise 65.2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SKIP = 5  # first steps that are no measure of speed


class MadeUp(NamedTuple):
    """What is handed to read_run, what is right, and what mistakes make of it."""

    what: str
    started: float
    moments: list[list[float]]
    batch: int
    start_up: float
    speeds: np.ndarray
    start_slips: dict[str, float]
    speed_slips: dict[str, np.ndarray]


def made_up() -> list[MadeUp]:
    """One, two and three ranks; slow first steps; ranks that begin late and stop at different steps."""
    return [_case(ranks, batch) for ranks, batch in ((1, 32), (2, 64), (3, 48))]


def _case(ranks: int, batch: int) -> MadeUp:
    rng = np.random.default_rng(ranks)
    started = 1_700_000_000.0 + ranks
    begin = started + 2.0 + 1.5 * np.arange(ranks)  # each later than the one before
    seconds = 0.02 + 0.01 * rng.random((30, ranks))
    seconds[:SKIP] += 0.2  # the first steps set things up
    seconds[12] += 0.5  # somebody else used the machine
    ends = np.empty((30, ranks))
    ends[0] = begin + 0.8
    for step in range(1, 30):
        # Nobody ends a step much before the slowest: all wait for the same sum.
        ends[step] = ends[step - 1].max() + seconds[step]
    moments = [list(ends[: 30 - rank, rank]) for rank in range(ranks)]
    whole = ends[: 31 - ranks]
    slowest = whole.max(axis=1)
    durations = np.diff(slowest)[SKIP - 1 :]
    by_first = np.diff(whole[:, 0])[SKIP - 1 :]
    return MadeUp(
        what=f"{ranks} rank(s), {batch} images",
        started=started,
        moments=moments,
        batch=batch,
        start_up=float(slowest[0] - started),
        speeds=batch / durations,
        start_slips={
            "this is the first rank's; the training has begun when the last one has": whole[0].min()
            - started,
            "this is a moment; take `started` away": float(slowest[0]),
            "this is the second step; the first is number 0": float(slowest[1] - started),
        },
        speed_slips={
            "this counts the ranks twice: batch is of all ranks together": batch * ranks / durations,
            "this is each rank's share of the images": batch / ranks / durations,
            "these are seconds; images/s are asked for": durations,
            "these are steps in a second; there are `batch` images in each": 1 / durations,
            "this is the first rank's; a step ends when the slowest rank has ended it": batch / by_first,
        },
    )
