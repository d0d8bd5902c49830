"""A profile as Chrome's trace events, which Perfetto opens: a process for each rank, a track for each thread.

Slices of one track have to nest, so requests in flight at once lie on tracks of their own.
"""

from __future__ import annotations

import json
from pathlib import Path

from labkit.errors import LabError
from labkit.profiling import parts
from labkit.profiling.spans import IN_FLIGHT

_PARTS = ("compute", "overlapped", "exposed", "input", "idle")


def save(profile, path: str | Path) -> Path:
    """Write the events of all ranks and return the file's path. Raises LabError when it cannot be written."""
    events = [event for one in profile.ranks for event in _rank(one)]
    about = {
        "step": str(profile.step),
        "recording": str(profile.overhead),
        "clocks within [s]": profile.clock_error,
        "notes": profile.notes,
    }
    path = Path(path)
    try:
        path.write_text(
            json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}), encoding="utf-8"
        )
    except OSError as error:
        raise LabError(f"Cannot write the trace to {path} ({error.strerror}).") from error
    return path


def _rank(one) -> list[dict]:
    """The events of a rank, in tracks: its steps, the parts of each, its threads, its requests in flight."""
    tracks = {"steps": [], "where the time goes": []}
    for number, (window, spans) in enumerate(zip(one.steps, one.spans, strict=True)):
        tracks["steps"].append((f"step {number}", "step", *window, {}))
        moments = parts.pieces(window, parts.busy(spans))
        alone = {**moments, "compute": parts.without(moments["compute"], moments["overlapped"])}
        tracks["where the time goes"] += [
            ("compute over communication" if part == "overlapped" else part, part, begin, end, {})
            for part in _PARTS
            for begin, end in alone[part]
        ]
        for span in spans:
            args = {"library": span.library} if span.library else {}
            mine = tracks.setdefault("in flight" if span.thread == IN_FLIGHT else span.thread, [])
            mine.append((span.name or span.kind, span.kind, span.begin, span.end, args))
    pid = one.rank + 1  # numbers from 1 on: the viewer takes 0 for "none"
    events = [
        _meta("process_name", pid, 0, name=f"rank {one.rank} on {one.host}"),
        _meta("process_sort_index", pid, 0, sort_index=one.rank),
    ]
    tid = 0
    for track, slices in tracks.items():
        for lane, mine in enumerate(_lanes(slices)):
            tid += 1
            events.append(_meta("thread_name", pid, tid, name=track + (f" {lane + 1}" if lane else "")))
            events.append(_meta("thread_sort_index", pid, tid, sort_index=tid))
            events += [_slice(pid, tid, *slice_) for slice_ in mine]
    return events


def _lanes(slices: list[tuple]) -> list[list[tuple]]:
    """The slices in as few rows as their nesting allows, with times in whole nanoseconds."""
    lanes: list[list[tuple]] = []
    opened: list[list[int]] = []  # for each lane the ends of the slices that hold the next one
    # Whole nanoseconds, the viewer's own unit: a slice that is rounded into the next one would be dropped.
    whole = [(name, kind, round(b * 1e9), round(e * 1e9), args) for name, kind, b, e, args in slices]
    for one in sorted(whole, key=lambda one: (one[2], -one[3])):
        place = next((n for n, ends in enumerate(opened) if _fits(one, ends)), len(lanes))
        if place == len(lanes):
            lanes.append([])
            opened.append([])
        opened[place].append(one[3])
        lanes[place].append(one)
    return lanes


def _fits(one: tuple, ends: list[int]) -> bool:
    """Does the slice lie inside those that are open in a lane, once those that ended before it are gone?"""
    while ends and ends[-1] <= one[2]:
        ends.pop()
    return not ends or one[3] <= ends[-1]


def _slice(pid: int, tid: int, name: str, kind: str, begin: int, end: int, args: dict) -> dict:
    times = {"ts": begin / 1000, "dur": (end - begin) / 1000}  # microseconds
    return {"name": name, "cat": kind, "ph": "X", **times, "pid": pid, "tid": tid, "args": args}


def _meta(what: str, pid: int, tid: int, **args) -> dict:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args}
