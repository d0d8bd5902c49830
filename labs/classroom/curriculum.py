"""The labs as the board needs them: their exercises in order, titles, and stated minutes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from labkit import labfile


class Lab(NamedTuple):
    """A lab: exercises are number -> title, in order; minutes as its header states them."""

    stem: str
    exercises: dict[str, str]
    minutes: int

    @property
    def name(self) -> str:
        """ "23 ring allreduce"."""
        return self.stem.replace("_", " ")

    @property
    def share(self) -> float:
        """Minutes for one exercise, if all take as long."""
        return self.minutes / max(1, len(self.exercises))


def read(root: Path) -> dict[str, Lab]:
    """Stem -> lab, in order, of a checkout or a learners' archive."""
    headers = labfile.headers(root)
    labs = {}
    for stem in labfile.stems(root):
        text = (labfile.folder(root) / f"{stem}.py").read_text(encoding="utf-8", errors="replace")
        exercises = {exercise.number: exercise.title for exercise in labfile.exercises_in(text)}
        minutes = headers[stem].minutes if stem in headers else 60
        labs[stem] = Lab(stem, exercises, minutes)
    return labs
