"""Where the checks of a lab are: functions in support/labNN.py, or in support/labNN/checks.py.

    @check.exercise("23.1")
    def ring_reduce_scatter(reduce_scatter, patience):
        "What it tries, in one sentence."

The first parameters get what the lab's line gives, as `check("23.1", reduce_scatter)`; the others
get what the lab calls by their names, as its `patience`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

from labkit import paths
from labkit.errors import CheckFailed, LabError


def of(number: str) -> Callable[[Callable], Callable]:
    """The decorator that says which exercise a function tries; the function stays as it is."""

    def mark(function: Callable) -> Callable:
        function.exercise = number
        return function

    return mark


def find(number: str) -> Callable:
    """The function that tries the answer of an exercise."""
    module = _module(number)
    for function in vars(module).values():
        if getattr(function, "exercise", None) == number:
            return function
    raise LabError(f"{paths.shown(module.__file__)} has no function for exercise {number}.")


def _module(number: str) -> ModuleType:
    module = importlib.import_module(f"support.lab{number[:2]}")
    return (
        importlib.import_module(f"{module.__name__}.checks")
        if hasattr(module, "__path__")
        else module
    )


def arguments(function: Callable, answers: tuple, names: Mapping[str, object]) -> list:
    """What to call `function` with: the answers, then what `names` has under the names of the
    others."""
    others = list(inspect.signature(function).parameters)[len(answers) :]
    missing = [name for name in others if name not in names]
    if missing:
        raise CheckFailed(f"There is no `{missing[0]}` yet: run the cells above this one first.")
    return [*answers, *(names[name] for name in others)]


def source(number: str) -> str:
    """The text of the function that tries an exercise, below its place."""
    function = find(number)
    line = inspect.getsourcelines(function)[1]
    return f"{paths.shown(inspect.getsourcefile(function))}:{line}\n{inspect.getsource(function)}"
