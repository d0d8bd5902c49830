"""Lab 44 without ranks: what its timelines say, and the threshold; the lab checks the rest."""

from __future__ import annotations

import pytest
from support import lab44


def request(number: int, start: int, ticks: int = 0, library: str = "MPI") -> list[dict]:
    """One request of one tensor, as Horovod writes it; ticks: ranks that were noted one by one."""
    end = {"ph": "E", "ts": start + 40, "pid": number, "args": {"dtype": "float32", "shape": "[1]"}}
    return [
        {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": start, "pid": number},
        *(
            {"ph": "X", "name": str(rank), "ts": start, "pid": number, "dur": 0}
            for rank in range(ticks)
        ),
        {"ph": "E", "ts": start + 10, "pid": number},
        {"ph": "B", "name": "ALLREDUCE", "ts": start + 15, "pid": number},
        {"ph": "B", "name": f"{library}_ALLREDUCE", "ts": start + 16, "pid": number},
        {"ph": "E", "ts": start + 36, "pid": number},
        end,
    ]


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
    assert lab44.spent(EVENTS)["a"] == {
        "negotiate": 20,
        "queue": 10,
        "copy in": 0,
        "sum": 40,
        "copy out": 0,
    }
    assert lab44.sent(EVENTS, 2) == [["a"], ["b"]]
    a, b = lab44.tensors("a:4 b:4")
    assert lab44.asked_in(EVENTS, [[a], [b], [a]]) == [1, 0, 0]
    assert lab44.asked_in(EVENTS, [[a, b], [a]]) == [1, 0]


@pytest.mark.parametrize(
    ("threshold", "ranks_on_node", "most"),
    [
        (0, 4, 0),
        (1, 1, 512),
        (512, 1, 512),
        (50_000, 4, 51_200),
        (100_000, 3, 101_376),
        (128 << 20, 4, 128 << 20),
    ],
)
def test_the_threshold_is_rounded_up(threshold, ranks_on_node, most):
    assert lab44.limit(threshold, ranks_on_node) == most
