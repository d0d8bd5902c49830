"""Timetables: read from timetables.yaml, held against the labs, and given the time of day.

A timetable is closed when each lab that is worked on, told in a lecture or named beforehand has all
labs of its `Before:` line earlier in it, worked on, told or named beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from labkit.errors import LabError

from authoring.guide.lesson import Lesson, Task, exercises

FILE = Path(__file__).with_name("timetables.yaml")
_ROUND = 5  # minutes: a slot's length is a multiple of it
_SLOTS = {
    "lecture": {"lecture", "tells", "minutes"},
    "lab": {"lab", "exercises", "minutes"},
    "pause": {"pause", "minutes"},
}


class Slot(NamedTuple):
    """One line of a timetable. kind: lecture, lab or pause. lessons: worked on or told. tasks: the
    exercises that are done; none is named where it is the whole lab."""

    begins: str
    minutes: int
    kind: str
    title: str
    lessons: list[Lesson]
    tasks: list[Task]


@dataclass(frozen=True)
class Timetable:
    """A workshop. beforehand: lessons to be done or read at home. days: their slots."""

    key: str
    title: str
    audience: str
    level: str
    beforehand: list[Lesson]
    days: list[list[Slot]]

    @property
    def worked(self) -> list[Lesson]:
        """The lessons that learners work on, in order."""
        return [slot.lessons[0] for day in self.days for slot in day if slot.kind == "lab"]

    @property
    def numbers(self) -> list[str]:
        """The numbers of all labs in it, sorted."""
        told = [lesson for day in self.days for slot in day for lesson in slot.lessons]
        return sorted({lesson.lab.header.number for lesson in [*self.beforehand, *told]})

    @property
    def exercises(self) -> list[str]:
        """The numbers of the exercises that are chosen from their labs."""
        return [task.number for day in self.days for slot in day for task in slot.tasks]

    @property
    def needs(self) -> list[str]:
        """What the machines need for it."""
        needs = [need for lesson in self.worked for need in lesson.lab.header.needs]
        return list(dict.fromkeys(needs))

    def node_minutes(self, learners: int) -> int:
        """At most so many for a class in which everybody submits each lab's job once."""
        return sum(lesson.node_minutes(learners) for lesson in self.worked)


def read(path: Path = FILE) -> dict:
    """The file's content: `timetables`, `figures` and `must_do`."""
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise LabError(f"{path.name} is not YAML: {error}") from None


def plan(content: Mapping, lessons: Mapping[str, Lesson]) -> list[Timetable]:
    """The timetables with their times of day. lessons: by a lab's number.

    Raises LabError for the first one that does not fit: an unknown lab, a day that ends late, or
    one that is not closed.
    """
    tables = []
    for key, entry in content["timetables"].items():
        try:
            beforehand = _found(entry.get("beforehand", ()), lessons)
            days = [_day(day, lessons) for day in entry["days"]]
            told = (entry["title"], entry["for"], entry["level"])
            tables.append(Timetable(key, *told, beforehand, days))
            for sentence in _gaps(tables[-1]):
                raise LabError(sentence)
        except LabError as error:
            raise LabError(f"{FILE.name}, {key}: {error}") from None
    return tables


def _gaps(table: Timetable) -> Iterator[str]:
    """A sentence for each lab of the timetable that comes before a lab of its own `Before:`
    line."""
    met: set[str] = set()
    places = [("named beforehand", table.beforehand)]
    for slot in (slot for day in table.days for slot in day):
        places.append(("told" if slot.kind == "lecture" else "worked on", slot.lessons))
    for how, lessons in places:
        for head in (lesson.lab.header for lesson in lessons):
            missing = [before for before in head.before if before not in met]
            if missing:
                yield f"lab {head.number} is {how} before lab {', '.join(missing)}."
            met.add(head.number)


def _day(day: Mapping, lessons: Mapping[str, Lesson]) -> list[Slot]:
    minute, ends = _minute(day, "begins"), _minute(day, "ends")
    slots = []
    for line in day["slots"]:
        slots.append(_slot(line, _clock(minute), lessons))
        minute += slots[-1].minutes
    if minute != ends:
        raise LabError(f"the day of {day['begins']} ends at {_clock(minute)}, not {day['ends']}.")
    return slots


def _minute(day: Mapping, word: str) -> int:
    """The time at which a day begins or ends, in minutes since midnight."""
    said = day.get(word)
    found = re.fullmatch(r"(\d{1,2}):([0-5]\d)", said) if isinstance(said, str) else None
    if not found:
        raise LabError(
            f'a day {word} at a time in quotes, such as "10:30", which YAML reads as the number 630'
            f" without them; this is {said!r}."
        )
    return 60 * int(found[1]) + int(found[2])


def _slot(line: Mapping, begins: str, lessons: Mapping[str, Lesson]) -> Slot:
    kind = next((name for name in _SLOTS if name in line), None)
    if kind is None or set(line) - _SLOTS[kind]:
        raise LabError(
            f"a slot is a lecture, a lab or a pause, each with its words; this is {dict(line)}."
        )
    if not isinstance(line.get("minutes", 0 if kind == "lab" else None), int):
        raise LabError(
            f"a {kind} says its minutes, a whole number, such as minutes: 15; this is {dict(line)}."
        )
    if kind != "lab":
        told = _found(line.get("tells", ()), lessons)
        return Slot(begins, line["minutes"], kind, line[kind], told, [])
    (lesson,) = _found([line["lab"]], lessons)
    tasks = {task.number: task for task in lesson.tasks}
    named = exercises(line.get("exercises", []))
    unknown = [number for number in named if number not in tasks]
    if unknown:
        raise LabError(
            f"lab {line['lab']} has no exercise {unknown[0]}; it has {', '.join(tasks)}."
        )
    chosen = [tasks[number] for number in named]
    minutes = line.get("minutes") or _share(lesson, len(chosen))
    return Slot(begins, minutes, kind, lesson.name, [lesson], chosen)


def _found(numbers, lessons: Mapping[str, Lesson]) -> list[Lesson]:
    for number in numbers:
        if number not in lessons:
            raise LabError(f'there is no lab {number!r} (a number stands in quotes, such as "02").')
    return [lessons[number] for number in numbers]


def _share(lesson: Lesson, exercises: int) -> int:
    """The lab's minutes; of some exercises their share of them, where reading counts as one
    exercise more."""
    minutes = lesson.lab.header.minutes
    if exercises:
        minutes = minutes * (exercises + 1) / (len(lesson.tasks) + 1)
    return -int(-minutes // _ROUND) * _ROUND


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
