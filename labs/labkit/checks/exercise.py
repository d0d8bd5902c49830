"""The exercise engine: `check`, `expect`, `hint`, `predict`. Lab 01 shows them first."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from pathlib import Path

from labkit import world
from labkit.checks import expectations, hints, progress
from labkit.checks.expectations import expect
from labkit.checks.hints import hint
from labkit.errors import CheckFailed, LabError

__all__ = ["check", "expect", "hint", "predict"]

_STUB = re.compile(r"exercise (\d\d\.\d+): ")
_NOT_THE_LEARNERS = (
    str(Path(__file__).parent),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)


class check:
    """`with check("23.1"):` around expectations. Prints ✓ and stores it, or raises CheckFailed with ✗.

    Under a launcher every rank checks, rank 0 prints and stores. A check without a single expectation fails.
    """

    def __init__(self, exercise: str):
        self.exercise = hints.exercise(exercise)

    def __enter__(self) -> check:
        self._before = expectations.count
        return self

    def __exit__(self, kind, error, trace) -> None:
        number = self.exercise.number
        if error is None and expectations.count == self._before:
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
        text = f"✗ {number}  {_sentence(number, error)}"
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


def _sentence(number: str, error: BaseException) -> str:
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
    own = [frame for frame in frames if not frame.filename.startswith((*_NOT_THE_LEARNERS, "<frozen"))]
    if isinstance(error, SyntaxError) or not own:
        return ""
    frame = own[-1]
    place = "this cell" if frame.name == "<module>" else frame.name
    code = (frame.line or linecache.getline(frame.filename, frame.lineno)).strip()
    return f"  (line {frame.lineno} in {place}: {code})" if code else f"  (line {frame.lineno} in {place})"


class Predict:
    """`predict("23.1", name=value, …)` keeps guesses. `.recall` returns them, `.compare` shows the truth."""

    def __init__(self):
        self._made: dict[
            str, dict
        ] = {}  # of this process: what rank 0 stores is not yet visible to other ranks

    def __call__(self, exercise: str, **guesses) -> None:
        """Keep the guesses: numbers, words, tuples of them. One left as `...` is asked for in a line."""
        number = hints.exercise(exercise).number
        if not guesses:
            raise LabError(f'predict("{number}", name=value) needs at least one guess.')
        made = {name: _storable(name, value) for name, value in guesses.items() if value is not ...}
        self._made.setdefault(number, {}).update(made)
        if made:
            progress.update(number, lambda entry: entry["predictions"].update(made))
        if world.is_root():
            for name, value in made.items():
                print(f"{number}  your prediction: {name} = {expectations.show(value)}")
            left = [name for name in guesses if name not in made]
            if left:
                names = ", ".join(left)
                print(f"{number}  Your guess for {names} goes in place of `...`: a wrong one teaches too.")

    def recall(self, exercise: str) -> dict:
        """The guesses made for an exercise, by name; {} if none."""
        number = hints.exercise(exercise).number
        return {**progress.entry(number)["predictions"], **self._made.get(number, {})}

    def compare(self, exercise: str, **measured) -> None:
        """Print each measured value beside the guess of that name, and their ratio."""
        guesses = self.recall(exercise)
        if not world.is_root():
            return
        rows = [("", "yours", "measured", "yours / measured")]
        for name, value in measured.items():
            value = _storable(name, getattr(value, "median", value))
            guess = guesses.get(name)
            rows.append(
                (
                    name,
                    "none" if guess is None else expectations.show(guess),
                    expectations.show(value),
                    _ratio(guess, value),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows:
            print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _storable(name: str, value):
    value = expectations.plain(value)
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_storable(name, one) for one in value]
    if isinstance(value, (int, float, str)):
        return value
    raise LabError(
        f"{name} is to be a number, a word or a tuple of them; this is {expectations.show(value)}."
    )


def _ratio(guess, value) -> str:
    try:
        return f"{guess / value:.3g}"
    except (TypeError, ZeroDivisionError):
        return "" if guess is None else ("the same" if guess == value else "different")


predict = Predict()
