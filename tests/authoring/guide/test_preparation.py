"""What to prepare: the guide and docs/TEACHING.md name the same commands, and each of them is there."""

from __future__ import annotations

import re

from authoring.guide import preparation, timetable
from labkit import paths

from tests.figures.preparation import commands


def test_the_page_has_the_steps_of_the_guide_word_for_word():
    assert commands() == [step.command for step in preparation.read()]


def test_each_command_is_a_goal_of_the_makefile():
    goals = set(re.findall(r"^([a-z0-9-]+):", (paths.root() / "Makefile").read_text(), re.MULTILINE))
    for step in preparation.read():
        assert step.command.split()[:1] == ["make"]
        assert step.command.split()[1] in goals, step.command


def test_the_tour_is_that_of_the_first_timetable():
    half_day = timetable.read()["timetables"]["half_day"]
    labs = set(half_day["beforehand"])
    for slot in half_day["days"][0]["slots"]:
        labs |= {slot["lab"]} if "lab" in slot else set(slot.get("tells", ()))
    (tour,) = (step for step in preparation.read() if step.command.startswith("make tour"))
    assert tour.command == f"make tour LABS={','.join(sorted(labs))}"
