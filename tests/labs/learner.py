"""A learner's first minutes with a lab: `python -m tests.labs.learner STEM FOLDER`.

Runs the learner's notebook up to the first check that fails, then, in the next cell, the call that the
failure recommends. FOLDER/out.ipynb keeps what came of it.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import nbformat
from labkit import labfile, paths
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SECONDS = 300  # to end a cell that hangs


def main(stem: str, folder: str) -> None:
    """Execute the cells; an error is kept in the notebook, as a learner would see it."""
    path = paths.root() / "notebooks" / f"{stem}.ipynb"
    book = nbformat.read(path, as_version=4)
    small = import_module(f"tests.labs.wrong_answers.{stem}").SMALL
    for cell in book.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = labfile.override(cell.source, small)
    client = NotebookClient(book, timeout=SECONDS, resources={"metadata": {"path": str(path.parent)}})
    with client.setup_kernel():
        recommended = _first_recommendation(client, book)
        if recommended:
            book.cells.append(nbformat.v4.new_code_cell(recommended, id="as-recommended"))
            _execute(client, book, len(book.cells) - 1)
    nbformat.write(book, Path(folder) / "out.ipynb")


def _first_recommendation(client: NotebookClient, book) -> str | None:
    """Execute up to the first error; cells below it are dropped. The call that its text names, or None."""
    for position, cell in enumerate(book.cells):
        if cell.cell_type == "code" and not _execute(client, book, position):
            del book.cells[position + 1 :]
            text = "\n".join(cell.outputs[-1].traceback)
            found = re.search(r"hint\([^)]*\)", text)
            return found[0] if found else None
    return None


def _execute(client: NotebookClient, book, position: int) -> bool:
    """Whether the cell ran without an error."""
    try:
        client.execute_cell(book.cells[position], position)
    except CellExecutionError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
