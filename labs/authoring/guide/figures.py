"""The one figure of a lab that an instructor shows: which it is, and its picture where a run has drawn it."""

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
    """A figure of a lab. title: as the source says it, … for what only a run knows; "" if it is not there.

    cell: the position of its cell. heading: of the part of the lab in which it stands.
    """

    title: str
    cell: int
    heading: str


def choose(lab: Lab, end: int, words: str | None = None) -> Figure | None:
    """The figure to show, or None for a lab that draws none.

    words: of the call that draws it, where it is named. Else the last figure before cell `end` that an
    Explain follows: labs end with the measurement that they were made for. Raises LabError where no cell
    that draws has these words.
    """
    drawing = [
        position
        for position, cell in enumerate(lab.cells)
        if cell.kind == "code" and _DRAWS.search(cell.source)
    ]
    if words is not None:
        named = [position for position in drawing if words in lab.cells[position].source]
        if not named or not words:
            raise LabError(f"Lab {lab.stem} has no figure {words!r}: no cell that draws has these words.")
        return _figure(lab, named[0], words)
    before = [position for position in drawing if position < end]
    explained = [position for position in before if _is_explained(lab, position)]
    chosen = explained or before or drawing
    return _figure(lab, chosen[-1]) if chosen else None


def picture(notebook: Path, cell: int) -> str | None:
    """The last picture (PNG, in base64) that this cell of the source left in an executed notebook."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return None
    for entry in cells:
        if entry.get("id") != f"cell-{cell + 1:02d}":
            continue
        pictures = [output.get("data", {}).get("image/png") for output in entry.get("outputs", [])]
        pictures = [drawn if isinstance(drawn, str) else "".join(drawn) for drawn in pictures if drawn]
        return pictures[-1].replace("\n", "") if pictures else None
    return None


def _is_explained(lab: Lab, cell: int) -> bool:
    """Does prose that explains follow, before the next exercise?"""
    for later in lab.cells[cell + 1 : cell + 4]:
        if later.kind == "markdown":
            return "**Explain" in later.source.split("### ")[0]
    return False


def _figure(lab: Lab, cell: int, words: str = "") -> Figure:
    """The figure of that cell: the title with these words, else the last one in it."""
    found = [match[1] or match[2] for match in _TITLE.finditer(lab.cells[cell].source)]
    titles = [re.sub(r"\{.*?\}", "…", title) for title in found]
    prose = [part.source for part in lab.cells[:cell] if part.kind == "markdown"]
    headings = re.findall(r"^#{2,3} +(?!Predict\b)(.+)$", "\n".join(prose), re.MULTILINE)
    named = [title for title in titles if words in title]
    title = (named or titles or [""])[-1]
    return Figure(title, cell, headings[-1].strip() if headings else lab.header.title)
