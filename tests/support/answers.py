"""A solved lab's answers, to be used in tests of what its support does with them."""

from __future__ import annotations

import importlib
import os

from authoring import generate
from labkit import labfile


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
    # Which would change this process's output.
    imports = cells[1].source.replace(f'lab.start("{stem}")', "")
    _execute(imports, namespace)
    for cell in cells:
        if "parameters" in cell.tags:
            _execute(labfile.override(cell.source, small), namespace)
    return namespace


def _execute(text: str, namespace: dict[str, object]) -> None:
    exec(compile(text, "<a lab's cell>", "exec"), namespace)
