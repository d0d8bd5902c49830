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


@pytest.fixture
def content() -> dict:
    return copy.deepcopy(CONTENT)


def test_every_timetable_of_the_kit_is_closed_and_ends_in_time(lessons):
    tables = timetable.plan(CONTENT, lessons)
    assert [table.key for table in tables] == [
        "half_day",
        "one_day",
        "two_days",
        "ppopp",
        "surf",
        "llm",
    ]
    for table in tables:
        kinds = {slot.kind for day in table.days for slot in day}
        assert kinds == {"lecture", "lab", "pause"}, table.key
        assert table.level in LEVELS


def test_a_timetable_gives_a_lab_its_stated_minutes(lessons):
    (day,) = next(
        table for table in timetable.plan(CONTENT, lessons) if table.key == "one_day"
    ).days
    whole = [slot for slot in day if slot.kind == "lab" and not slot.tasks]
    assert len(whole) >= 3
    for slot in whole:
        assert slot.minutes == slot.lessons[0].lab.header.minutes


def test_the_hands_on_of_its_page_is_that_of_the_timetable(lessons):
    page = (paths.root() / "docs" / "HANDS_ON.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (4\d) [^|]*\| (4\d\.\d)[^|]*\|", page, re.MULTILINE)
    table = next(table for table in timetable.plan(CONTENT, lessons) if table.key == "ppopp")
    worked = [slot for day in table.days for slot in day if slot.kind == "lab"]
    done = [(slot, slot.lessons[0].lab.header.number, slot.tasks[0].number) for slot in worked]
    assert [(str(slot.minutes), *numbers) for slot, *numbers in done] == rows
    for slot, _, task in done:
        assert slot.lessons[0].must_do[0] == task


def test_the_half_day_of_its_page_is_that_of_the_timetable(lessons):
    page = (paths.root() / "docs" / "TRACKS.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| half a day .*$", page, re.MULTILINE)
    table = next(table for table in timetable.plan(CONTENT, lessons) if table.key == "half_day")
    assert re.findall(r"\d\d\.\d", row) == table.exercises


def swapped(slots: list, first: str, second: str) -> None:
    """Two labs of a day change places."""
    one, two = (
        next(place for place, slot in enumerate(slots) if slot.get("lab") == lab)
        for lab in (first, second)
    )
    slots[one], slots[two] = slots[two], slots[one]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda day: day.pop("beforehand"), "one_day: lab 02 is told before lab 00."),
        (
            lambda day: swapped(day["days"][0]["slots"], "21", "30"),
            "one_day: lab 30 is worked on before lab 21.",
        ),
        (
            lambda day: day["beforehand"].append("50"),
            "lab 50 is named beforehand before lab 21, 23, 30.",
        ),
    ],
)
def test_a_lab_before_what_it_builds_on_is_named(lessons, content, spoil, says):
    spoil(content["timetables"]["one_day"])
    with pytest.raises(LabError, match=re.escape(says)):
        timetable.plan(content, lessons)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"lab": "99"}, "there is no lab '99'"),
        ({"lab": "20", "exercises": ["20.9"]}, "lab 20 has no exercise 20.9; it has 20.1"),
        ({"lab": "20", "exercise": "20.1"}, "a slot is a lecture, a lab or a pause"),
        ({"talk": "x", "minutes": 5}, "a slot is a lecture, a lab or a pause"),
        ({"lecture": "x", "minutes": 5, "tells": [2]}, "there is no lab 2"),
        ({"pause": "x", "minutes": 5}, "ends at 17:05, not 17:00"),
    ],
)
def test_a_slot_that_does_not_fit_is_said(lessons, content, change, says):
    content["timetables"]["one_day"]["days"][0]["slots"].append(change)
    with pytest.raises(LabError) as error:
        timetable.plan(content, lessons)
    assert says in str(error.value)
    assert "timetables.yaml, one_day:" in str(error.value)
