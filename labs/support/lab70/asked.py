"""Was this process asked to stop? A signal sets a flag, and nothing else: it may come within any line."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def listening(number: int = signal.SIGUSR1) -> Iterator[Callable[[], bool]]:
    """While the block runs, yields a function that says whether signal `number` has come since."""
    heard: list[int] = []
    before = signal.signal(number, lambda which, frame: heard.append(which))
    try:
        yield lambda: bool(heard)
    finally:
        signal.signal(number, before)
