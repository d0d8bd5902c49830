"""Lab 34's trainings as runs of a benchmark: seconds to an accuracy, one for each seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from labkit import paths, record

STEM = "34_large_batch"
FEWEST = 4  # seeds of each: a score drops two, and one more is left out for its span


def trainings() -> tuple[dict[tuple[str, int], list[float | None]], str]:
    """{(way, batch): seconds to the goal of each seed}, None for a seed that missed it; and whose they are.

    The learner's own records of lab 34 if they have at least four seeds of each, else the kit's. Seconds:
    epochs to the goal, as trained, times the seconds of an epoch, on as many GPUs as the batch fills
    there, as lab 34 has them.
    """
    own = _seconds(record.entries(record.path(STEM)))
    if own and min(len(seconds) for seconds in own.values()) >= FEWEST:
        return own, "yours"
    return _seconds(record.entries(paths.root() / "solutions" / "results" / f"{STEM}.jsonl")), "the kit's"


def _seconds(entries: Iterable[Mapping]) -> dict[tuple[str, int], list[float | None]]:
    epochs: dict[tuple[str, int], list] = {}
    seconds: dict[tuple[str, int], float] = {}
    for entry in entries:
        if entry["result"] == "accuracy":
            for batch, of_seeds in zip(entry["batches"], entry["epochs_to_goal"], strict=True):
                epochs[entry["way"], batch] = of_seeds
        elif entry["result"] == "times":
            for batch, epoch in zip(entry["batches"], entry["epoch"], strict=True):
                seconds[entry["way"], batch] = epoch
    return {
        key: [None if value is None or math.isnan(value) else value * seconds[key] for value in of_seeds]
        for key, of_seeds in epochs.items()
        if key in seconds
    }
