"""Lab 63's support: schedules played on paper, what is wrong with one, and pieces that are
interleaved."""

from __future__ import annotations

import re

import pytest
from labkit.errors import LabError
from support import lab63


def forwards_then_back(micro: int) -> list[tuple]:
    return [(kind, number) for kind in "FB" for number in range(micro)]


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("micro", [1, 4, 16])
def test_the_bubble_is_the_closed_form(ranks, micro):
    played = lab63.play([forwards_then_back(micro)] * ranks, forward=1.5, backward=2.5)
    assert played.time == pytest.approx(4.0 * (micro + ranks - 1))
    assert played.idle == pytest.approx((ranks - 1) / (micro + ranks - 1))


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_interleaved_pieces_make_the_bubble_smaller(pieces):
    """(p - 1) / (v m + p - 1) of all time: Narayanan and others (2021), section 2.2.2, as a share
    of m."""
    ranks, micro = 4, 8
    schedules = lab63.interleaved(ranks, micro, pieces)
    for schedule in schedules:
        assert len(schedule) == len(set(schedule)) == 2 * micro * pieces
    played = lab63.play(schedules, forward=1 / pieces, backward=2 / pieces)
    assert played.idle == pytest.approx((ranks - 1) / (pieces * micro + ranks - 1))


def test_interleaved_pieces_need_multiples():
    with pytest.raises(LabError, match="multiples of the ranks; 6 is none of 4"):
        lab63.interleaved(4, 6, 2)


def test_a_deadlock_is_named():
    with pytest.raises(LabError, match="Rank 0 waits forever before B0"):
        lab63.play([[("F", 0), ("B", 0)], [("B", 0), ("F", 0)]])


@pytest.mark.parametrize(
    ("schedules", "says"),
    [
        ([forwards_then_back(2)], "a schedule for each of the ranks, 2 in all"),
        (
            [forwards_then_back(2), [("F", 0), ("F", 1), ("B", 0)]],
            r"Rank 1 has B of .* \[0\]",
        ),
        (
            [[("B", 0), ("F", 0), ("F", 1), ("B", 1)]] * 2,
            "Rank 0 has B of micro-batch 0 before",
        ),
        ([forwards_then_back(3)] * 2, "must have F of 0 to 1"),
    ],
)
def test_what_is_wrong_with_a_schedule(schedules, says):
    assert re.search(says, lab63.shortcoming(schedules, 2, 2))
