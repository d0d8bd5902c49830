"""A learner's shared file, understood: events that can be believed, in order; all else is passed
over."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date

from labkit import journal

from classroom.curriculum import Lab

MOST = 1_000_000  # tries or hints that are believed
LONGEST = 300  # characters of a sentence
LINE = 5000  # bytes of a line
LINES = 10_000  # of a file that are read
_DAY = 86_400.0
_EVENTS = ("start", "passed", "failed", "hint")


@dataclass(frozen=True)
class Event:
    """One line, of what a learner did since they agreed. kind: start, passed, failed, hint.

    at: seconds since 1970. exercise: its number, "" for "start". tries, hints: so far.
    """

    kind: str
    at: float
    stem: str
    exercise: str = ""
    tries: int = 0
    hints: int = 0
    passed: bool = False
    said: str = ""


@dataclass(frozen=True)
class Shared:
    """What a learner shares. pseudonym: drawn at random. named: may their name be shown?

    until: the last day on which it counts. skipped: lines.
    """

    pseudonym: str
    named: bool
    until: date
    events: tuple[Event, ...]
    skipped: int


def parse(content: bytes, labs: dict[str, Lab], now: float) -> Shared | None:
    """A shared file; None where its first line is not what `make share` writes."""
    first, *lines = content.split(b"\n", LINES + 1)
    head = _object(first)
    pseudonym = _text(head.get("pseudonym"))
    try:
        until = date.fromisoformat(_text(head.get("until")))
    except ValueError:
        return None
    if head.get("labkit") != "shared" or not journal.PSEUDONYM.fullmatch(pseudonym):
        return None
    stem_of = {number: stem for stem, lab in labs.items() for number in lab.exercises}
    given = [line for line in lines if line.strip()]
    read = [_event(_object(line), labs, stem_of, now) for line in given[:LINES]]
    events = tuple(event for event in read if event)
    return Shared(pseudonym, head.get("named") is True, until, events, len(given) - len(events))


def _object(line: bytes) -> dict:
    if len(line) > LINE:
        return {}
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _event(entry: dict, labs: dict[str, Lab], stem_of: dict[str, str], now: float) -> Event | None:
    """The event of a line; None for what is none, or is of no lab and no time that there is."""
    kind = _text(entry.get("event"))
    number = "" if kind == "start" else _text(entry.get("exercise"))
    stem = _text(entry.get("lab")) if kind == "start" else stem_of.get(number, "")
    at = entry.get("at")
    is_number = isinstance(at, (int, float)) and not isinstance(at, bool)
    # A clock may be wrong, though not by more than a day.
    if kind not in _EVENTS or stem not in labs or not is_number or not 0 < at < now + _DAY:
        return None
    return Event(
        kind,
        min(float(at), now),
        stem,
        number,
        tries=_count(entry.get("tries")),
        hints=_count(entry.get("hints")),
        passed=kind == "passed",
        said=printable(entry.get("said"), LONGEST) if kind == "failed" else "",
    )


def _text(value) -> str:
    return value if isinstance(value, str) else ""


def _count(value) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST else 0


def printable(value, longest: int) -> str:
    """A text in one line, without characters that steer a terminal; "" for what is no text."""
    letters = (letter if letter.isprintable() else " " for letter in _text(value))
    text = " ".join("".join(letters).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
