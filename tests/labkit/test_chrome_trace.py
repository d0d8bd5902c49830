"""chrome_trace: what is plain data becomes events that Perfetto takes."""

from __future__ import annotations

import json

import pytest
from labkit import chrome_trace
from labkit.chrome_trace import Process, Slice, Track
from labkit.errors import LabError


def named(events, what):
    return [event["args"] for event in events if event["name"] == what]


def test_processes_and_tracks_keep_their_order_and_count_from_one():
    tracks = [Track("b", [Slice("x", "work", 0, 1)]), Track("a", [Slice("y", "work", 0, 1)])]
    events = chrome_trace.events([Process("node 1", tracks), Process("node 0", tracks[:1])])
    assert named(events, "process_name") == [{"name": "node 1"}, {"name": "node 0"}]
    assert named(events, "process_sort_index") == [{"sort_index": 1}, {"sort_index": 2}]
    assert named(events, "thread_name") == [{"name": "b"}, {"name": "a"}, {"name": "b"}]
    places = [(event["pid"], event["tid"]) for event in events if event["ph"] == "X"]
    assert places == [(1, 1), (1, 2), (2, 1)]


def test_slices_that_do_not_nest_get_rows_of_their_own():
    outer, inner = Slice("outer", "work", 0, 10), Slice("inner", "work", 2, 5)
    late, after = Slice("late", "work", 8, 12), Slice("after", "work", 10, 11)
    events = chrome_trace.events([Process("rank 0", [Track("in flight", [after, late, inner, outer])])])
    assert named(events, "thread_name") == [{"name": "in flight"}, {"name": "in flight 2"}]
    rows = {event["name"]: event["tid"] for event in events if event["ph"] == "X"}
    assert rows == {"outer": 1, "inner": 1, "after": 1, "late": 2}


def test_slices_that_touch_within_a_nanosecond_do_not_overlap():
    touching = [Slice("a", "work", 0, 1.0000000004), Slice("b", "work", 1.0000000003, 2)]
    events = chrome_trace.events([Process("rank 0", [Track("main", touching)])])
    first, second = [event for event in events if event["ph"] == "X"]
    assert first["tid"] == second["tid"]
    assert first["ts"] + first["dur"] == second["ts"] == 1e6


def test_an_arrow_joins_the_beginnings_of_two_slices():
    out = Slice("to rank 1", "rank", 1e-6, 3e-6, {"bytes": 8}, leaves=7)
    into = Slice("from rank 0", "rank", 2e-6, 4e-6, {"bytes": 8}, arrives=7)
    tracks = [Track("rank 0", [out]), Track("rank 1", [into])]
    events = chrome_trace.events([Process("node 0", tracks)])
    start, finish = [event for event in events if event["ph"] in "sf"]
    assert (start["ph"], start["id"], start["tid"], start["ts"]) == ("s", 7, 1, 1.0)
    assert (finish["ph"], finish["id"], finish["tid"], finish["ts"], finish["bp"]) == ("f", 7, 2, 2.0, "e")
    assert [event["args"] for event in events if event["ph"] == "X"] == [{"bytes": 8}, {"bytes": 8}]


def test_a_trace_is_written_or_a_sentence_says_why_not(tmp_path):
    processes = [Process("rank 0", [Track("main", [Slice("a", "work", 0, 1)])])]
    file = chrome_trace.save(tmp_path / "trace.json", processes, unit="ns", about={"step": "1 s"})
    trace = json.loads(file.read_text())
    assert trace["traceEvents"] == chrome_trace.events(processes)
    assert (trace["displayTimeUnit"], trace["otherData"]) == ("ns", {"step": "1 s"})
    with pytest.raises(LabError, match="Cannot write the trace"):
        chrome_trace.save(tmp_path / "nowhere" / "trace.json", processes)
