"""Short forms of tests/endurance: a few bad endings, kills, cycles and inputs of each kind."""

from __future__ import annotations

import subprocess
import sys

import pytest
from labkit import paths

from tests.endurance import bad_inputs
from tests.slurm.normal_user import needs_slurm

pytestmark = pytest.mark.slow


def lasts(name: str, *arguments: int) -> None:
    """Run a script of tests/endurance; what it says is shown should it fail."""
    command = [sys.executable, "-m", f"tests.endurance.{name}", *map(str, arguments)]
    done = subprocess.run(command, cwd=paths.root(), capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_runs_that_end_badly_leave_nothing():
    lasts("launch", 4, 1)  # one of each kind


def test_killed_writers_lose_no_record():
    lasts("records", 40)


@needs_slurm
def test_tabletops_that_come_and_go_leave_nothing():
    lasts("tabletop", 5)  # one of each kind


@needs_slurm
def test_pytest_that_is_told_to_end_leaves_nothing():
    lasts("sigterm", 2)  # in one process, and with two workers


def test_bad_inputs_are_answered_in_a_sentence():
    cases = bad_inputs.all_cases()
    assert len(cases) >= 200
    faults = {str(answer.case): answer.fault() for answer in bad_inputs.answers(cases[::16])}
    assert not {case: fault for case, fault in faults.items() if fault}


def test_an_answer_that_is_not_good_is_told_from_one_that_is():
    """The control: the test above sees what it is to see."""
    case = bad_inputs.Case(("labkit", "run", "99"), "lab")
    told = {
        "a traceback": (1, "Traceback (most recent call last):\n  at lab 99\nKeyError: lab"),
        "status 0": (0, "There is no lab 99, and nothing was done."),
        "no end": (None, "There is no lab 99, and nothing was done."),
        "no sentence": (1, "lab"),
        "does not name lab": (1, "Something is wrong here: look for it."),
        "ended by signal 11": (-11, "There is no lab 99, and nothing was done."),
        "": (1, "There is no lab 99, and nothing was done."),
    }
    for fault, (status, text) in told.items():
        assert bad_inputs.Answer(case, status, text).fault() == fault
