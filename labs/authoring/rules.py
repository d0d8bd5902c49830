"""The rules of form that a lab's exercises are held to; what breaks one is named by file and
line."""

from __future__ import annotations

import ast
import re

from labkit.labfile import HEADING, Exercise, exercises_in

from authoring.cell import Cell, Source

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_ANY_HEADING = re.compile(r"#+\s*Exercise\b", re.IGNORECASE)
# Markdown between a tag and the next empty line is shown as it is written.
_UNREAD_MARKDOWN = re.compile(
    r"(?<!\n)(?<!\A)<details>|</summary>(?! *\n\n)|</details>(?! *(\n\n|\n<details>|\Z))"
)
_PROSE_IN_CODE = re.compile(r"^# (\*\*|##)", re.MULTILINE)


def collect(lab: Source) -> list[Exercise]:
    """The lab's exercises with the positions of their cells. Raises LabError by file and line."""
    exercises: list[Exercise] = []
    for position, cell in enumerate(lab.cells):
        if cell.kind == "markdown":
            exercises += _headings(lab, position, cell)
            continue
        prose = _PROSE_IN_CODE.search(cell.source)
        if prose:
            line = cell.line + cell.source.count("\n", 0, prose.start())
            raise lab.wrong(
                line, "prose stands in a cell of code: `# %% [markdown]` is missing above."
            )
        if is_marked(cell):
            if not exercises:
                raise lab.wrong(
                    cell.line, "an answer stands above the first `### Exercise` heading."
                )
            if exercises[-1].check is not None:
                raise lab.wrong(
                    cell.line,
                    f"an answer stands below the check of exercise {exercises[-1].number}.",
                )
            exercises[-1].answers.append(position)
        for number, line in _checks_in(lab.tree(cell)):
            _take_check(lab, exercises, number, position, cell.line + line - 1)
    for count, exercise in enumerate(exercises, 1):
        _hold_to_rules(lab, exercise, f"{lab.stem[:2]}.{count}")
    return exercises


def is_marked(cell: Cell) -> bool:
    """Whether the cell holds a mark of an answer."""
    return BEGIN in cell.source or END in cell.source


def _headings(lab: Source, position: int, cell: Cell) -> list[Exercise]:
    lines = cell.source.splitlines()
    for number, text in enumerate(lines, cell.line):
        if _ANY_HEADING.match(text) and not HEADING.match(text):
            wanted = f"### Exercise {lab.stem[:2]}.1 · Title"
            raise lab.wrong(number, f"a heading of an exercise reads `{wanted}`; this is {text!r}.")
        if BEGIN in text or END in text:
            raise lab.wrong(number, "a mark of an answer stands in prose.")
    if cell.source.count("<details>") != cell.source.count("</details>"):
        raise lab.wrong(cell.line, "a `<details>` of this cell has no `</details>`.")
    fold = _UNREAD_MARKDOWN.search(cell.source)
    if fold:
        line = cell.line + cell.source.count("\n", 0, fold.start())
        raise lab.wrong(
            line,
            "`<details>` begins a line, and an empty line follows `</summary>` and the last"
            " `</details>`.",
        )
    exercises = exercises_in(cell.source)
    if len(exercises) > 1:
        raise lab.wrong(cell.line, "two exercises share one cell; give each its own.")
    for exercise in exercises:
        above = next(count for count, text in enumerate(lines) if HEADING.match(text))
        exercise.cell = position
        exercise.line = cell.line + above
    return exercises


def _checks_in(tree: ast.Module) -> list[tuple[str, int]]:
    """(exercise, line) of each `check("40.1", …)` in a cell."""
    return [(str(call.args[0].value), call.lineno) for call in ast.walk(tree) if _is_check(call)]


def _is_check(call: ast.AST) -> bool:
    named = (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"
    )
    return named and bool(call.args) and isinstance(call.args[0], ast.Constant)


def _take_check(
    lab: Source, exercises: list[Exercise], number: str, position: int, line: int
) -> None:
    if not exercises or exercises[-1].number != number:
        above = f"exercise {exercises[-1].number}" if exercises else "no exercise"
        raise lab.wrong(line, f"check({number!r}) stands under the heading of {above}.")
    exercise = exercises[-1]
    if exercise.check is not None:
        raise lab.wrong(line, f"exercise {number} has two checks; make it one.")
    if not exercise.answers:
        raise lab.wrong(
            line,
            f"exercise {number} has a check, but no answer between `{BEGIN}` and `{END}` above it.",
        )
    if position in exercise.answers:
        raise lab.wrong(
            line, f"the check of exercise {number} has a cell of its own, below the answer's."
        )
    exercise.check = position


def _hold_to_rules(lab: Source, exercise: Exercise, expected: str) -> None:
    line = exercise.line
    number = exercise.number
    if number != expected:
        raise lab.wrong(
            line, f"exercises are numbered in order: expected {expected}, found {number}."
        )
    if not exercise.answers:
        raise lab.wrong(line, f"exercise {number} has no answer between `{BEGIN}` and `{END}`.")
    if exercise.check is None:
        raise lab.wrong(line, f'exercise {number} has no check: add a cell `check("{number}", …)`.')
    if not 2 <= len(exercise.hints) <= 4:
        form = (
            "`<details><summary>Hint 1: …</summary>`, an empty line, text, an empty line,"
            " `</details>`"
        )
        count = len(exercise.hints)
        raise lab.wrong(
            line,
            f"exercise {number} needs 2 to 4 hints below its text, and {count} were found. One is"
            f" {form}.",
        )
    for count, (title, text) in enumerate(exercise.hints, 1):
        if not title.startswith(f"Hint {count}: ") or not text:
            raise lab.wrong(
                line, f"hint {count} of exercise {number} is empty or misnumbered: {title!r}."
            )
