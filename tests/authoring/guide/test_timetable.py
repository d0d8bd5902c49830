"""Timetables: those of the kit fit its labs, and what does not fit is said in a sentence."""

from __future__ import annotations

import copy
import re

import pytest
from authoring import generate
from authoring.guide import lesson, timetable
from authoring.source import LEVELS
from labkit import labfile, paths
from labkit.errors import LabError

CONTENT = timetable.read()
pytestmark = pytest.mark.slow  # they read thirty labs


@pytest.fixture(scope="module")
def lessons() -> dict[str, lesson.Lesson]:
    """All lessons that the timetables need."""
    wanted = re.findall(r'"(\d\d)"', timetable.FILE.read_text(encoding="utf-8"))
    labs = [generate.load(labfile.find(number)) for number in dict.fromkeys(wanted)]
    return {
        lab.header.number: lesson.read(lab, CONTENT, paths.root() / "no report") for lab in labs
    }


@pytest.fixture(scope="module")
def tables(lessons) -> dict[str, timetable.Timetable]:
    return {table.key: table for table in timetable.plan(CONTENT, lessons)}


def test_every_timetable_of_the_kit_is_closed_and_gives_labs_their_minutes(tables):
    assert list(tables) == ["half_day", "one_day", "two_days", "ppopp", "surf", "llm"]
    for key, table in tables.items():
        kinds = {slot.kind for day in table.days for slot in day}
        assert kinds == {"lecture", "lab", "pause"}, key
        assert table.level in LEVELS
    (day,) = tables["one_day"].days
    whole = [slot for slot in day if slot.kind == "lab" and not slot.tasks]
    assert len(whole) >= 3
    assert all(slot.minutes == slot.lessons[0].lab.header.minutes for slot in whole)


def test_the_pages_have_the_hands_on_and_the_half_day_of_the_timetables(tables):
    page = (paths.root() / "docs" / "HANDS_ON.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (4\d) [^|]*\| (4\d\.\d)[^|]*\|", page, re.MULTILINE)
    worked = [slot for day in tables["ppopp"].days for slot in day if slot.kind == "lab"]
    done = [(slot.minutes, slot.lessons[0], slot.tasks[0].number) for slot in worked]
    assert [(str(minutes), told.lab.header.number, task) for minutes, told, task in done] == rows
    assert all(told.must_do[0] == task for _, told, task in done)
    page = (paths.root() / "docs" / "TRACKS.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| half a day .*$", page, re.MULTILINE)
    assert re.findall(r"\d\d\.\d", row) == tables["half_day"].exercises


def swapped(slots: list, *numbers: str) -> None:
    """Two labs of a day change places."""
    labs = [slot.get("lab") for slot in slots]
    one, two = (labs.index(number) for number in numbers)
    slots[one], slots[two] = slots[two], slots[one]


def added(**slot):
    return lambda day: day["days"][0]["slots"].append(slot)


KINDS = "one_day: a slot is a lecture, a lab or a pause"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda day: day.pop("beforehand"), "one_day: lab 02 is told before lab 00."),
        (
            lambda day: swapped(day["days"][0]["slots"], "21", "30"),
            "30 is worked on before lab 21.",
        ),
        (
            lambda day: day["beforehand"].append("50"),
            "50 is named beforehand before lab 21, 23, 30.",
        ),
        (added(lab="99"), "one_day: there is no lab '99'"),
        (added(lab="20", exercises=["20.9"]), "one_day: lab 20 has no exercise 20.9; it has 20.1"),
        (added(lab="20", exercise="20.1"), KINDS),
        (added(talk="x", minutes=5), KINDS),
        (added(lecture="x", minutes=5, tells=[2]), "one_day: there is no lab 2"),
        (added(lab="20", exercises=[20.1]), "exercises are a list, each in quotes"),
        (added(lab="20", exercises="20.1"), "exercises are a list, each in quotes"),
        (added(lecture="x"), "one_day: a lecture says its minutes, a whole number"),
        (added(lab="20", minutes="40"), "one_day: a lab says its minutes, a whole number"),
        (
            lambda day: day["days"][0].update(begins=630),
            'a day begins at a time in quotes, such as "10',
        ),
        (lambda day: day["days"][0].pop("ends"), "a day ends at a time in quotes"),
        (added(pause="x", minutes=5), "ends at 17:05, not 17:00"),
    ],
)
def test_what_does_not_fit_is_said(lessons, spoil, says):
    content = copy.deepcopy(CONTENT)
    spoil(content["timetables"]["one_day"])
    with pytest.raises(LabError) as error:
        timetable.plan(content, lessons)
    assert says in str(error.value)
    assert "timetables.yaml, one_day:" in str(error.value)
