"""The class board as files: an HTML page, and the scores as a table for a spreadsheet or a grade
book.

The page loads nothing, runs no script, and works without a network.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from labkit import files
from labkit.errors import LabError

from classroom.learner import STATES
from classroom.view import Classroom

REFRESH = 10  # seconds after which a browser loads the page again
# What a browser may do with the page: style itself, and nothing else.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
HEADINGS = ("learner", "exercise", "title", "solved", "tries", "hints")


def as_page(classroom: Classroom) -> str:
    """The page."""
    import jinja2

    text = Path(__file__).with_name("board.html.j2").read_text(encoding="utf-8")
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).from_string(text)
    return template.render(
        board=classroom,
        policy=POLICY,
        refresh=REFRESH,
        most=max([place.here for place in classroom.places], default=1),
        states=STATES,
    )


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


def write(file: Path, text: str) -> None:
    """Write a file in one step, readable by this user alone. Raises LabError where it cannot."""
    try:
        files.replace(file.expanduser(), text)
    except OSError as error:
        raise LabError(f"{file} cannot be written ({error.strerror}).") from None
