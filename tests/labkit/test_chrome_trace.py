"""chrome_trace: what is plain data becomes events that Perfetto takes."""

import json

import pytest
from labkit import chrome_trace
from labkit.chrome_trace import Process, Slice, Track
from labkit.errors import LabError


def named(events, what):
    return [event["args"] for event in events if event["name"] == what]


def test_slices_that_do_not_nest_get_rows_of_their_own():
    outer, inner = Slice("outer", "work", 0, 10), Slice("inner", "work", 2, 5)
    late, after = Slice("late", "work", 8, 12), Slice("after", "work", 10, 11)
    track = Track("in flight", [after, late, inner, outer])
    events = chrome_trace.events([Process("rank 0", [track])])
    assert named(events, "process_sort_index") == [{"sort_index": 1}]
    assert named(events, "thread_name") == [{"name": "in flight"}, {"name": "in flight 2"}]
    rows = {event["name"]: event["tid"] for event in events if event["ph"] == "X"}
    assert rows == {"outer": 1, "inner": 1, "after": 1, "late": 2}


def test_slices_that_touch_within_a_nanosecond_do_not_overlap():
    touching = [Slice("a", "work", 0, 1.0000000004), Slice("b", "work", 1.0000000003, 2)]
    events = chrome_trace.events([Process("rank 0", [Track("main", touching)])])
    first, second = [event for event in events if event["ph"] == "X"]
    assert first["tid"] == second["tid"]
    assert first["ts"] + first["dur"] == second["ts"] == 1e6


def test_a_trace_is_written_or_a_sentence_says_why_not(tmp_path):
    processes = [Process("rank 0", [Track("main", [Slice("a", "work", 0, 1)])])]
    file = chrome_trace.save(tmp_path / "trace.json", processes, unit="ns", about={"step": "1 s"})
    trace = json.loads(file.read_text())
    assert trace["traceEvents"] == chrome_trace.events(processes)
    assert (trace["displayTimeUnit"], trace["otherData"]) == ("ns", {"step": "1 s"})
    with pytest.raises(LabError, match="Cannot write the trace"):
        chrome_trace.save(tmp_path / "nowhere" / "trace.json", processes)
