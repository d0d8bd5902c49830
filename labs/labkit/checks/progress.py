"""What a check, a hint or a prediction adds to the learner's progress."""

from __future__ import annotations

import sys

from labkit import journal, lab, world
from labkit.errors import LabError


def note(event: str, exercise: str, **fields) -> None:
    """Write an event down, as `journal.note` does.

    Only rank 0 writes, and a run of a solved lab writes nothing. A folder that cannot be written
    costs a sentence, not the lab.
    """
    if not world.is_root() or lab.solved():
        return
    try:
        journal.note(event, exercise=exercise, **fields)
    except (LabError, OSError) as error:
        print(f"Your progress could not be saved: {error}", file=sys.stderr)
