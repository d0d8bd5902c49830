"""What each rank of a run did when: for plots.timeline, and as a file for Perfetto's viewer."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from labkit.errors import LabError

BUSY = ("compute", "reduce")
_OUT, _INTO = 2, 4  # of the tracks of a rank: what it does, beside that, out of and into a node, inside one
_TRACKS = ("", " beside", " out, to other nodes", " out, inside", " in, from other nodes", " in, inside")


class Span(NamedTuple):
    """kind: compute, reduce, wait or send. start, end: seconds. peer: other rank, or -1. size: bytes."""

    kind: str
    start: float
    end: float
    peer: int = -1
    size: float = 0


def spans(run) -> list[list[Span]]:
    """By rank, in order: compute, reduce, send (its bytes leave), and wait: all other time until its end."""
    if run.trace is None:
        raise LabError(
            "This run kept no trace: run it with trace=True, as in cluster.run(fn, …, trace=True)."
        )
    found: list[list[Span]] = [[] for _ in range(run.ranks)]
    ends: list[dict[float, int]] = [{} for _ in range(run.ranks)]  # when a wait ended -> for whom it was
    for rank, kind, start, end, peer, size in run.trace:
        if kind == "wait":
            ends[rank][end] = peer
        elif end > start or kind == "send":
            found[rank].append(Span(kind, start, end, peer, size))
    for rank, mine in enumerate(found):
        mine += _waits(mine, run.times[rank], ends[rank])
        mine.sort(key=lambda span: (span.start, span.end))
    return found


def _waits(mine: list[Span], end: float, ends: dict[float, int]) -> list[Span]:
    """The gaps between what a rank computes and adds up, from 0 to its end, cut where a wait ended."""
    found, now, stops = [], 0.0, sorted(ends)
    for span in [*sorted((one for one in mine if one.kind in BUSY), key=lambda one: one.start), None]:
        until = end if span is None else span.start
        if until > now:
            cuts = [now, *stops[bisect_right(stops, now) : bisect_left(stops, until)], until]
            found += [Span("wait", start, stop, ends.get(stop, -1)) for start, stop in pairwise(cuts)]
        now = max(now, until if span is None else span.end)
    return found


def save(run, path: str | Path) -> Path:
    """Write `run` as Chrome's trace events: nodes are processes, ranks are threads, messages are arrows."""
    events, tracks = [], set()
    for rank, mine in enumerate(spans(run)):
        busy_until = 0.0
        for span in mine:
            if span.kind == "send":
                events += _message(run, rank, span, len(events), tracks)
                continue
            beside = (
                span.kind in BUSY and span.start < busy_until
            )  # a non-blocking collective adds up meanwhile
            busy_until = max(busy_until, span.end)
            whom = f" for rank {span.peer}" if span.kind == "wait" and span.peer >= 0 else ""
            events.append(_slice(run, rank, int(beside), span.kind + whom, span.start, span.end, tracks))
    names = [_name(run, *track) for track in sorted(tracks)]
    nodes = [_meta("process_name", node + 1, 0, f"node {node}") for node in sorted(set(run.nodes))]
    path = Path(path)
    try:
        path.write_text(
            json.dumps({"traceEvents": [*nodes, *sum(names, []), *events], "displayTimeUnit": "ns"})
        )
    except OSError as error:
        raise LabError(f"Cannot write the trace to {path} ({error.strerror}).") from error
    return path


def _message(run, rank: int, span: Span, number: int, tracks: set) -> list[dict]:
    """A message: bytes that leave, the same bytes as they arrive, and the arrow between the two."""
    inside = run.nodes[rank] == run.nodes[span.peer]
    latency = (run.cluster.machine.inside if inside else run.cluster.machine.between).latency
    out = _slice(run, rank, _OUT + inside, f"to rank {span.peer}", span.start, span.end, tracks)
    start, end = span.start + latency, span.end + latency
    into = _slice(run, span.peer, _INTO + inside, f"from rank {rank}", start, end, tracks)
    arrow = {"name": "message", "cat": "message", "id": number}
    ends = []
    for phase, at in (({"ph": "s"}, out), ({"ph": "f", "bp": "e"}, into)):
        at["args"] = {"bytes": span.size}
        ends.append({**arrow, **phase, **{key: at[key] for key in ("pid", "tid", "ts")}})
    return [out, into, *ends]


def _slice(run, rank: int, track: int, name: str, start: float, end: float, tracks: set) -> dict:
    tracks.add((rank, track))
    # Whole nanoseconds, the viewer's own unit: a slice that is rounded into the next one would be dropped.
    begin, stop = round(start * 1e9), round(end * 1e9)
    times = {"ts": begin / 1000, "dur": (stop - begin) / 1000}
    return {
        "name": name,
        "cat": "rank",
        "ph": "X",
        **times,
        "pid": run.nodes[rank] + 1,
        "tid": _thread(rank, track),
    }


def _thread(rank: int, track: int) -> int:
    return 1 + rank * len(_TRACKS) + track  # numbers from 1 on: the viewer takes 0 for "none"


def _name(run, rank: int, track: int) -> list[dict]:
    place = run.nodes[rank] + 1, _thread(rank, track)
    order = _meta("thread_sort_index", *place, "")
    return [
        _meta("thread_name", *place, f"rank {rank}{_TRACKS[track]}"),
        {**order, "args": {"sort_index": place[1]}},
    ]


def _meta(what: str, pid: int, tid: int, name: str) -> dict:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
