"""support.lab44 without ranks: lines read back, what was asked, loops stopped; the lab checks the rest."""

from __future__ import annotations

import pytest
from labkit import placement
from labkit.errors import LabError
from support import lab44
from support.lab44 import Line, Tensor, timeline


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
    assert timeline.sent(EVENTS, 2) == [["a"], ["b"]]
    a, b = lab44.tensors("a:4 b:4")
    assert timeline.asked_in(EVENTS, [[a], [b], [a]]) == [1, 0, 0]
    assert timeline.asked_in(EVENTS, [[a, b], [a]]) == [1, 0]


def test_tensors_and_stories_are_read():
    assert lab44.tensors("a:40 b:8:float64") == [Tensor("a", 40), Tensor("b", 8, "float64")]
    assert timeline.story("1 - i CYCLE_START\n2 a E -") == [
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


def test_two_cycle_times_in_one_process_are_refused():
    ways = lab44.knobs([], 5) | {"again": ({"HOROVOD_CYCLE_TIME": "9"}, [], True)}
    with pytest.raises(LabError, match="one way may set HOROVOD_CYCLE_TIME"):
        lab44.measure(None, ways, 1)


def test_a_job_without_records_shows_nothing(capsys):
    import pandas

    lab44.show(pandas.DataFrame(), "nobody")
    assert capsys.readouterr().out == ""


def test_a_link_without_a_measurable_rate_still_has_a_bandwidth(monkeypatch):
    from labkit import record
    from labkit.timing import Measurement

    monkeypatch.setattr(record, "add", lambda result, **fields: {"result": result} | fields)
    times = {"60 known": Measurement([1e-3])}
    link = {64: Measurement([2e-3]), 1 << 20: Measurement([1e-3])}  # the longer the faster: noise
    measured = lab44.Measured(link, times, placement.on_host("MPI"))
    frame = lab44.keep(lab44.knobs([], 5), measured, lambda *_: (0.1, 1), 4, 4)
    assert frame.result[0] == "step, one node"
    assert (frame.device[0], frame.staged[0], frame.library[0]) == ("cpu", "no", "MPI")
    assert frame.bandwidth[0] == pytest.approx((1 << 20) / 1e-3)


def test_a_made_up_timeline_has_a_name():
    assert lab44.made_up("a three times, then known")[0] == Line(0, "a", "B", "NEGOTIATE_ALLREDUCE")
    with pytest.raises(LabError, match="There are: a and b, then c, a three times"):
        lab44.made_up("a")


def test_one_rank_alone_waits_for_nobody():
    assert [line.kind for line in lab44.one_rank_alone()] == ["B", "X", "E"]


def test_loops_without_end_are_stopped():
    ready = lab44.patient("a:40 b:40")
    assert ready == lab44.tensors("a:40 b:40")
    with pytest.raises(LabError, match="fuse does not end"):
        sum(ready[0].bytes for _ in range(10_000))
    seconds = lab44.STEPS[0].link()
    assert seconds(100) == 2
    with pytest.raises(LabError, match="step_time does not end"):
        sum(seconds(100) for _ in range(10_000))


def test_messages_as_text():
    a, b, c = lab44.tensors("a:4 b:4 c:4")
    assert lab44.names([[a, b], [c]]) == "a b|c"
    assert lab44.names([]) == ""
    assert lab44.names(None) is None
    with pytest.raises(LabError, match="a list of the Tensors themselves"):
        lab44.names([["a", "b"]])


def test_a_case_of_a_step_says_itself():
    case = lab44.STEPS[0]
    assert str(case) == "'a:100:0' (bytes, ready at), limit 1000, a look every 10 s, 1 s + n / 100"
    assert case.tensors() == [Tensor("a", 100, ready=0.0)]


def test_messages_of_a_predicted_step_are_printed(capsys):
    def step_time(gradients, limit, cycle, seconds):
        return 0.1 + cycle, round(1 / cycle)

    net, ms = lab44.show_predicted(step_time, 24, 0.05, 5e-4, 2.5e7)
    assert len(net) == 48
    assert ms[20] == pytest.approx(120)
    assert "look every  20 ms: 120 ms, 48 tensors, messages: 50\n" in capsys.readouterr().out
