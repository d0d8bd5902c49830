"""What a job of a training in several lives is to do, and the files in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cloudpickle

from support.lab70.lives import Answers

WHOLE = "without_a_break.json"
_ORDER = "order"


class Order(NamedTuple):
    """What a job is to do. pause: seconds that a step takes longer, in the lives that will be interrupted."""

    answers: Answers
    last: int
    every: int
    pause: float
    interruptions: int


def leave(order: Order, folder: Path) -> None:
    """Put the order where the job finds it."""
    (folder / _ORDER).write_bytes(cloudpickle.dumps(order))


def find(folder: Path) -> Order:
    """The order that was left there."""
    return cloudpickle.loads((folder / _ORDER).read_bytes())
