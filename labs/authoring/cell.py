"""One cell of a lab's source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One cell. `line` is the number of its first line of text in the source file."""

    kind: str
    source: str
    line: int
    tags: tuple[str, ...] = ()
