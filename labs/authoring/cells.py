"""From the source's cells to the learner's: a stub for each answer, `...` for each prediction."""

from __future__ import annotations

import ast

from labkit.errors import LabError
from labkit.labfile import BEGIN, END, marked

from authoring.source import Cell, Lab


def learner_cells(lab: Lab) -> list[Cell]:
    """The cells as the learner gets them."""
    texts = [
        cell.source if cell.kind == "markdown" else stub(lab, place) for place, cell in enumerate(lab.cells)
    ]
    return [Cell(cell.kind, text, cell.line, cell.tags) for cell, text in zip(lab.cells, texts, strict=True)]


def solved_cells(lab: Lab) -> list[Cell]:
    """The cells with their answers and without marks."""
    return [Cell(cell.kind, solved(cell), cell.line, cell.tags) for cell in lab.cells]


def stub(lab: Lab, position: int) -> str:
    """The learner's text of the code cell at `position`. Raises LabError by file and line."""
    cell = lab.cells[position]
    return _without_predictions(
        lab, cell, _without_answers(lab, cell, position) if marked(cell) else cell.source
    )


def solved(cell: Cell) -> str:
    """The solved text of a cell: the answer stays, its marks go."""
    return "\n".join(line for line in cell.source.splitlines() if line.strip() not in (BEGIN, END))


def _without_answers(lab: Lab, cell: Cell, position: int) -> str:
    exercise = next(one for one in lab.exercises if position in one.answers)
    sentence = f"exercise {exercise.number}: {exercise.title}".replace("\\", "\\\\").replace('"', '\\"')
    stub_line = f'raise NotImplementedError("{sentence}")'
    lines = cell.source.splitlines()
    for first, last, indent in reversed(_blocks(lab, cell)):
        lines[first : last + 1] = [indent + stub_line]
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError as error:
        what = f"without the answer this cell is not Python any more: {error.msg} (its line {error.lineno})."
        raise lab.wrong(cell.line, what) from None
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for number, line in enumerate(lines, 1):
        inside = any(one.lineno < number <= one.end_lineno for one in functions)
        if line.strip() == stub_line and not inside:
            raise lab.wrong(
                cell.line, "an answer stands outside of a function: its stub would fail before it is called."
            )
    return "\n".join(lines)


def _blocks(lab: Lab, cell: Cell) -> list[tuple[int, int, str]]:
    """(first line, last line, indent) of each answer with its marks, counted from 0 in the cell."""
    found, opened = [], None
    for number, line in enumerate(cell.source.splitlines()):
        mark, indent = line.strip(), line[: len(line) - len(line.lstrip())]
        if mark not in (BEGIN, END):
            if BEGIN in line or END in line:
                raise lab.wrong(
                    cell.line + number, f"a mark is alone on its line, exactly `{BEGIN}` or `{END}`."
                )
            continue
        if (mark == BEGIN) != (opened is None):
            raise lab.wrong(
                cell.line + number, f"`{mark}` without its partner; marks come in pairs, never nested."
            )
        if mark == BEGIN:
            opened = (number, indent)
            continue
        if indent != opened[1]:
            raise lab.wrong(cell.line + number, f"`{END}` has another indent than its `{BEGIN}`.")
        if number == opened[0] + 1:
            raise lab.wrong(cell.line + number, "there is no answer between these marks.")
        found.append((opened[0], number, indent))
        opened = None
    if opened is not None:
        raise lab.wrong(cell.line + opened[0], f"`{BEGIN}` is never closed by `{END}`.")
    return found


def _without_predictions(lab: Lab, cell: Cell, text: str) -> str:
    numbers = [exercise.number for exercise in lab.exercises]
    tree = ast.parse(text)
    top = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    values = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "predict"):
            continue
        line = cell.line + node.lineno - 1
        if node not in top:
            raise lab.wrong(line, "predict(…) stands at the top level of its cell, a statement of its own.")
        if (
            len(node.args) != 1
            or not isinstance(node.args[0], ast.Constant)
            or node.args[0].value not in numbers
        ):
            raise lab.wrong(
                line, f"predict(…) begins with the number of an exercise here: {', '.join(numbers)}."
            )
        for keyword in node.keywords:
            try:
                ast.literal_eval(keyword.value)
            except ValueError:
                raise lab.wrong(line, f"predict(…, {keyword.arg}=…): the value is a literal.") from None
            values.append((keyword.value, "..."))
    return _replaced(text, values)


def override(cell: str, values: dict[str, object]) -> str:
    """The text of a parameters cell with other values. Comments and all other lines stay.

    Raises LabError for a name that the cell does not have.
    """
    nodes = {node.targets[0].id: node.value for node in ast.parse(cell).body}
    for name in values:
        if name not in nodes:
            raise LabError(
                f"There is no parameter {name!r}. The parameters are {', '.join(nodes) or 'none'}."
            )
    return _replaced(cell, [(nodes[name], repr(value)) for name, value in values.items()])


def with_parameters(text: str, values: dict[str, object]) -> str:
    """A lab's script with other parameter values, such as {"epochs": 1}. An unknown name is a LabError."""
    lines = text.splitlines()
    markers = [number for number, line in enumerate(lines) if line.startswith("# %%")]
    start = next((number for number in markers if 'tags=["parameters"]' in lines[number]), None)
    if start is None:
        raise LabError("This script has no parameters cell.")
    end = next((number for number in markers if number > start), len(lines))
    lines[start + 1 : end] = [*override("\n".join(lines[start + 1 : end]), values).splitlines(), ""]
    return "\n".join(lines).rstrip() + "\n"


def _replaced(text: str, changes: list[tuple[ast.expr, str]]) -> str:
    """The text with other source in place of some of its expressions."""
    lines = text.splitlines()
    for node, new in sorted(changes, key=lambda one: (one[0].lineno, one[0].col_offset), reverse=True):
        # ast counts columns in bytes of UTF-8.
        first, last = lines[node.lineno - 1].encode(), lines[node.end_lineno - 1].encode()
        line = first[: node.col_offset] + new.encode() + last[node.end_col_offset :]
        lines[node.lineno - 1 : node.end_lineno] = [line.decode()]
    return "\n".join(lines)
