"""The class board in a terminal."""

from __future__ import annotations

import io
import shutil

from classroom.learner import AWAY_STATE, FINISHED, STATES, STUCK
from classroom.view import Classroom

_COLOURS = {STUCK: "bold yellow", FINISHED: "green", AWAY_STATE: "dim"}
_WIDEST = 160


def as_text(classroom: Classroom, colour: bool = False, width: int | None = None) -> str:
    """The board as text. colour: for a terminal that has them. width: in characters, None: the
    terminal's."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    columns = width or min(_WIDEST, shutil.get_terminal_size((100, 24)).columns)
    console = Console(
        file=out, width=columns, force_terminal=colour, no_color=not colour, highlight=False
    )
    console.print(Text(classroom.headline, style="bold"))
    console.print(Text(_counts(classroom), style="dim"))
    if classroom.places:
        console.print(_places(classroom))
    if classroom.learners:
        console.print(_learners(classroom))
    for note in classroom.notes:
        console.print(Text(f"! {note}"))
    return out.getvalue()


def _counts(classroom: Classroom) -> str:
    states = ", ".join(f"{classroom.count(state)} {state}" for state in STATES)
    return f"{classroom.when}: {len(classroom.learners)} who agreed: {states}."


def _places(classroom: Classroom):
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Where they are", title_justify="left", expand=True)
    table.add_column("Exercise", no_wrap=True, max_width=38)
    for heading in ("Stuck", "There"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("To how many, and what its check says most", ratio=1, overflow="fold")
    for place in classroom.places:
        said = f"{place.told}×  {place.said}" if place.said else ""
        mark = "▶ " if place.half else "  "
        exercise = Text(f"{mark}{place.number} {place.title}")
        style = _COLOURS[STUCK] if place.half else ""
        table.add_row(exercise, str(place.stuck or ""), str(place.here), Text(said), style=style)
    return table


def _learners(classroom: Classroom):
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Who is where", title_justify="left", expand=True)
    table.add_column("Learner", no_wrap=True)
    for heading in ("Lab", "Exercise"):
        table.add_column(heading, no_wrap=True, max_width=26)
    for heading in ("Tries", "Hints", "Min", "Solved"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("State", no_wrap=True)
    for someone in classroom.learners:
        table.add_row(
            Text(someone.name),
            someone.stem.replace("_", " "),
            someone.exercise or "all solved",
            str(someone.here.tries or ""),
            str(someone.here.hints or ""),
            f"{someone.minutes:.0f}",
            str(someone.solved),
            someone.state_in_words,
            style=_COLOURS.get(someone.state, ""),
        )
    return table
