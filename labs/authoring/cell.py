"""One cell of a lab's source, and what the rules of form need to know of the lab."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from labkit.errors import LabError


@dataclass(frozen=True)
class Cell:
    """One cell. `line` is the number of its first line of text in the source file."""

    kind: str
    source: str
    line: int
    tags: tuple[str, ...] = ()


class Source(Protocol):
    """What the rules need to know of a lab: authoring.source.Lab has it."""

    path: Path
    stem: str
    cells: list[Cell]

    def wrong(self, line: int, sentence: str) -> LabError: ...

    def tree(self, cell: Cell) -> ast.Module: ...
