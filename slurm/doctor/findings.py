"""The words of the site doctor: what a finding is, and how things are counted."""

from __future__ import annotations

from typing import NamedTuple

OK, NOTE, WRONG, UNCHECKED = "ok", "note", "WRONG", "unchecked"


class Finding(NamedTuple):
    """`status`: one of the four words above. `sentence`: what was found, and what to do if it is wrong."""

    status: str
    sentence: str


def some(counts: list[int], what: str) -> str:
    """ "4 GPUs", "1 node", "2 to 8 cores": sorted counts of a thing."""
    text = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{text} {what}{'s' * (counts[-1] != 1)}"


def nodes(count: int) -> str:
    """ "1 node", "2 nodes"."""
    return some([count], "node")
