"""The one figure of a lab that an instructor shows: which it is, and its picture where a run has drawn it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LabError

from authoring.source import Lab

_NO_FIGURE = ("lane", "line", "style", "done")  # of labkit.plots: they help to draw
_TITLE = 3  # words at least: a shorter text in a call is a label


@dataclass(frozen=True)
class Figure:
    """A figure of a lab. title: as far as the source says it, "" if it is not there. call: what draws it.

    cell: the position of its cell. heading: of the part of the lab in which it stands.
    """

    title: str
    call: str
    cell: int
    heading: str


def choose(lab: Lab, end: int, beginning: str | None = None) -> Figure | None:
    """The figure to show, or None for a lab that draws none.

    beginning: of its title, or the call that draws it, where one is named. Else the last figure before cell
    `end` that an Explain follows: labs end with the measurement that they were made for. Raises LabError
    where no figure is named so.
    """
    known = list(_figures(lab))
    if beginning is not None:
        named = [figure for figure in known if beginning and _is_named(figure, beginning)]
        if not named:
            names = "; ".join(figure.title or figure.call for figure in known) or "none"
            raise LabError(f"Lab {lab.stem} has no figure {beginning!r}. Its figures: {names}.")
        return named[0]
    titled = [figure for figure in known if figure.title or ".draw_" in figure.call]
    drawn = [figure for figure in titled if figure.cell < end]
    explained = [figure for figure in drawn if _is_explained(lab, figure.cell)]
    return (explained or drawn or titled or [None])[-1]


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


def _is_named(figure: Figure, beginning: str) -> bool:
    return figure.title.startswith(beginning) or figure.call == beginning


def _figures(lab: Lab) -> Iterator[Figure]:
    heading = lab.header.title
    for position, cell in enumerate(lab.cells):
        if cell.kind == "markdown":
            titles = re.findall(r"^#{2,3} +(?!Predict\b)(.+)$", cell.source, re.MULTILINE)
            heading = titles[-1].strip() if titles else heading
            continue
        tree = lab.tree(cell)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _draws(node):
                yield Figure(_title(node, tree), ast.unparse(node.func), position, heading)


def _draws(call: ast.Call) -> bool:
    """plots.bars(…), lab53.draw_step(…), or whatever is given a title."""
    if any(word.arg == "title" for word in call.keywords):
        return True
    if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)):
        return False
    module = call.func.value.id
    if module == "plots":
        return call.func.attr not in _NO_FIGURE
    return bool(re.fullmatch(r"lab\d\d", module) and re.match(r"draw|show|plot", call.func.attr))


def _title(call: ast.Call, tree: ast.AST) -> str:
    for word in call.keywords:
        if word.arg == "title":
            return _text(word.value, tree)
    texts = [argument for argument in call.args if isinstance(argument, (ast.Constant, ast.JoinedStr))]
    titles = [_text(text, tree) for text in texts]
    return next((title for title in titles if len(title.split()) >= _TITLE), "")


def _text(node: ast.expr, tree: ast.AST) -> str:
    """A title as far as the source says it: … stands for what only a run knows."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
        return "".join(parts)
    if isinstance(node, ast.Name):
        for other in ast.walk(tree):
            if isinstance(other, ast.Assign) and getattr(other.targets[0], "id", "") == node.id:
                return _text(other.value, ast.Module([], []))
    if isinstance(node, ast.BinOp):
        return _text(node.left, tree) + _text(node.right, tree)
    if isinstance(node, ast.IfExp):
        return _text(node.body, tree)
    if isinstance(node, ast.Call) and node.args:
        return _text(node.args[0], tree)
    return "…"
