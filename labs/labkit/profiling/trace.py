"""A profile as a trace: for each rank a process, with tracks for steps, their parts, threads and
requests."""

from __future__ import annotations

from pathlib import Path

from labkit import chrome_trace
from labkit.chrome_trace import Process, Slice, Track
from labkit.profiling import parts
from labkit.profiling.spans import IN_FLIGHT


def save(profile, path: str | Path) -> Path:
    """Write the steps of all ranks and return the file's path. Raises LabError when it cannot be
    written."""
    about = {
        "step": str(profile.step),
        "recording": str(profile.overhead),
        "clocks within [s]": profile.clock_error,
    }
    return chrome_trace.save(path, [_process(rank) for rank in profile.ranks], about=about)


def _process(rank) -> Process:
    tracks: dict[str, list[Slice]] = {"steps": [], "where the time goes": []}
    for number, (window, spans) in enumerate(zip(rank.steps, rank.spans, strict=True)):
        tracks["steps"].append(Slice(f"step {number}", "step", *window))
        tracks["where the time goes"] += _parts(window, spans)
        for span in spans:
            track = "in flight" if span.thread == IN_FLIGHT else span.thread
            details = {"library": span.library} if span.library else None
            slice_ = Slice(span.name or span.kind, span.kind, span.begin, span.end, details)
            tracks.setdefault(track, []).append(slice_)
    name = f"rank {rank.rank} on {rank.host}"
    return Process(name, [Track(track, slices) for track, slices in tracks.items()])


def _parts(window, spans) -> list[Slice]:
    """A step's parts one after the other: they fill it and do not overlap."""
    pieces = parts.pieces(window, parts.busy(spans))
    shown = {
        ("compute", "compute"): parts.without(pieces["compute"], pieces["overlapped"]),
        ("overlapped", "compute over communication"): pieces["overlapped"],
        ("exposed", "exposed"): pieces["exposed"],
        ("input", "input"): pieces["input"],
        ("idle", "idle"): pieces["idle"],
    }
    return [
        Slice(name, part, begin, end)
        for (part, name), moments in shown.items()
        for begin, end in moments
    ]
