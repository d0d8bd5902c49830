"""What each rank of a run did when: for plots.timeline, and as a file for Perfetto's viewer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from labkit import chrome_trace
from labkit.chrome_trace import Process, Slice, Track
from labkit.errors import LabError

BUSY = ("compute", "reduce")
# The tracks of a rank: what it does, what it does beside that, and the bytes that leave and arrive.
TRACKS = (
    "",
    " beside",
    " out, to other nodes",
    " out, inside",
    " in, from other nodes",
    " in, inside",
)
OUT, INTO = 2, 4  # places in TRACKS; inside a node one further


class Span(NamedTuple):
    """kind: compute, reduce, wait or send. start, end: seconds. peer: other rank, or -1. size:
    bytes."""

    kind: str
    start: float
    end: float
    peer: int = -1
    size: float = 0


def spans(run) -> list[list[Span]]:
    """By rank, in order: compute, reduce, send (its bytes leave), and wait: all other time until
    its end."""
    if run.trace is None:
        raise LabError(
            "This run kept no trace: run it with trace=True, as in cluster.run(fn, …, trace=True)."
        )
    by_rank: list[list[Span]] = [[] for _ in range(run.ranks)]
    # When a wait ended -> for whom it was.
    waits: list[dict[float, int]] = [{} for _ in range(run.ranks)]
    for rank, kind, start, end, peer, size in run.trace:
        if kind == "wait":
            waits[rank][end] = peer
        elif end > start or kind == "send":
            by_rank[rank].append(Span(kind, start, end, peer, size))
    for rank, of_rank in enumerate(by_rank):
        of_rank += _gaps(of_rank, run.times[rank], waits[rank])
        of_rank.sort(key=lambda span: (span.start, span.end))
    return by_rank


def _gaps(of_rank: list[Span], end: float, waits: dict[float, int]) -> list[Span]:
    """The waits between what a rank computes and adds up, from 0 to `end`, cut where a wait
    ended."""
    stops = sorted(waits)
    busy = sorted((span for span in of_rank if span.kind in BUSY), key=lambda span: span.start)
    gaps = []
    now = 0.0
    for span in [*busy, Span("end", end, end)]:
        if span.start > now:
            cuts = [
                now,
                *stops[bisect_right(stops, now) : bisect_left(stops, span.start)],
                span.start,
            ]
            gaps += [
                Span("wait", start, stop, waits.get(stop, -1)) for start, stop in pairwise(cuts)
            ]
        now = max(now, span.end)
    return gaps


def save(run, path: str | Path) -> Path:
    """Write `run` as a trace for Perfetto: nodes are processes, ranks are threads, messages are
    arrows."""
    # (rank, place in TRACKS) -> its slices.
    tracks: dict[tuple[int, int], list[Slice]] = defaultdict(list)
    messages = 0
    for rank, of_rank in enumerate(spans(run)):
        busy_until = 0.0
        for span in of_rank:
            if span.kind == "send":
                _add_message(run, rank, span, messages, tracks)
                messages += 1
                continue
            # A non-blocking collective adds up while the rank computes.
            beside = span.kind in BUSY and span.start < busy_until
            busy_until = max(busy_until, span.end)
            whom = f" for rank {span.peer}" if span.kind == "wait" and span.peer >= 0 else ""
            tracks[rank, int(beside)].append(Slice(span.kind + whom, "rank", span.start, span.end))
    nodes: dict[int, list[Track]] = {node: [] for node in sorted(set(run.nodes))}
    for rank, place in sorted(tracks):
        nodes[run.nodes[rank]].append(Track(f"rank {rank}{TRACKS[place]}", tracks[rank, place]))
    processes = [Process(f"node {node}", of_node) for node, of_node in nodes.items()]
    return chrome_trace.save(path, processes, unit="ns")


def _add_message(
    run, rank: int, span: Span, number: int, tracks: dict[tuple[int, int], list[Slice]]
) -> None:
    """A message: bytes that leave, the same bytes as they arrive, and the arrow between the two."""
    inside = run.nodes[rank] == run.nodes[span.peer]
    link = run.cluster.machine.inside if inside else run.cluster.machine.between
    size = {"bytes": span.size}
    out = Slice(f"to rank {span.peer}", "rank", span.start, span.end, size, leaves=number)
    tracks[rank, OUT + inside].append(out)
    begin, end = span.start + link.latency, span.end + link.latency
    into = Slice(f"from rank {rank}", "rank", begin, end, size, arrives=number)
    tracks[span.peer, INTO + inside].append(into)
