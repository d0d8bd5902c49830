"""Chrome's trace events, which Perfetto shows (`make trace FILE=…`): the one writer of them.

What is to be seen is plain data: processes with tracks, tracks with slices, and arrows between
slices. The format: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from labkit.errors import LabError


class Slice(NamedTuple):
    """Something that lasts. begin, end: seconds. details: shown when the slice is chosen.

    leaves, arrives: the number of an arrow from here, or to here. An arrow leaves one slice and
    arrives at another, and joins their beginnings.
    """

    name: str
    category: str
    begin: float
    end: float
    details: dict | None = None
    leaves: int | None = None
    arrives: int | None = None


class Track(NamedTuple):
    """A row of slices, in any order. Those that overlap and do not nest are put into rows of their
    own."""

    name: str
    slices: Sequence[Slice]


class Process(NamedTuple):
    """A heading and the tracks below it, in the order in which they are shown."""

    name: str
    tracks: Sequence[Track]


def save(
    path: str | Path, processes: Iterable[Process], unit: str = "ms", about: dict | None = None
) -> Path:
    """Write a trace and return its path. Raises LabError when it cannot be written.

    unit: "ms" or "ns", of the times shown. about: anything that JSON takes, kept beside the events.
    """
    trace = {"traceEvents": events(processes), "displayTimeUnit": unit}
    if about is not None:
        trace["otherData"] = about
    path = Path(path)
    try:
        path.write_text(json.dumps(trace), encoding="utf-8")
    except OSError as error:
        raise LabError(f"Cannot write the trace to {path} ({error.strerror}).") from error
    return path


def events(processes: Iterable[Process]) -> list[dict]:
    """The events of a trace, as JSON has them. Times are microseconds there."""
    written: list[dict] = []
    for pid, process in enumerate(processes, start=1):  # from 1 on: the viewer takes 0 for "none"
        written.append(_metadata("process_name", pid, 0, name=process.name))
        written.append(_metadata("process_sort_index", pid, 0, sort_index=pid))
        tid = 0
        for track in process.tracks:
            for row, slices in enumerate(_rows(track.slices), start=1):
                tid += 1
                name = track.name if row == 1 else f"{track.name} {row}"
                written.append(_metadata("thread_name", pid, tid, name=name))
                written.append(_metadata("thread_sort_index", pid, tid, sort_index=tid))
                for each in slices:
                    written += _slice(pid, tid, each)
    return written


def _rows(slices: Iterable[Slice]) -> list[list[Slice]]:
    """The slices in as few rows as their nesting allows; the viewer would drop what does not
    nest."""
    rows: list[list[Slice]] = []
    open_ends: list[
        list[int]
    ] = []  # by row, the ends of the slices that are open, the innermost last
    for each in sorted(
        slices, key=lambda each: (_nanoseconds(each.begin), -_nanoseconds(each.end))
    ):
        row = next((row for row, ends in enumerate(open_ends) if _fits(each, ends)), len(rows))
        if row == len(rows):
            rows.append([])
            open_ends.append([])
        rows[row].append(each)
        open_ends[row].append(_nanoseconds(each.end))
    return rows


def _fits(each: Slice, ends: list[int]) -> bool:
    """Whether the slice lies inside those open in a row, once those that ended before it are
    gone."""
    while ends and ends[-1] <= _nanoseconds(each.begin):
        ends.pop()
    return not ends or _nanoseconds(each.end) <= ends[-1]


def _nanoseconds(seconds: float) -> int:
    """Whole ones, the viewer's own unit: a slice that is rounded into the next one would be
    dropped."""
    return round(seconds * 1e9)


def _slice(pid: int, tid: int, each: Slice) -> list[dict]:
    """The event of a slice, and those of the arrows that begin or end there."""
    begin = _nanoseconds(each.begin)
    place = {"pid": pid, "tid": tid, "ts": begin / 1000}
    lasts = (_nanoseconds(each.end) - begin) / 1000
    event = {"name": each.name, "cat": each.category, "ph": "X", **place, "dur": lasts}
    if each.details:
        event["args"] = each.details
    written = [event]
    arrow = {"name": "message", "cat": "message"}
    if each.leaves is not None:
        written.append({**arrow, "id": each.leaves, "ph": "s", **place})
    if each.arrives is not None:
        written.append({**arrow, "id": each.arrives, "ph": "f", "bp": "e", **place})
    return written


def _metadata(what: str, pid: int, tid: int, **details) -> dict:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": details}
