"""`check("23.1", reduce_scatter)`: what is stored when its expectations hold, and said when they do
not."""

from __future__ import annotations

import dis
import re
import sys
import traceback
from collections.abc import Callable, Sequence

from labkit import launch, world
from labkit.checks import expectations, hints, modules, progress
from labkit.errors import CheckFailed, LabError

_STUB = re.compile(r"exercise (\d\d\.\d+): ")


class Check:
    """`check("23.1", reduce_scatter)` tries your answer: ✓ and it is stored, or ✗ and what was
    wrong.

    What it tries is a function in support/lab23.py; `check.show("23.1")` shows it.
    """

    def __call__(self, exercise: str, *answers) -> None:
        """Try `answers` with the exercise's function: print ✓ and store it, or raise CheckFailed
        with ✗.

        Under a launcher every rank checks, rank 0 prints and stores. A check without a single
        expectation fails.
        """
        known = hints.exercise(exercise)
        function = modules.find(exercise)
        before = expectations.looked_at()
        try:
            given = modules.arguments(function, answers, sys._getframe(1).f_globals)
            _refuse_stubs(given)
            function(*given)
            if expectations.looked_at() == before:
                raise CheckFailed(
                    "This check looked at nothing: it passed no expect(…), so it proves nothing."
                )
        except (Exception, SystemExit) as error:  # Ctrl-C is nobody's mistake
            raise _failed(known.number, error) from None
        progress.note("passed", known.number)
        if world.is_root():
            print(f"✓ {known.number}  {known.title}")

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
        """`with check.case("with 4 ranks, root 1"):` what is wrong inside of the block begins with
        that."""
        return launch.case(words)


check = Check()


def _refuse_stubs(given: Sequence[object]) -> None:
    """NotImplementedError for a function that still raises it, before ranks are started to find
    that out."""
    for value in given:
        for function in vars(value).values() if isinstance(value, type) else (value,):
            code = getattr(function, "__code__", None)
            if code is None or "NotImplementedError" not in code.co_names:
                continue
            # What follows a `return` is not among them.
            for instruction in dis.get_instructions(code):
                if isinstance(instruction.argval, str) and _STUB.match(instruction.argval):
                    raise NotImplementedError(instruction.argval)


def _failed(number: str, error: BaseException) -> CheckFailed:
    """The error that the learner reads; the try is stored."""
    said = sentence(number, error)
    progress.note("failed", number, said=launch.without_code(said))
    help_line = hints.after_failure(number)
    text = f"✗ {number}  {said}"
    return CheckFailed(f"{text}\n        {help_line}" if help_line else text)


def sentence(number: str, error: BaseException) -> str:
    """What the learner reads of an error inside a check."""
    kind = getattr(error, "kind", "") or type(error).__name__
    stub = _STUB.search(str(error)) if kind == "NotImplementedError" else None
    if stub and stub[1] == number:
        then = (
            "run that cell, then this one"
            if world.in_kernel()
            else "save the script, and start it again"
        )
        return (
            f"not solved yet. Write your code in place of `raise NotImplementedError(…)`, {then}."
        )
    if stub:
        return (
            f"not solved yet: this needs exercise {stub[1]}, which is not solved. Solve it first."
        )
    case = launch.case_of(error)
    subject = f"{_capital(case)}: " if case else ""
    if isinstance(error, LabError):
        return f"{subject}{error}"
    if isinstance(error, SystemExit):
        return (
            "Your code called exit(). A function of a lab returns its result, or raises an error."
        )
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
    return f"  ({frame.place()})"
