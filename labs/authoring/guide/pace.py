"""How long learners really took: from the times at which they passed exercises and recorded results."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from labkit import record
from labkit.errors import LabError

PAUSE = 30.0  # minutes without a sign of life: then the learner was away, and they do not count


class Pace(NamedTuple):
    """Minutes from a learner's first to their last sign of life in a lab: the median, and of how many."""

    minutes: float
    learners: int


def read(homes: Path | None) -> dict[str, Pace]:
    """A lab's number -> pace, from learners' folders (each with progress.json and records/) below `homes`.

    {} without a folder. A lab in which a learner left one sign of life only tells no time, and is left out.
    """
    if homes is None:
        return {}
    if not homes.is_dir():
        raise LabError(f"{homes} is no folder. Name the one that holds your learners' .labkit folders.")
    spent: dict[str, list[float]] = {}
    for progress in sorted(homes.rglob("progress.json")):
        for number, moments in _moments(progress.parent).items():
            minutes = _worked(moments)
            if minutes:
                spent.setdefault(number, []).append(minutes)
    return {number: Pace(statistics.median(minutes), len(minutes)) for number, minutes in spent.items()}


def _moments(home: Path) -> dict[str, list[datetime]]:
    """A lab's number -> when this learner passed an exercise of it or recorded a result."""
    moments: dict[str, list[datetime]] = {}
    try:
        exercises = json.loads((home / "progress.json").read_text(encoding="utf-8"))["exercises"]
    except (OSError, ValueError, KeyError):
        exercises = {}
    for exercise, entry in exercises.items():
        if entry.get("passed"):
            moments.setdefault(exercise[:2], []).append(_moment(entry["passed"]))
    for file in sorted(home.glob("records/*.jsonl")):
        for entry in record.entries(file):
            moments.setdefault(file.name[:2], []).append(_moment(entry["utc"]))
    return moments


def _moment(text: str) -> datetime:
    """A time with its zone; progress is kept in the local one."""
    return datetime.fromisoformat(text).astimezone()


def _worked(moments: Iterable[datetime]) -> float:
    """Minutes from the first to the last moment, without pauses."""
    ordered = sorted(moments)
    gaps = [
        (later - earlier).total_seconds() / 60 for earlier, later in zip(ordered, ordered[1:], strict=False)
    ]
    return sum(gap for gap in gaps if gap <= PAUSE)
