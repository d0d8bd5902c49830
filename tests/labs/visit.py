"""A learner's way through a lab: `python -m tests.labs.visit STEM FOLDER`, one kernel from top to bottom.

At each exercise the stub comes first, as in the learner's notebook: its check must fail. Then the call that
the failure recommends, in a cell of its own; then the answer and the check again, as in the solved notebook.
Papermill executes it all with the tests' parameters; FOLDER/out.ipynb keeps what came of it.

The ranks are warm (see wrong_answers/warm), but for COLD: most of a lab's time here would be spent importing
TensorFlow or PyTorch once more for each rank of each cell. Each lab's ranks start cold where its script and
its batch job are tested, and in the browser.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import papermill
from authoring import generate, notebooks
from authoring.cell import Cell
from authoring.cells import learner_cells, solved_cells
from authoring.source import Lab
from labkit import copies

FAILS = "raises-exception"  # nbclient goes on after an error in a cell with this tag
SECONDS = 900  # to end a cell that hangs
COLD = ("20_ranks_and_messages", "21_collectives")


def way(lab: Lab) -> list[Cell]:
    """The solved lab's cells; before each answer its stub, the check that fails, the recommended hint."""
    learners, solved = learner_cells(lab), solved_cells(lab)
    first_answers = {exercise.answers[0]: exercise for exercise in lab.exercises}
    cells: list[Cell] = []
    for position, cell in enumerate(solved):
        exercise = first_answers.get(position)
        if exercise is not None:
            span = learners[position : exercise.check + 1]
            code = [stub for stub in span if stub.kind == "code"]
            *stubs, check = code
            cells += [*stubs, Cell("code", check.source, check.line, (FAILS, f"unsolved-{exercise.number}"))]
            cells.append(Cell("code", f'hint("{exercise.number}")', check.line, (f"hint-{exercise.number}",)))
        cells.append(cell)
    return cells


def warming(folder: str) -> Cell:
    """The cell that makes the ranks of the cells below it warm; their servers' sockets are in folder."""
    lines = (
        "from tests.labs.wrong_answers import warm",
        f"warm_ranks = warm.ranks({folder!r})",
        "warm_ranks.__enter__()",
    )
    return Cell("code", "\n".join(lines), 1)


def main(stem: str, folder: str) -> None:
    """Execute the lab's way."""
    # Papermill kills the kernel in the end: what it left behind is removed here.
    with tempfile.TemporaryDirectory(prefix="warm-") as sockets:
        execute(stem, folder, sockets)


def execute(stem: str, folder: str, sockets: str) -> None:
    """Write the notebook of the way, and execute it."""
    lab = generate.load(stem)
    cells = way(lab)
    if stem not in COLD:
        cells.insert(0, warming(sockets))
    book = notebooks.notebook(stem, cells)
    made = Path(folder) / "way.ipynb"
    made.write_text(copies.notebook_text(book), encoding="utf-8")
    small = import_module(f"tests.labs.wrong_answers.{stem}").SMALL
    # The first cell imports from the tests.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(lab.path.parents[1]), os.environ.get("PYTHONPATH", "")])
    # Papermill goes on after the refusals, as their cells are tagged, and complains of them at the end. What
    # else went wrong is seen in the notebook.
    with contextlib.suppress(papermill.PapermillExecutionError):
        papermill.execute_notebook(
            made,
            Path(folder) / "out.ipynb",
            parameters=json.loads(json.dumps(small)),  # tuples as lists, as from a command line
            cwd=lab.path.parents[1] / "notebooks",
            kernel_name="python3",
            progress_bar=False,
            execution_timeout=SECONDS,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
