"""The one figure of a lab that an instructor shows: which it is, and its picture where a run has
drawn it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LabError

from authoring.source import Lab

# plots.bars(…) and the like, or a function of the lab's module that draws.
_DRAWS = re.compile(r"\bplots\.(?!(?:lane|line|style|done)\b)\w+\(|\blab\d\d\.draw\w*\(")
_TITLE = re.compile(r'\btitle\s*=\s*(?:\w*\(\s*)?f?"([^"]+)"|\.draw\w*\(.*, "([^"]+)"\)')


@dataclass(frozen=True)
class Figure:
    """A figure of a lab. title: as the source says it, … for what only a run knows; "" if it is not
    there.

    cell: the position of its cell. heading: of the part of the lab in which it stands.
    """

    title: str
    cell: int
    heading: str


def choose(lab: Lab, end: int, words: str = "") -> Figure | None:
    """The figure to show, or None for a lab that draws none.

    words: of the call that draws it, where it is named. Else the last figure before cell `end`:
    labs end with the measurement that they were made for. Raises LabError where no cell that draws
    has these words.
    """
    drawing = [
        place
        for place, cell in enumerate(lab.cells)
        if cell.kind == "code" and _DRAWS.search(cell.source)
    ]
    if words:
        drawing = [place for place in drawing if words in lab.cells[place].source][:1]
        if not drawing:
            raise LabError(
                f"Lab {lab.stem} has no figure {words!r}: no cell that draws has these words."
            )
    if not drawing:
        return None
    cell = max([place for place in drawing if place < end] or drawing)
    found = [match[1] or match[2] for match in _TITLE.finditer(lab.cells[cell].source)]
    titles = [re.sub(r"\{.*?\}", "…", title) for title in found]
    named = [title for title in titles if words in title]
    prose = [part.source for part in lab.cells[:cell] if part.kind == "markdown"]
    headings = re.findall(r"^#{2,3} +(?!Predict\b)(.+)$", "\n".join(prose), re.MULTILINE)
    heading = headings[-1].strip() if headings else lab.header.title
    return Figure((named or titles or [""])[-1], cell, heading)


def picture(notebook: Path, cell: int) -> str | None:
    """The last picture (PNG, in base64) that this cell of the source left in an executed
    notebook."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return None
    outputs = [
        entry.get("outputs", []) for entry in cells if entry.get("id") == f"cell-{cell + 1:02d}"
    ]
    drawn = [
        output["data"]["image/png"]
        for output in sum(outputs, [])
        if "image/png" in output.get("data", {})
    ]
    return "".join(drawn[-1]).replace("\n", "") if drawn else None
