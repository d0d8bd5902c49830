"""`check("23.1", reduce_scatter)`: what is stored when its expectations hold, and said when they do not.

Old form, side by side: `with check("23.1"):` around expectations that stand in the lab itself.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable

from labkit import journal, launch, world
from labkit.checks import expectations, hints, modules, progress
from labkit.errors import CheckFailed, LabError

_STUB = re.compile(r"exercise (\d\d\.\d+): ")


class Check:
    """`check("23.1", reduce_scatter)` tries your answer: ✓ and it is stored, or ✗ and what was wrong.

    What it tries is a function in support/lab23.py; `check.show("23.1")` shows it.
    """

    def __call__(self, exercise: str, *answers) -> _Block | None:
        """Try `answers` with the exercise's function. Without answers: a block for expectations."""
        if not answers:
            return _Block(exercise)
        function = modules.find(exercise)
        with _Block(exercise, in_module=True):
            function(*modules.arguments(function, answers, sys._getframe(1).f_globals))
        return None

    @staticmethod
    def exercise(number: str) -> Callable[[Callable], Callable]:
        """`@check.exercise("23.1")` above the function that tries the answer of 23.1."""
        return modules.of(number)

    @staticmethod
    def show(exercise: str) -> None:
        """Print what the check of an exercise tries, and where that is written."""
        print(modules.source(exercise))

    @staticmethod
    def case(words: str):
        """`with check.case("with 4 ranks, root 1"):` what is wrong inside of the block begins with that."""
        return launch.case(words)

    @staticmethod
    def progress() -> dict[str, dict]:
        """Exercise -> what is stored of it: passed (time or None), tries, hints, predictions."""
        return progress.read()


check = Check()


class _Block:
    """Prints ✓ and stores it, or raises CheckFailed with ✗.

    Under a launcher every rank checks, rank 0 prints and stores. A check without a single expectation fails.
    in_module: the check is a function of the lab's module, where a case begins the sentence.
    """

    def __init__(self, exercise: str, in_module: bool = False):
        self.exercise = hints.exercise(exercise)
        self._in_module = in_module

    def __enter__(self) -> _Block:
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
        said = sentence(number, error, with_case=self._in_module)
        kept = progress.update(number, lambda entry: entry.update(tries=entry["tries"] + 1))
        if kept:
            journal.note("failed", exercise=number, tries=kept["tries"], said=said)
        help_line = hints.after_failure(number)
        text = f"✗ {number}  {said}"
        raise CheckFailed(f"{text}\n        {help_line}" if help_line else text) from None


def _store_pass(number: str) -> None:
    def passed(entry: dict) -> None:
        entry["tries"] += 1
        entry["passed"] = entry["passed"] or progress.now()

    kept = progress.update(number, passed)
    if kept:
        journal.note("passed", exercise=number, tries=kept["tries"])


def sentence(number: str, error: BaseException, with_case: bool = False) -> str:
    """What the learner reads of an error inside a check. with_case: expectations do not name the case."""
    kind = getattr(error, "kind", "") or type(error).__name__
    stub = _STUB.search(str(error)) if kind == "NotImplementedError" else None
    if stub and stub[1] == number:
        then = (
            "run that cell, then this one" if hints.in_notebook() else "save the script, and start it again"
        )
        return f"not solved yet. Write your code in place of `raise NotImplementedError(…)`, {then}."
    if stub:
        return f"not solved yet: this needs exercise {stub[1]}, which is not solved. Solve it first."
    case = launch.case_of(error)
    subject = f"{_capital(case)}: " if case else ""
    if isinstance(error, LabError):
        return f"{subject}{error}" if with_case else str(error)
    if isinstance(error, SystemExit):
        return "Your code called exit(). A function of a lab returns its result, or raises an error."
    frames = _frames(error)
    if launch.in_check(frames):
        return f"{subject}{_capital(launch.of_check(kind, str(error)))}"
    return f"{subject}{kind}: {error}{_learners_line(error, frames)}"


def _capital(text: str) -> str:
    """The text as a sentence begins; `p = 5` stays what it is."""
    return text if re.match(r"\w+ = ", text) else text[0].upper() + text[1:]


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
