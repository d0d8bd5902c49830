"""Other answers than the solution's, put before a lab's own check: what is right in another way passes."""

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
    small = importlib.import_module(f"tests.labs.wrong_answers.{stem}").SMALL
    cells = generate.solved_cells(lab)
    (asked,) = [candidate for candidate in lab.exercises if candidate.number == exercise]
    os.environ["LABKIT_LAB"] = stem  # the fixture of all tests takes it away again
    namespace: dict[str, object] = {"__name__": "__main__"}
    imports = cells[1].source.replace(f'lab.start("{stem}")', "")  # which would change this process's output
    _execute(imports, namespace)
    for cell in cells:
        if "parameters" in cell.tags:
            _execute(labfile.override(cell.source, small), namespace)
    for position in range(asked.answers[0], asked.check + 1):
        if cells[position].kind == "code":
            _execute(cells[position].source, namespace)
        if position == asked.answers[-1]:
            namespace |= names


def _execute(text: str, namespace: dict[str, object]) -> None:
    exec(compile(text, "<a lab's cell>", "exec"), namespace)
