"""The log of what a learner did: home()/events.jsonl, one line an event, readable by this user
alone.

It is only ever appended to; the learner's progress is what its lines add up to. Events are:

| event | fields besides `at`, seconds since 1970, and `event` |
|---|---|
| `start` | lab |
| `passed` | exercise, tries |
| `failed` | exercise, tries, said: what the check answered |
| `hint` | exercise, hints: how many were read so far |
| `guess` | exercise, values |
| `progress` | exercises: all that an earlier version had stored, which the log goes on from |
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit import jsonl, paths
from labkit.errors import LabError

LONGEST = 200  # characters of a sentence
# What a check adds about the learner's own line: `  (line 3 in shard)`. Where that still contains
# code, `  (line 3 in shard: return data[…])`, nobody can tell where the code ends.
_OWN_LINE = re.compile(r"\s*\(line \d+ (?:in|of) [^\s:()]+(?:\)|: .*)")
_CODE = re.compile(r"(\bline \d+ (?:in|of) [^\s:()]+): .*|\s*\bFile \".*")
_FIELDS = {
    "start": {"lab": str},
    "passed": {"exercise": str},
    "failed": {"exercise": str},
    "hint": {"exercise": str, "hints": int},
    "guess": {"exercise": str, "values": dict},
    "progress": {"exercises": dict},
}


def path() -> Path:
    """The log."""
    return paths.home() / "events.jsonl"


@contextmanager
def alone() -> Iterator[None]:
    """Alone among all processes of this learner, as long as this is open.

    Raises LabError where no lock can be made.
    """
    lock = paths.home() / "events.lock"
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LabError(f"{lock} cannot be written ({error.strerror}).") from None
    try:
        with jsonl.locked(handle):
            yield
    finally:
        os.close(handle)


def event(kind: str, said: str = "", **fields) -> dict:
    """The line of an event of this moment.

    said: its first line is kept, without the learner's code and without paths of this machine.
    """
    line = {"at": int(time.time()), "event": kind, **fields}
    return line | {"said": _plain(said)} if said else line


def _plain(sentence: str) -> str:
    """The first line of a sentence, at most LONGEST characters, as it may leave the learner's own
    folder."""
    text = _CODE.sub(r"\1", _OWN_LINE.sub("", sentence.strip().split("\n")[0]))
    for folder, shown in ((paths.home(), "…"), (paths.root(), "…"), (Path.home(), "~")):
        if len(folder.parts) > 1:
            text = text.replace(str(folder), shown)
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def append(line: dict) -> None:
    """One more line. Call it `alone`. Raises LabError where it cannot be written."""
    file = path()
    entries = [line] if file.exists() else [*_before(file.parent), line]
    for entry in entries:
        jsonl.append(file, entry, "progress", mode=0o600)


def read() -> list[dict]:
    """All events, oldest first; a line that is none is passed over with a warning."""
    file = path()
    if file.exists():
        return jsonl.read(file, _is_event, "line of progress")
    return _before(file.parent)


def _is_event(entry: dict) -> bool:
    fields = _FIELDS.get(str(entry.get("event")))
    if fields is None or not isinstance(entry.get("at"), (int, float)):
        return False
    if not all(isinstance(entry.get(name), kind) for name, kind in fields.items()):
        return False
    return all(isinstance(kept, dict) for kept in entry.get("exercises", {}).values())


def _before(folder: Path) -> list[dict]:
    """What a version before this one kept in progress.json, as one event, with which the log
    begins; [] where there is none that can be read."""
    try:
        text = (folder / "progress.json").read_text(encoding="utf-8")
        entry = event("progress", exercises=json.loads(text)["exercises"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [entry] if _is_event(entry) else []
