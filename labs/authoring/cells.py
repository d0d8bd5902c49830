"""From the source's cells to the learner's: a stub for each answer, `...` for each prediction."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import replace

from labkit.errors import LabError
from labkit.labfile import override, replaced

from authoring import links, tries
from authoring.cell import Cell
from authoring.rules import BEGIN, END, is_marked
from authoring.source import Lab

FOLDED = "hide-input"  # the tag by which myst-nb folds a cell
_ORIGIN = (
    "<!-- Generated from solutions/{stem}.py by `make labs`. Learners work on a copy in work/. -->"
)


def learner_cells(lab: Lab) -> list[Cell]:
    """The cells as the learner gets them; above the title a line that only who edits the file
    sees."""
    texts = [
        cell.source if cell.kind == "markdown" else stub(lab, place)
        for place, cell in enumerate(lab.cells)
    ]
    texts[0] = f"{_ORIGIN.format(stem=lab.stem)}\n{texts[0]}"
    return _written(lab, texts)


def solved_cells(lab: Lab, parameters: Mapping[str, object] | None = None) -> list[Cell]:
    """The cells with their answers and without marks; the book folds what is tagged.

    parameters: those that differ from the lab's own. Raises LabError for one that it does not have.
    """
    texts = [solved(cell) for cell in lab.cells]
    place = next(place for place, cell in enumerate(lab.cells) if "parameters" in cell.tags)
    texts[place] = override(texts[place], dict(parameters or {}))
    cells = _written(lab, texts)
    return [
        replace(cell, tags=(*cell.tags, FOLDED)) if is_marked(source) else cell
        for cell, source in zip(cells, lab.cells, strict=True)
    ]


def _written(lab: Lab, texts: list[str]) -> list[Cell]:
    """Cells of these texts; above the line of a check stands what it asks. Links are written
    out."""
    texts = list(texts)
    root = lab.path.parents[1]
    prose = [place for place, cell in enumerate(lab.cells) if cell.kind == "markdown"]
    for place in prose:
        try:
            texts[place] = links.expand(texts[place], lab.stem, root)
        except LabError as error:
            raise lab.wrong(lab.cells[place].line, str(error)) from None
    linked = links.to_glossary([texts[place] for place in prose], lab.stem, root)
    for place, text in zip(prose, linked, strict=True):
        texts[place] = text
    for exercise in lab.exercises:
        asked = tries.asked(lab, exercise.number)
        if asked and exercise.check is not None:
            # JupyterLab shows as much.
            comment = textwrap.wrap(f"Asked: {asked}", 78, break_long_words=False)
            lines = [f"# {line}" for line in comment]
            texts[exercise.check] = "\n".join([*lines, texts[exercise.check]])
    return [
        Cell(cell.kind, text, cell.line, cell.tags)
        for cell, text in zip(lab.cells, texts, strict=True)
    ]


def stub(lab: Lab, position: int) -> str:
    """The learner's text of the code cell at `position`. Raises LabError by file and line."""
    cell = lab.cells[position]
    return _without_predictions(
        lab, cell, _without_answers(lab, cell, position) if is_marked(cell) else cell.source
    )


def solved(cell: Cell) -> str:
    """The solved text of a cell: the answer stays, its marks go."""
    return "\n".join(line for line in cell.source.splitlines() if line.strip() not in (BEGIN, END))


def _without_answers(lab: Lab, cell: Cell, position: int) -> str:
    exercise = next(candidate for candidate in lab.exercises if position in candidate.answers)
    sentence = f"exercise {exercise.number}: {exercise.title}".replace("\\", "\\\\").replace(
        '"', '\\"'
    )
    stub_line = f'raise NotImplementedError("{sentence}")'
    lines = cell.source.splitlines()
    for first, last, indent in reversed(_blocks(lab, cell)):
        lines[first : last + 1] = [indent + stub_line]
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError as error:
        what = (
            f"without the answer this cell is not Python any more: {error.msg} (its line"
            f" {error.lineno})."
        )
        raise lab.wrong(cell.line, what) from None
    functions = [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    for number, line in enumerate(lines, 1):
        inside = any(function.lineno < number <= function.end_lineno for function in functions)
        if line.strip() == stub_line and not inside:
            raise lab.wrong(
                cell.line,
                "an answer stands outside of a function: its stub would fail before it is called.",
            )
    return "\n".join(lines)


def _blocks(lab: Lab, cell: Cell) -> list[tuple[int, int, str]]:
    """(first line, last line, indent) of each answer with its marks, counted from 0 in the cell."""
    blocks = []
    opened = None
    for number, line in enumerate(cell.source.splitlines()):
        mark = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if mark not in (BEGIN, END):
            if BEGIN in line or END in line:
                raise lab.wrong(
                    cell.line + number,
                    f"a mark is alone on its line, exactly `{BEGIN}` or `{END}`.",
                )
            continue
        if (mark == BEGIN) != (opened is None):
            raise lab.wrong(
                cell.line + number,
                f"`{mark}` without its partner; marks come in pairs, never nested.",
            )
        if mark == BEGIN:
            opened = (number, indent)
            continue
        if indent != opened[1]:
            raise lab.wrong(cell.line + number, f"`{END}` has another indent than its `{BEGIN}`.")
        if number == opened[0] + 1:
            raise lab.wrong(cell.line + number, "there is no answer between these marks.")
        blocks.append((opened[0], number, indent))
        opened = None
    if opened is not None:
        raise lab.wrong(cell.line + opened[0], f"`{BEGIN}` is never closed by `{END}`.")
    return blocks


def _without_predictions(lab: Lab, cell: Cell, text: str) -> str:
    numbers = [exercise.number for exercise in lab.exercises]
    tree = ast.parse(text)
    top = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    values = []
    for node in ast.walk(tree):
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "predict"
        ):
            continue
        line = cell.line + node.lineno - 1
        if node not in top:
            raise lab.wrong(
                line, "predict(…) stands at the top level of its cell, a statement of its own."
            )
        if (
            len(node.args) != 1
            or not isinstance(node.args[0], ast.Constant)
            or node.args[0].value not in numbers
        ):
            raise lab.wrong(
                line,
                f"predict(…) begins with the number of an exercise here: {', '.join(numbers)}.",
            )
        for keyword in node.keywords:
            try:
                ast.literal_eval(keyword.value)
            except ValueError:
                raise lab.wrong(
                    line, f"predict(…, {keyword.arg}=…): the value is a literal."
                ) from None
            values.append((keyword.value, "..."))
    return replaced(text, values)
