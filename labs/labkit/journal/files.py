"""The learner's own journal, home()/journal.jsonl: one line an event, readable by this user alone.

It is only ever appended to. At LIMIT bytes it becomes journal.old.jsonl, and a new one begins: two files at
most, however long somebody works.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit import jsonl, paths
from labkit.errors import LabError

LIMIT = 1_000_000  # bytes; an event is about 200
LONGEST = 200  # characters of a sentence
# What a check adds about the learner's own line: `  (line 3 in shard: return data[…])`.
_OWN_LINE = re.compile(r"\s{2}\(line \d+ (?:in|of) .*\)\s*$")


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


def event(kind: str, said: str = "", **fields) -> dict:
    """The line of an event of this moment, as it is kept and shared; see `journal.note`."""
    line = {"at": int(time.time()), "event": kind, **fields}
    return line | {"said": _plain(said)} if said else line


def _plain(sentence: str) -> str:
    """The first line of a sentence, at most LONGEST characters, as it may leave the learner's own folder."""
    text = _OWN_LINE.sub("", sentence.strip().split("\n")[0])
    for folder, shown in ((paths.home(), "…"), (paths.root(), "…"), (Path.home(), "~")):
        if len(folder.parts) > 1:
            text = text.replace(str(folder), shown)
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


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
    return "event" in entry and isinstance(entry.get("at"), (int, float))
