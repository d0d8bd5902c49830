"""What each rank is given: its own copy of the arguments, as if it were a process of its own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from labkit.errors import LabError


class by_rank:
    """An argument of which rank r gets the r-th: `cluster.run(fn, by_rank(vectors))`."""

    def __init__(self, values: Sequence):
        if isinstance(values, str) or not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
            raise LabError(f"by_rank takes a list with one value per rank, not {type(values).__name__}.")
        self.values = values


def check(arguments: list, size: int) -> None:
    """An error where a by_rank does not hold one value for each of `size` ranks."""
    for one in arguments:
        if isinstance(one, by_rank) and len(one.values) != size:
            count = len(one.values)
            raise LabError(
                f"by_rank holds {count} value{'s' * (count != 1)}, but the cluster has {size} ranks."
            )


def own(args: tuple, kwargs: dict, rank: int) -> tuple[list, dict]:
    """Rank `rank`'s copies. What cannot change is not copied: numbers, text, read-only arrays."""
    mine = [_pick(one, rank) for one in args]
    more = {name: _pick(one, rank) for name, one in kwargs.items()}
    kept: dict[int, object] = {}  # id -> copy: an array that was given twice stays one array
    return [_copy(one, kept) for one in mine], {name: _copy(one, kept) for name, one in more.items()}


def _pick(value: object, rank: int) -> object:
    return value.values[rank] if isinstance(value, by_rank) else value


def _copy(value: object, kept: dict[int, object]) -> object:
    if value is None or isinstance(value, int | float | str | bytes | ModuleType) or _constant(value):
        return value
    if type(value) is np.ndarray and not value.dtype.hasobject:
        if id(value) not in kept:
            kept[id(value)] = value.copy()
        return kept[id(value)]
    try:
        return copy.deepcopy(value, kept)
    except Exception as error:
        raise LabError(
            f"An argument of type {type(value).__name__} cannot be copied, and every rank gets its own: "
            f"{error}. Make it inside the function."
        ) from error


def _constant(value: object) -> bool:
    return isinstance(value, np.ndarray) and not value.flags.writeable and value.base is None
