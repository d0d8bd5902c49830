"""Lab 44 without ranks: what its timelines say, and the threshold; the lab checks the rest."""

from __future__ import annotations

import pytest
from support import lab44


def request(number: int, start: int, ticks: int = 0, library: str = "MPI") -> list[dict]:
    """One request of one tensor, as Horovod writes it; ticks: ranks that were noted one by one."""
    rows = [
        (0, {"ph": "B", "name": "NEGOTIATE_ALLREDUCE"}),
        *((0, {"ph": "X", "name": str(rank), "dur": 0}) for rank in range(ticks)),
        (10, {"ph": "E"}),
        (15, {"ph": "B", "name": "ALLREDUCE"}),
        (16, {"ph": "B", "name": f"{library}_ALLREDUCE"}),
        (36, {"ph": "E"}),
        (40, {"ph": "E", "args": {"dtype": "float32", "shape": "[1]"}}),
    ]
    return [{"ts": start + after, "pid": number, **event} for after, event in rows]


EVENTS = [
    {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": 1}},
    {"ph": "i", "name": "CYCLE_START", "ts": 1, "s": "g"},
    {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a"}},
    *request(1, 100, ticks=2),
    {"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "b"}},
    *request(2, 200, library="GLOO"),
    *request(1, 300, library="NCCL"),
]


def test_a_timeline_tells_lines_times_calls_and_who_was_asked():
    read = lab44.lines(EVENTS)
    assert read[:3] == lab44.story("1 - i CYCLE_START\n100 a B NEGOTIATE_ALLREDUCE\n100 a X 0")
    assert len(read) == 1 + 8 + 6 + 6
    spent = {"negotiate": 20, "queue": 10, "copy in": 0, "sum": 40, "copy out": 0}
    assert lab44.spent(EVENTS)["a"] == spent
    assert lab44.sent(EVENTS, 2) == [["a"], ["b"]]
    a, b = lab44.tensors("a:4 b:4")
    assert lab44.asked_in(EVENTS, [[a], [b], [a]]) == [1, 0, 0]
    assert lab44.asked_in(EVENTS, [[a, b], [a]]) == [1, 0]


def test_seconds_that_spans_cover_count_once():
    for spans, seconds in (
        ([], 0),
        ([(0, 10), (5, 20)], 20),
        ([(30, 40), (0, 10), (2, 3), (10, 12)], 22),
    ):
        assert lab44.covered(spans) == seconds


@pytest.mark.parametrize(
    ("threshold", "ranks_on_node", "most"),
    [(0, 4, 0), (1, 1, 512), (512, 1, 512), (50_000, 4, 51_200), (100_000, 3, 101_376)],
)
def test_the_threshold_is_rounded_up(threshold, ranks_on_node, most):
    assert lab44.limit(threshold, ranks_on_node) == most
