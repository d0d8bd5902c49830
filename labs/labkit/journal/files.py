"""The learner's own journal, home()/journal.jsonl: one line an event, readable by this user alone.

It is only ever appended to. At LIMIT bytes it becomes journal.old.jsonl, and a new one begins: two files at
most, however long somebody works.
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit import jsonl, paths
from labkit.errors import LabError

LIMIT = 1_000_000  # bytes; an event is about 200


def path() -> Path:
    """The journal."""
    return paths.home() / "journal.jsonl"


@contextmanager
def alone() -> Iterator[None]:
    """Alone among all processes of this learner, as long as this is open.

    Raises LabError where no lock can be made.
    """
    lock = paths.home() / "journal.lock"
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LabError(f"{lock} cannot be written ({error.strerror}).") from None
    try:
        with jsonl.locked(handle, fcntl.LOCK_EX):
            yield
    finally:
        os.close(handle)


def append(event: dict) -> None:
    """One more line. Raises LabError where it cannot be written."""
    file = path()
    if file.exists() and file.stat().st_size > LIMIT:
        os.replace(file, _earlier())
    jsonl.append(file, event, "journal", mode=0o600)


def read() -> list[dict]:
    """All events that are kept, oldest first; a line that a killed writer broke is passed over."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [event for file in (_earlier(), path()) for event in jsonl.read(file, _is_event)]


def _earlier() -> Path:
    return path().with_name("journal.old.jsonl")


def _is_event(entry: dict) -> bool:
    return "event" in entry and "at" in entry


def so_far() -> dict[str, dict]:
    """Exercise -> what the learner's progress says of it; {} where there is none that can be read."""
    try:
        stored = json.loads((paths.home() / "progress.json").read_text(encoding="utf-8"))["exercises"]
        return {number: entry for number, entry in stored.items() if isinstance(entry, dict)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
