"""`predict("23.1", name=value)`: guesses that are kept, recalled, and compared with what was
measured.

What was computed or counted is no measurement: `predict.right("23.1", name=value)` shows it as what
is right.
"""

from __future__ import annotations

import json

from labkit import journal, world
from labkit.checks import expectations, hints, progress
from labkit.errors import LabError


class Predict:
    """`predict("23.1", name=value, …)` keeps guesses; `.recall` returns them, `.compare` `.right`
    tell."""

    def __init__(self):
        # Exercise -> guesses of this process: what rank 0 stores is not yet visible to other ranks.
        self._made: dict[str, dict] = {}

    def __call__(self, exercise: str, **guesses) -> None:
        """Keep the guesses: numbers, words, tuples of them. One left as `...` is asked for in a
        line."""
        number = hints.exercise(exercise).number
        if not guesses:
            raise LabError(f'predict("{number}", name=value) needs at least one guess.')
        made = {name: _finite(name, value) for name, value in guesses.items() if value is not ...}
        self._made.setdefault(number, {}).update(made)
        if made:
            progress.note("guess", number, values=made)
        if world.is_root():
            for name, value in made.items():
                print(f"{number}  your prediction: {name} = {expectations.show(value)}")
            left = [name for name in guesses if name not in made]
            if left:
                names = ", ".join(left)
                print(
                    f"{number}  Your guess for {names} goes in place of `...`: a wrong one teaches"
                    " too."
                )

    def recall(self, exercise: str) -> dict:
        """The guesses made for an exercise, by name; {} if none."""
        number = hints.exercise(exercise).number
        return {**journal.entry(number)["predictions"], **self._made.get(number, {})}

    def compare(self, exercise: str, **measured) -> None:
        """Print each measured value beside the guess of that name, and their ratio."""
        self._show(exercise, "measured", measured)

    def right(self, exercise: str, **answers) -> None:
        """As compare, for answers that were computed or counted: they are right, and nobody
        measured them."""
        self._show(exercise, "right", answers)

    def _show(self, exercise: str, heading: str, values: dict) -> None:
        guesses = self.recall(exercise)
        if not world.is_root():
            return
        rows = [("", "yours", heading, f"yours / {heading}")]
        for name, value in values.items():
            median = getattr(value, "median", None)  # of a Measurement; arrays have a method
            value = _storable(name, value if median is None or callable(median) else median)
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
        return [_storable(name, item) for item in value]
    if isinstance(value, (int, float, str)):
        return value
    raise LabError(
        f"{name} is to be a number, a word or a tuple of them; this is {expectations.show(value)}."
    )


def _finite(name: str, guess):
    """A guess that can be kept: no number in it is inf or nan, which no measurement could meet."""
    kept = _storable(name, guess)
    try:
        json.dumps(kept, allow_nan=False)
    except ValueError:
        raise LabError(
            f"{name} must be a finite number or a word; this is {expectations.show(guess)}."
        ) from None
    return kept


def _ratio(guess, value) -> str:
    try:
        return f"{guess / value:.3g}"
    except (TypeError, ZeroDivisionError):
        return "" if guess is None else ("the same" if guess == value else "different")


predict = Predict()
