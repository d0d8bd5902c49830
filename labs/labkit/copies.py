"""A learner's notebook and script hold the same cells: before a job, the newer is written to the other.

JupyterLab keeps the two in step (jupytext); an editor, `git pull` or a copied file does not. What is
overwritten is set aside first.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
from pathlib import Path

from authoring import learner, notebooks

from labkit.errors import LabError


def sync(stem: str, root: Path) -> str | None:
    """Make labs/STEM.py and notebooks/STEM.ipynb hold the same cells; a sentence if they did not.

    Raises LabError when both are missing, or when one cannot be read or written.
    """
    script, book = f"labs/{stem}.py", f"notebooks/{stem}.ipynb"
    there = [name for name in (script, book) if (root / name).exists()]
    if not there:
        raise LabError(f"{script} is missing: `make reset LAB={stem[:2]}` writes it.")
    if len(there) == 2 and _alike((root / script).read_text(encoding="utf-8"), root / book):
        return None
    newer = max(there, key=lambda name: ((root / name).stat().st_mtime_ns, name == book))
    older = book if newer == script else script
    text = _script_of(root / book) if newer == book else _book_of(root / script, root / book)
    if text is None:
        return None
    try:
        if older in there:
            learner.set_aside(root, [older])
        _replace(root / older, text)
    except OSError as error:
        raise LabError(
            f"{newer} is newer than {older}, which cannot be written ({error.strerror})."
        ) from None
    if older not in there:
        return f"{older} was missing: it now holds the cells of {newer}."
    return f"{newer} is newer than {older} and wins: {older} now holds its cells."


def _alike(script: str, book: Path) -> bool:
    """Do the two hold the same text, cell by cell? Seen without jupytext, whose import takes a second."""
    cells = []
    for part in re.split(r"(?m)^(?=# %%)", script)[1:]:
        head, _, body = part.partition("\n")
        cells.append((re.sub(r"(?m)^# ?", "", body) if "[markdown]" in head else body).strip())
    return cells == [_source(cell).strip() for cell in _read(book)["cells"]]


def _read(book: Path) -> dict:
    try:
        found = json.loads(book.read_text(encoding="utf-8"))
        return found | {"cells": list(found["cells"])}
    except (OSError, ValueError, KeyError, TypeError):
        number = book.stem[:2]
        raise LabError(f"{book.name} is no notebook: `make reset LAB={number}` begins it afresh.") from None


def _source(cell: dict) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def _keys(cells) -> list[tuple[str, str]]:
    return [(cell["cell_type"], cell["source"].strip()) for cell in cells]


def _script_of(book: Path) -> str | None:
    """The notebook as a percent script, as JupyterLab would save it; None if the script is that already."""
    import jupytext
    import nbformat

    _read(book)
    cells = nbformat.read(book, as_version=4)
    script = book.parents[1] / "labs" / f"{book.stem}.py"
    if script.exists() and _keys(jupytext.read(script, fmt="py:percent").cells) == _keys(cells.cells):
        return None
    cells.metadata = {"jupytext": notebooks.FILTERS}
    return jupytext.writes(cells, fmt="py:percent")


def _book_of(script: Path, book: Path) -> str | None:
    """The notebook with the script's cells; unchanged ones keep their output. None if all are unchanged."""
    import jupytext
    import nbformat

    new = jupytext.read(script, fmt="py:percent").cells
    if not book.exists():
        return notebooks.notebook_text(nbformat.v4.new_notebook(cells=new, metadata=notebooks.METADATA))
    _read(book)
    old = nbformat.read(book, as_version=4)
    before, after = _keys(old.cells), _keys(new)
    if before == after:
        return None
    cells = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        cells += old.cells[i:j] if kind == "equal" else _changed(old.cells[i:j], new[k:m])
    old.cells = cells
    return notebooks.notebook_text(old)


def _changed(old: list, new: list) -> list:
    """The new cells, each with the id of the one in whose place it stands; outputs of other text are gone."""
    for position, cell in enumerate(new):
        if position < len(old):
            cell.id = old[position].id
    return new


def _replace(path: Path, text: str) -> None:
    """Write the file in one step: a job that reads it at this moment finds the old or the new one."""
    path.parent.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with open(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(name, path.stat().st_mode if path.exists() else 0o644)
    os.replace(name, path)
