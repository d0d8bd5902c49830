"""launch.case: which part of a check an error or a hang belongs to; lines of checks are not
quoted."""

from __future__ import annotations

import re
import time
from functools import partial

import pytest
from labkit import launch, paths
from labkit.counting import on_every_size
from labkit.launch import cases

from tests.labkit.launch.leftovers import failed

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_an_error_takes_the_words_of_its_blocks_along():
    def fail():
        assert cases.now() == "with 3 ranks, root 1"
        raise ZeroDivisionError

    outer, inner = cases.case("with 3 ranks"), cases.case("root 1")
    with pytest.raises(ZeroDivisionError) as caught, outer, inner:
        fail()
    assert cases.case_of(caught.value) == "with 3 ranks, root 1"
    assert cases.now() == ""
    assert cases.case_of(ValueError()) == ""


CHECKS = """
import numpy as np


def waits(comm, answer):
    answer(comm)
    comm.Barrier()


def gives_none(comm, answer):
    return answer(comm) + 1


def does_not_fit(comm):
    np.zeros(2) + np.zeros(3)
"""


def of_a_check(name: str):
    """A function of a lab's checks, whose lines no learner wrote."""
    names = {"__name__": "__main__"}
    exec(compile(CHECKS, str(paths.root() / "labs/support/lab90.py"), "exec"), names)
    return names[name]


def _waits_alone(comm):
    if comm.size == 2 and comm.rank == 1:
        comm.recv(source=0)


@pytest.mark.slow
def test_a_hang_names_the_group_and_no_line_of_the_check():
    waiting = partial(of_a_check("waits"), answer=_waits_alone)
    line = _waits_alone.__code__.co_firstlineno + 2
    assert str(failed(on_every_size, waiting, ranks=3, timeout=2)) == (
        "after 2 s without an end, in a group of 2 ranks: rank 0 waits for the others; "
        f"rank 1 waits in line {line} of _waits_alone: comm.recv(source=0); rank 2 has finished"
    )


def _in_cases_of_their_own(comm):
    with launch.case(f"root {comm.rank}"):
        comm.recv(source=1 - comm.rank)


@pytest.mark.slow
def test_ranks_that_hang_in_different_cases():
    said = str(failed(_in_cases_of_their_own, ranks=2, timeout=2))
    assert "(root 0); rank 1 waits in" in said
    assert said.endswith("(root 1)")


def _fails_alone(comm):
    if comm.size == 1:
        raise KeyError("gone")


def _forgets(comm):
    comm.rank + 1


def _dies_in_a_case(comm):
    import os

    with launch.case("with root 1"):
        if comm.rank == 1:
            time.sleep(0.1)
            os._exit(3)
        comm.Barrier()


@pytest.mark.parametrize(
    ("program", "arguments", "says"),
    [
        (on_every_size, [_fails_alone], r"0 failed, in a group of 1 rank: KeyError: 'gone'  \("),
        (_dies_in_a_case, [], "1 died, with root 1: its process ended with exit"),
        # An error in a check is told without its lines.
        (
            of_a_check("gives_none"),
            [_forgets],
            r". failed: Your function gave None back: is a `return` missing at its end\?$",
        ),
        (
            of_a_check("does_not_fit"),
            [],
            ". failed: the check cannot use what your code gave back: ValueError: operands could"
            r" not((?!line).)*$",
        ),
    ],
)
def test_an_error_names_the_group(program, arguments, says):
    assert re.match(f"rank {says}", str(failed(program, *arguments, ranks=2)))
