"""A solved lab's answers, to be used in tests of what its support does with them."""

from __future__ import annotations

import importlib
import os

from authoring import generate
from labkit import labfile


def solved(stem: str, *more: str) -> dict[str, object]:
    """By name what the solved lab's imports, its parameters, as small as for the wrong answers, the
    code cells with a text of `more` and the answers define."""
    lab = generate.load(stem)
    cells = generate.solved_cells(lab)
    small = importlib.import_module(f"tests.labs.wrong_answers.{stem}").SMALL
    os.environ["LABKIT_LAB"] = stem  # the fixture of all tests takes it away again
    # lab.start would change this process's output.
    texts = [cells[1].source.replace(f'lab.start("{stem}")', "")]
    texts += [labfile.override(cell.source, small) for cell in cells if "parameters" in cell.tags]
    answers = {position for exercise in lab.exercises for position in exercise.answers}
    for position, cell in enumerate(cells):
        named = cell.kind == "code" and any(text in cell.source for text in more)
        texts += [cell.source] if position in answers or named else []
    namespace: dict[str, object] = {"__name__": "__main__"}
    for text in texts:
        exec(compile(text, "<a lab's cell>", "exec"), namespace)
    return namespace
