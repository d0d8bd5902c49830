"""`with check("23.1"):` around expectations: what is stored when they hold, and said when they do not."""

from __future__ import annotations

import re
import traceback

from labkit import journal, launch, world
from labkit.checks import expectations, hints, progress
from labkit.errors import CheckFailed, LabError

_STUB = re.compile(r"exercise (\d\d\.\d+): ")


class check:
    """`with check("23.1"):` around expectations. Prints ✓ and stores it, or raises CheckFailed with ✗.

    Under a launcher every rank checks, rank 0 prints and stores. A check without a single expectation fails.
    """

    def __init__(self, exercise: str):
        self.exercise = hints.exercise(exercise)

    def __enter__(self) -> check:
        self._before = expectations.looked_at()
        return self

    def __exit__(self, kind, error, trace) -> None:
        number = self.exercise.number
        if error is None and expectations.looked_at() == self._before:
            error = CheckFailed("This check looked at nothing: it passed no expect(…), so it proves nothing.")
        if error is None:
            _store_pass(number)
            if world.is_root():
                print(f"✓ {number}  {self.exercise.title}")
            return
        if not isinstance(error, (Exception, SystemExit)):  # Ctrl-C is nobody's mistake
            return
        said = sentence(number, error)
        kept = progress.update(number, lambda entry: entry.update(tries=entry["tries"] + 1))
        if kept:
            journal.note("failed", exercise=number, tries=kept["tries"], said=said)
        help_line = hints.after_failure(number)
        text = f"✗ {number}  {said}"
        raise CheckFailed(f"{text}\n        {help_line}" if help_line else text) from None

    @staticmethod
    def case(words: str):
        """`with check.case("with 4 ranks, root 1"):` an error or a hang inside of the block says that."""
        return launch.case(words)

    @staticmethod
    def progress() -> dict[str, dict]:
        """Exercise -> what is stored of it: passed (time or None), tries, hints, predictions."""
        return progress.read()


def _store_pass(number: str) -> None:
    def passed(entry: dict) -> None:
        entry["tries"] += 1
        entry["passed"] = entry["passed"] or progress.now()

    kept = progress.update(number, passed)
    if kept:
        journal.note("passed", exercise=number, tries=kept["tries"])


def sentence(number: str, error: BaseException) -> str:
    """What the learner reads of an error inside a check."""
    kind = getattr(error, "kind", "") or type(error).__name__
    stub = _STUB.search(str(error)) if kind == "NotImplementedError" else None
    if stub and stub[1] == number:
        return (
            "not solved yet. Write your code in place of `raise NotImplementedError(…)`, "
            "run that cell, then this one."
        )
    if stub:
        return f"not solved yet: this needs exercise {stub[1]}, which is not solved. Solve it first."
    if isinstance(error, LabError):
        return str(error)
    if isinstance(error, SystemExit):
        return "Your code called exit(). A function of a lab returns its result, or raises an error."
    case = launch.case_of(error)
    subject = f"{_capital(case)}: " if case else ""
    frames = _frames(error)
    if launch.in_check(frames):
        return f"{subject}{_capital(launch.of_check(kind, str(error)))}"
    return f"{subject}{kind}: {error}{_learners_line(error, frames)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _frames(error: BaseException) -> list[launch.Frame]:
    return [
        launch.Frame(frame.filename, frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
    ]


def _learners_line(error: BaseException, frames: list[launch.Frame]) -> str:
    """` (line 3 in shard: return data[…])`: the innermost line that is not of a library."""
    frame = launch.innermost(frames)
    if isinstance(error, SyntaxError) or frame is None:
        return ""
    if frame.function == "<module>":  # the check's own cell: what is wrong there came from the learner
        none = launch.because_of_none(type(error).__name__, str(error))
        return f". {none}" if none else ""
    return f"  ({frame.place()})"
