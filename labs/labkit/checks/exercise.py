"""`with check("23.1"):` around expectations: what is stored when they hold, and said when they do not."""

from __future__ import annotations

import linecache
import re
import traceback

from labkit import launch, world
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
        progress.update(number, lambda entry: entry.update(tries=entry["tries"] + 1))
        help_line = hints.after_failure(number)
        text = f"✗ {number}  {sentence(number, error)}"
        raise CheckFailed(f"{text}\n        {help_line}" if help_line else text) from None

    @staticmethod
    def progress() -> dict[str, dict]:
        """Exercise -> what is stored of it: passed (time or None), tries, hints, predictions."""
        return progress.read()


def _store_pass(number: str) -> None:
    def passed(entry: dict) -> None:
        entry["tries"] += 1
        entry["passed"] = entry["passed"] or progress.now()

    progress.update(number, passed)


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
    return f"{kind}: {error}{_learners_line(error)}"


def _learners_line(error: BaseException) -> str:
    """` (line 3 in shard: return data[…])`: the innermost line that is not of a library."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if launch.is_learners(frame.filename)]
    if isinstance(error, SyntaxError) or not own:
        return ""
    frame = own[-1]
    place = "this cell" if frame.name == "<module>" else frame.name
    code = (frame.line or linecache.getline(frame.filename, frame.lineno)).strip()
    return f"  (line {frame.lineno} in {place}: {code})" if code else f"  (line {frame.lineno} in {place})"
