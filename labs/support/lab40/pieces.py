"""A piece of the training as an argument: was it called, and how often?"""

from __future__ import annotations

from collections.abc import Callable


class Counted:
    """Calls `piece` and returns what it returns. calls: how often that was."""

    def __init__(self, piece: Callable):
        self.piece = piece
        self.calls = 0

    def __call__(self, *arguments, **options):
        self.calls += 1
        return self.piece(*arguments, **options)
