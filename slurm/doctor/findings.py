"""What the doctor of a site finds: sentences with a status, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OK, NOTE, WRONG, UNCHECKED = "ok", "note", "WRONG", "unchecked"


class Finding(NamedTuple):
    """`status`: one of the four words above. `sentence`: what was found, and what to do if it is
    wrong."""

    status: str
    sentence: str


def show(findings: Iterable[Finding]) -> int:
    """Print the findings, each as it comes. The number of those that are wrong."""
    wrong = 0
    for status, sentence in findings:
        indented = sentence.strip().replace("\n", "\n" + " " * 13)
        print(f"  {status:9}  {indented}", flush=True)
        wrong += status == WRONG
    return wrong
