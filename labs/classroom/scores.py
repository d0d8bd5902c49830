"""What each learner has solved, as a CSV file for a spreadsheet or a grade book."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from labkit import files
from labkit.errors import LabError

from classroom.view import Classroom

HEADINGS = ("learner", "exercise", "title", "solved", "tries", "hints")


def as_csv(classroom: Classroom) -> str:
    """A row for each exercise that a learner has begun."""
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(HEADINGS)
    for someone in sorted(classroom.learners, key=lambda learner: learner.name):
        for number, work in sorted(someone.works.items()):
            title = classroom.titles[number]
            row = (_plain(someone.name), number, title, int(work.passed), work.tries, work.hints)
            table.writerow(row)
    return out.getvalue()


def _plain(name: str) -> str:
    """A spreadsheet would take a text that begins like this for a formula and compute it."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def write(classroom: Classroom, file: Path) -> None:
    """Write the table in one step, readable by this user alone. Raises LabError where it cannot."""
    try:
        files.replace(file, as_csv(classroom))
    except OSError as error:
        raise LabError(f"The table {file} cannot be written ({error.strerror}).") from None
