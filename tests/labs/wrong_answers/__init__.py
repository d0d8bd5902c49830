"""Wrong answers, each with a phrase that its rejection must contain, and right ones written in
another way.

NN_name.py holds `SMALL` (parameters of the tests' runs), `WRONG`, a list of Wrong, at least three
for each exercise, and `RIGHT`, a list of Right; tests/labs/visit.py tries them. Both stand under
`# fmt: off`: head, edit and phrase, in as few lines as hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHORTER = 0.1  # of the patience that other answers get
LEAST = 3.0  # seconds: ranks need some time to come to the place where they hang


@dataclass(frozen=True)
class Right:
    """Another way to write the answer of `exercise`: each `old` (found exactly once) becomes its
    `new`.

    `old` and `new` are texts, or lists of equal length. `way` says what is different.
    """

    exercise: str
    way: str
    old: str | list[str]
    new: str | list[str]

    def edits(self) -> list[tuple[str, str]]:
        """(old, new) pairs."""
        if isinstance(self.old, str) and isinstance(self.new, str):
            return [(self.old, self.new)]
        return list(zip(self.old, self.new, strict=True))

    def edited(self, answers: Mapping[int, str]) -> dict[int, str]:
        """Cell -> text of an answer's cells with the change in them. ValueError where it does not
        fit."""
        texts = dict(answers)
        for old, new in self.edits():
            places = [position for position, text in texts.items() if old in text]
            count = sum(text.count(old) for text in texts.values())
            if count != 1:
                raise ValueError(f"the answer holds {old!r} {count} times, not once")
            texts[places[0]] = texts[places[0]].replace(old, new)
        return texts


@dataclass(frozen=True)
class Wrong:
    """One mistake: in the answer of `exercise`, each `old` becomes its `new`, as in Right.

    `says`: a phrase of the check's rejection. `hangs`: the ranks never end. The lab's parameter
    `patience`, the seconds that its checks wait for an end, is then SHORTER for this answer, so
    that nobody waits for it in vain.
    """

    exercise: str
    mistake: str
    old: str | list[str]
    new: str | list[str]
    says: str
    hangs: bool = False

    def patience(self, seconds: float) -> float:
        """How long a check waits for the end of this answer, where it waits `seconds` for that of
        others."""
        return min(seconds, max(LEAST, SHORTER * seconds)) if self.hangs else seconds

    edits = Right.edits
    edited = Right.edited
