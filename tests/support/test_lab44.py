"""Lab 44 without ranks: lines read back, what was asked, the threshold; the lab checks the rest."""

from __future__ import annotations

import pytest
from support import lab44
from support.lab44 import Line, Tensor


def row(number: int, name: str) -> dict:
    return {"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}}


def request(number: int, start: int, ticks: int = 0) -> list[dict]:
    """One request of one tensor, as Horovod writes it; ticks: ranks that were noted one by one."""
    end = {"ph": "E", "ts": start + 40, "pid": number, "args": {"dtype": "float32", "shape": "[1]"}}
    return [
        {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": start, "pid": number},
        *({"ph": "X", "name": str(rank), "ts": start, "pid": number, "dur": 0} for rank in range(ticks)),
        {"ph": "E", "ts": start + 10, "pid": number},
        {"ph": "B", "name": "ALLREDUCE", "ts": start + 15, "pid": number},
        {"ph": "B", "name": "MPI_ALLREDUCE", "ts": start + 16, "pid": number},
        {"ph": "E", "ts": start + 36, "pid": number},
        end,
    ]


EVENTS = [
    {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": 1}},
    {"ph": "i", "name": "CYCLE_START", "ts": 1, "s": "g"},
    row(1, "a"),
    *request(1, 100, ticks=2),
    row(2, "b"),
    *request(2, 200),
    *request(1, 300),
]


def test_lines_name_tensors_and_leave_names_of_rows_out():
    read = lab44.lines(EVENTS)
    assert read[:3] == [
        Line(1, "", "i", "CYCLE_START"),
        Line(100, "a", "B", "NEGOTIATE_ALLREDUCE"),
        Line(100, "a", "X", "0"),
    ]
    assert len(read) == 1 + 8 + 6 + 6


def test_spent_adds_up_all_steps():
    assert lab44.spent(EVENTS)["a"] == {"negotiate": 20, "queue": 10, "copy in": 0, "sum": 40, "copy out": 0}


def test_sums_of_all_libraries_are_one_phase():
    for name in ("NCCL_ALLREDUCE", "GLOO_ALLREDUCE"):
        events = [
            {**event, "name": name} if event.get("name") == "MPI_ALLREDUCE" else event for event in EVENTS
        ]
        assert lab44.spent(events) == lab44.spent(EVENTS)


def test_sent_and_asked_follow_the_steps():
    assert lab44.sent(EVENTS, 2) == [["a"], ["b"]]
    a, b = lab44.tensors("a:4 b:4")
    assert lab44.asked_in(EVENTS, [[a], [b], [a]]) == [1, 0, 0]
    assert lab44.asked_in(EVENTS, [[a, b], [a]]) == [1, 0]


def test_tensors_and_stories_are_read():
    assert lab44.tensors("a:40 b:8:float64") == [Tensor("a", 40), Tensor("b", 8, "float64")]
    assert lab44.story("1 - i CYCLE_START\n2 a E -") == [
        Line(1, "", "i", "CYCLE_START"),
        Line(2, "a", "E", ""),
    ]


@pytest.mark.parametrize(
    ("threshold", "ranks_on_node", "most"),
    [
        (0, 4, 0),
        (1, 1, 512),
        (512, 1, 512),
        (513, 1, 1024),
        (50_000, 4, 51_200),
        (100_000, 3, 101_376),
        (128 << 20, 4, 128 << 20),
    ],
)
def test_the_threshold_is_rounded_up(threshold, ranks_on_node, most):
    assert lab44.limit(threshold, ranks_on_node) == most


def test_what_several_spans_cover_counts_once():
    assert lab44.covered([]) == 0
    assert lab44.covered([(0, 10), (5, 20)]) == 20
    assert lab44.covered([(30, 40), (0, 10), (2, 3), (10, 12)]) == 22
    assert lab44.covered([(6, 6)]) == 0
