"""A learner's shared file, understood: events that can be believed, in order; all else is passed over."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date

from labkit import journal
from labkit.board.curriculum import Lab

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
    pseudonym = head.get("pseudonym")
    until = _day(head.get("until"))
    if head.get("labkit") != "shared" or not isinstance(pseudonym, str) or until is None:
        return None
    if not journal.PSEUDONYM.fullmatch(pseudonym):
        return None
    stem_of = {number: stem for stem, lab in labs.items() for number in lab.exercises}
    given = [line for line in lines if line.strip()]
    read = given[:LINES]
    events = [event for event in (_event(_object(line), labs, stem_of, now) for line in read) if event]
    return Shared(pseudonym, head.get("named") is True, until, tuple(events), len(given) - len(events))


def _object(line: bytes) -> dict:
    if len(line) > LINE:
        return {}
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _event(entry: dict, labs: dict[str, Lab], stem_of: dict[str, str], now: float) -> Event | None:
    kind = entry.get("event")
    if not isinstance(kind, str) or kind not in _EVENTS:
        return None
    at = _moment(entry.get("at"), now)
    if at is None:
        return None
    if kind == "start":
        stem = entry.get("lab")
        return Event(kind, at, stem) if isinstance(stem, str) and stem in labs else None
    number = entry.get("exercise")
    if not isinstance(number, str) or number not in stem_of:
        return None
    return Event(
        kind,
        at,
        stem_of[number],
        number,
        tries=_count(entry.get("tries")),
        hints=_count(entry.get("hints")),
        passed=kind == "passed",
        said=printable(entry.get("said"), LONGEST) if kind == "failed" else "",
    )


def _day(value) -> date | None:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _moment(value, now: float) -> float | None:
    """Seconds since 1970; None for what is no time, and for the future beyond a clock's error."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 < value < now + _DAY or not math.isfinite(value):
        return None
    return min(float(value), now)


def _count(value) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST else 0


def printable(value, longest: int) -> str:
    """A text in one line, without characters that steer a terminal; "" for what is no text."""
    if not isinstance(value, str):
        return ""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
