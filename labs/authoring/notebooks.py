"""Notebooks and percent scripts from cells. The same cells always give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable

from labkit.copies import FILTERS, METADATA, digest

from authoring.cell import Cell


def notebook(stem: str, cells: Iterable[Cell], script: str | None = None):
    """The notebook of these cells: ids from positions, fingerprints that tell whether someone
    edited it."""
    from nbformat import v4

    make = {"markdown": v4.new_markdown_cell, "code": v4.new_code_cell}
    made = []
    for number, cell in enumerate(cells, 1):
        metadata = {"tags": list(cell.tags)} if cell.tags else {}
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
