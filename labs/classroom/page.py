"""The class board as one HTML page: it loads nothing, runs no script, and works without a
network."""

from __future__ import annotations

from pathlib import Path

from labkit import files
from labkit.errors import LabError

from classroom.learner import STATES
from classroom.view import Classroom

REFRESH = 10  # seconds after which a browser loads the page again
# What a browser may do with the page: style itself, and nothing else.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


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


def write(classroom: Classroom, file: Path) -> None:
    """Write the page in one step, readable by this user alone. Raises LabError where it cannot."""
    try:
        files.replace(file, as_page(classroom))
    except OSError as error:
        raise LabError(f"The page {file} cannot be written ({error.strerror}).") from None
