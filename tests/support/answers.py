"""A solved lab's answers; and other answers, put before its check: what is right otherwise passes."""

from __future__ import annotations

import importlib
import os

from authoring import generate
from labkit import labfile


def run_check(stem: str, exercise: str, **names) -> None:
    """Run the cells of one exercise, from its answer to its check, with `names` in place of the solution's.

    Before them run the lab's imports and its parameters, as small as for the wrong answers. CheckFailed, if
    the check does not let the answer pass.
    """
    lab = generate.load(stem)
    cells = generate.solved_cells(lab)
    (asked,) = [candidate for candidate in lab.exercises if candidate.number == exercise]
    namespace = _begun(stem, cells)
    for position in range(asked.answers[0], asked.check + 1):
        if cells[position].kind == "code":
            _execute(cells[position].source, namespace)
        if position == asked.answers[-1]:
            namespace |= names


def solved(stem: str) -> dict[str, object]:
    """By name what the solved lab's imports, its parameters (small) and its answers define."""
    lab = generate.load(stem)
    cells = generate.solved_cells(lab)
    namespace = _begun(stem, cells)
    for exercise in lab.exercises:
        for position in exercise.answers:
            _execute(cells[position].source, namespace)
    return namespace


def _begun(stem: str, cells: list) -> dict[str, object]:
    """The lab's imports and its parameters, as small as for the wrong answers."""
    small = importlib.import_module(f"tests.labs.wrong_answers.{stem}").SMALL
    os.environ["LABKIT_LAB"] = stem  # the fixture of all tests takes it away again
    namespace: dict[str, object] = {"__name__": "__main__"}
    imports = cells[1].source.replace(f'lab.start("{stem}")', "")  # which would change this process's output
    _execute(imports, namespace)
    for cell in cells:
        if "parameters" in cell.tags:
            _execute(labfile.override(cell.source, small), namespace)
    return namespace


def _execute(text: str, namespace: dict[str, object]) -> None:
    exec(compile(text, "<a lab's cell>", "exec"), namespace)
