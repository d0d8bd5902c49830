"""A piece of the training as an argument: was it called, and how often?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Counted:
    """Calls `piece` and returns what it returns. calls: how often that was."""

    def __init__(self, piece: Callable):
        self.piece = piece
        self.calls = 0

    def __call__(self, *arguments, **options):
        self.calls += 1
        return self.piece(*arguments, **options)


@contextmanager
def calls_of(name: str) -> Iterator[Counted]:
    """On a rank: the function hvd.<name> as a Counted, in its place while the block runs."""
    import horovod.torch as hvd

    own = getattr(hvd, name)
    counted = Counted(own)
    setattr(hvd, name, counted)
    try:
        yield counted
    finally:
        setattr(hvd, name, own)
