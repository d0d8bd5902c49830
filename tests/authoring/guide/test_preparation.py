"""docs/TEACHING.md, which the guide shows: its commands are there, and its tour is that of half a day."""

from __future__ import annotations

import re

from authoring.guide import timetable
from labkit import paths

from tests.figures.preparation import commands


def test_each_command_is_a_goal_of_the_makefile():
    goals = set(re.findall(r"^([a-z0-9-]+):", (paths.root() / "Makefile").read_text(), re.MULTILINE))
    assert {command.split()[0] for command in commands()} == {"make"}
    assert {command.split()[1] for command in commands()} <= goals


def test_the_tour_is_that_of_the_first_timetable():
    half_day = timetable.read()["timetables"]["half_day"]
    labs = set(half_day["beforehand"])
    for slot in half_day["days"][0]["slots"]:
        labs |= {slot["lab"]} if "lab" in slot else set(slot.get("tells", ()))
    assert f"make tour LABS={','.join(sorted(labs))}" in commands()
