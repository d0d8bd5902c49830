"""The learner's own copy of a lab, helped by one answer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from labkit import copies, labfile, paths
from labkit.errors import LabError

from authoring import cells as authoring_cells
from authoring import generate


def solve(lab: str, exercise: str, root: Path | None = None) -> None:
    """Put the answer of one exercise into the learner's notebook and script; every other cell
    stays."""
    import jupytext
    import nbformat

    root = root or paths.root()
    source = generate.load(labfile.find(lab, root), root)
    chosen = next((listed for listed in source.exercises if listed.number == str(exercise)), None)
    if chosen is None:
        numbers = ", ".join(listed.number for listed in source.exercises)
        raise LabError(f"Lab {source.stem} has no exercise {exercise!r}; it has {numbers}.")
    copies.bring(root, [source.stem])
    copies.sync(source.stem, root)
    names = [f"{copies.WORK}/{source.stem}.ipynb", f"{copies.WORK}/{source.stem}.py"]
    book = nbformat.read(root / names[0], as_version=4)
    for position in chosen.answers:
        answer = authoring_cells.solved(source.cells[position])
        cell = _cell_in(book, position, answer)
        if cell is None:
            functions = ", ".join(f"{name}()" for name in _functions(answer))
            again = f"`make reset LAB={source.stem[:2]}` begins it afresh."
            raise LabError(f"{names[0]} has no cell with {functions}. {again}")
        cell.source = answer
        cell.outputs = []
        cell.execution_count = None
    copies.set_aside(root, names)
    (root / names[0]).write_text(copies.notebook_text(book), encoding="utf-8")
    book.metadata = {"jupytext": copies.FILTERS}
    (root / names[1]).write_text(jupytext.writes(book, fmt="py:percent"), encoding="utf-8")
    print(
        f"The answer of {chosen.number} is in {names[0]}. If it is open, reload it from disk (File"
        " menu)."
    )


def _functions(text: str) -> list[str]:
    """The names of the functions and classes a cell defines, also if it is not Python at the
    moment."""
    try:
        return [
            node.name
            for node in ast.parse(text).body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        ]
    except SyntaxError:
        return re.findall(r"^(?:def|class) (\w+)", text, re.MULTILINE)


def _cell_in(book, position: int, answer: str):
    """The learner's cell for an answer: by the function that it defines, among several by its id.

    By its id alone only if it is empty, because a new version of the lab numbers its cells anew.
    Older notebooks have no ids.
    """
    wanted = set(_functions(answer))
    own = f"cell-{position + 1:02d}"
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    by_name = [cell for cell in code if wanted & set(_functions(cell.source))]
    by_name.sort(key=lambda cell: cell.get("id") != own)
    emptied = [cell for cell in code if cell.get("id") == own and not cell.source.strip()]
    return next(iter(by_name or emptied), None)
