"""Notebooks and percent scripts from cells. The same cells always give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from labkit.copies import FILTERS, METADATA, digest

from authoring.cell import Cell

_UNREAD = re.compile(r"\bneed not be read\b|^You need not read this cell\b", re.IGNORECASE)
_TASK = re.compile(r"\basked\b", re.IGNORECASE)


def is_folded(cell: Cell) -> bool:
    """Does JupyterLab show a bar in place of the code? Where the first comment says: need not be read.

    Not where it also says what is asked: a learner reads that.
    """
    if cell.kind != "code":
        return False
    first = []
    for line in cell.source.splitlines():
        if not line.startswith("#"):
            break
        first.append(line.lstrip("# "))
    comment = " ".join(first)
    return bool(_UNREAD.search(comment)) and not _TASK.search(comment)


def notebook(stem: str, cells: Iterable[Cell], script: str | None = None):
    """The notebook of these cells: ids from positions, fingerprints that tell whether someone edited it."""
    from nbformat import v4

    make = {"markdown": v4.new_markdown_cell, "code": v4.new_code_cell}
    made = []
    for number, cell in enumerate(cells, 1):
        metadata: dict[str, object] = {"tags": list(cell.tags)} if cell.tags else {}
        if is_folded(cell):
            metadata["jupyter"] = {"source_hidden": True}
        made.append(make[cell.kind](cell.source, id=f"cell-{number:02d}", metadata=metadata))
    origin = {"lab": stem, "cells": {cell.id: digest(cell.source) for cell in made}}
    if script is not None:
        origin["script"] = digest(script)
    return v4.new_notebook(cells=made, metadata={**METADATA, "labkit": origin})


def script_text(cells: Iterable[Cell]) -> str:
    """The percent script of these cells, as JupyterLab's pairing would save it."""
    import jupytext

    plain = notebook("", cells)
    plain.metadata = {"jupytext": FILTERS}
    return jupytext.writes(plain, fmt="py:percent")
