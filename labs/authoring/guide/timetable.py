"""Timetables: read from timetables.yaml, held against the labs, and given the time of day.

A timetable is closed when each lab that is worked on, told in a lecture or named beforehand has all
labs of its `Before:` line earlier in it, worked on, told or named beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import LabError

from authoring.guide.lesson import LEVELS, Lesson

FILE = Path(__file__).with_name("timetables.yaml")
_ROUND = 5  # minutes: a slot's length is a multiple of it
_SLOTS = {
    "lecture": {"lecture", "tells", "minutes"},
    "lab": {"lab", "exercises", "minutes"},
    "pause": {"pause", "minutes"},
}


@dataclass(frozen=True)
class Slot:
    """One line of a timetable. kind: lecture, lab or pause. labs: worked on or told, by their
    numbers."""

    begins: str
    minutes: int
    kind: str
    title: str
    labs: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timetable:
    """A workshop. days: their slots. levels: how many exercises of each level its learners meet."""

    key: str
    title: str
    audience: str
    level: str
    beforehand: tuple[str, ...]
    days: tuple[tuple[Slot, ...], ...]
    levels: dict[str, int] = field(default_factory=dict)

    def worked(self) -> list[str]:
        """The labs that learners work on, in order."""
        return [slot.labs[0] for day in self.days for slot in day if slot.kind == "lab"]


def read(path: Path = FILE) -> dict:
    """The file's content: `timetables`, `figures` and `must_do`."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise LabError(f"{path.name} is not YAML: {error}") from None
    return {"timetables": {}, "figures": {}, "must_do": {}} | (content or {})


def plan(content: Mapping, lessons: Mapping[str, Lesson]) -> list[Timetable]:
    """The timetables with their times of day. lessons: by a lab's number.

    Raises LabError with all that does not fit: an unknown lab, a day that ends late, one that is
    not closed.
    """
    wrong: list[str] = []
    tables = []
    for key, entry in content["timetables"].items():
        try:
            tables.append(_timetable(key, entry, lessons))
        except LabError as error:
            wrong.append(f"{FILE.name}, {key}: {error}")
            continue
        wrong += [f"{FILE.name}, {key}: {sentence}" for sentence in gaps(tables[-1], lessons)]
    if wrong:
        raise LabError("\n".join(wrong))
    return tables


def gaps(table: Timetable, lessons: Mapping[str, Lesson]) -> list[str]:
    """A sentence for each lab of the timetable that comes before a lab of its own `Before:`
    line."""
    met: set[str] = set()
    sentences = []
    places = [("named beforehand", table.beforehand)]
    for slot in (slot for day in table.days for slot in day):
        places.append(("told" if slot.kind == "lecture" else "worked on", slot.labs))
    for how, labs in places:
        for number in labs:
            missing = [before for before in lessons[number].lab.header.before if before not in met]
            if missing:
                sentences.append(f"lab {number} is {how} before lab {', '.join(missing)}.")
            met.add(number)
    return sentences


def _timetable(key: str, entry: Mapping, lessons: Mapping[str, Lesson]) -> Timetable:
    if entry["level"] not in LEVELS:
        raise LabError(f"its level is one of {', '.join(LEVELS)}, not {entry['level']!r}.")
    beforehand = tuple(entry.get("beforehand", ()))
    _check_labs(beforehand, lessons)
    days = []
    for day in entry["days"]:
        minute = _minutes(day["begins"])
        slots = []
        for line in day["slots"]:
            slots.append(_slot(line, minute, lessons))
            minute += slots[-1].minutes
        if _clock(minute) != day["ends"]:
            raise LabError(
                f"the day of {day['begins']} ends at {_clock(minute)}, not {day['ends']}."
            )
        days.append(tuple(slots))
    levels = dict.fromkeys(LEVELS, 0)
    for slot in (slot for day in days for slot in day if slot.kind == "lab"):
        for task in lessons[slot.labs[0]].tasks:
            if task.level and (not slot.exercises or task.number in slot.exercises):
                levels[task.level] += 1
    return Timetable(
        key, entry["title"], entry["for"], entry["level"], beforehand, tuple(days), levels
    )


def _slot(line: Mapping, minute: int, lessons: Mapping[str, Lesson]) -> Slot:
    kind = next((name for name in _SLOTS if name in line), None)
    if kind is None or set(line) - _SLOTS[kind]:
        raise LabError(
            f"a slot is a lecture, a lab or a pause, each with its words; this is {dict(line)}."
        )
    if kind != "lab":
        told = tuple(line.get("tells", ()))
        _check_labs(told, lessons)
        return Slot(_clock(minute), line["minutes"], kind, line[kind], told)
    _check_labs([line["lab"]], lessons)
    lesson = lessons[line["lab"]]
    exercises = tuple(line.get("exercises", ()))
    known = [task.number for task in lesson.tasks]
    unknown = [number for number in exercises if number not in known]
    if unknown:
        raise LabError(
            f"lab {line['lab']} has no exercise {unknown[0]}; it has {', '.join(known)}."
        )
    minutes = line.get("minutes") or _share(lesson, exercises)
    return Slot(_clock(minute), minutes, kind, lesson.name, (line["lab"],), exercises)


def _check_labs(numbers, lessons: Mapping[str, Lesson]) -> None:
    for number in numbers:
        if number not in lessons:
            raise LabError(f'there is no lab {number!r} (a number stands in quotes, such as "02").')


def _share(lesson: Lesson, exercises: tuple[str, ...]) -> int:
    """The lab's minutes; of some exercises their share of them, where reading counts as one
    exercise more."""
    minutes = lesson.lab.header.minutes
    if exercises:
        minutes = minutes * (len(exercises) + 1) / (len(lesson.tasks) + 1)
    return -int(-minutes // _ROUND) * _ROUND


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return 60 * int(hours) + int(minutes)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
