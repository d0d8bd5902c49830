"""Concept figures: one module per lab, labNN.py; the function `step` in lab40.py draws
notebooks/figures/40_step.svg.

A function takes nothing and returns a Canvas. The figure is 100 units wide, x to the right and y
upward, and a notebook shows it 9 inches wide. Fills differ in lightness or hatching, so that they
can be told apart in gray; the background is white, also in JupyterLab's dark theme.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from importlib import import_module
from inspect import getmembers, isfunction
from pathlib import Path
from pkgutil import iter_modules

from authoring.figures.canvas import FILLS, Canvas

__all__ = ["FILLS", "Canvas", "drawn", "write"]

FOLDER = "notebooks/figures"


def drawn(labs: Collection[str]) -> Iterator[tuple[str, Canvas, str]]:
    """File name, canvas and SVG text of each figure of these labs (two digits each).

    The text is the same each time.
    """
    for module in iter_modules(__path__):
        number = module.name.removeprefix("lab")
        if module.name != f"lab{number}" or number not in labs:
            continue
        page = import_module(f"{__name__}.{module.name}")
        for name, draw in getmembers(page, isfunction):
            if draw.__module__ == page.__name__ and not name.startswith("_"):
                canvas = draw()
                file = f"{number}_{name}.svg"
                yield file, canvas, _svg(canvas, file)


def write(root: Path, labs: Collection[str], check: bool = False) -> list[str]:
    """Write these labs' figures that are not up to date, remove what no function draws any more,
    and return the paths of both; with `check`, change nothing."""
    folder = root / FOLDER
    stale = []
    known = set()
    for name, _, text in drawn(labs):
        known.add(name)
        file = folder / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(f"{FOLDER}/{name}")
        if not check:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for file in sorted(folder.glob("[0-9][0-9]_*.svg")):
        if file.name[:2] in labs and file.name not in known:
            stale.append(f"{FOLDER}/{file.name}")
            if not check:
                file.unlink()
    return stale


def _svg(canvas: Canvas, name: str) -> str:
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        canvas.figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())
