"""Where a step's time went: intervals, their union, and the parts of a step, which sum to its length.

A thread does one thing at a time: of nested spans the innermost counts. Over threads and requests in flight
the kinds are joined (union: what overlaps counts once), and each moment of a step falls to the first of
compute, communication, input, idle that is on.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from labkit.profiling.spans import COMMUNICATION, COMPUTE, IN_FLIGHT, INPUT, KINDS, Span

Interval = tuple[float, float]
PARTS = ("compute", "communication", "overlapped", "exposed", "input", "idle", "step")


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as disjoint intervals, in order."""
    found: list[list[float]] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        elif end > begin:
            found.append([begin, end])
    return [(begin, end) for begin, end in found]


def common(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """The moments in both; a and b are unions."""
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if end > begin:
            found.append((begin, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """The moments in a and not in b; a and b are unions."""
    if not a:
        return []
    edges = [a[0][0], *(edge for one in b for edge in one), max(a[-1][1], b[-1][1] if b else a[-1][1])]
    gaps = [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if end > begin]
    return common(a, gaps)


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)


def innermost(spans: Iterable[Span], flat: bool = False) -> list[tuple[float, float, Span]]:
    """One thread's spans as (begin, end, span), cut so that at each moment only the innermost is left.

    The innermost is the one that began last; what a profiler saw lies under all that is said explicitly,
    unless flat.
    """
    waiting = sorted((one for one in spans if one.end > one.begin), key=lambda one: one.begin)
    moments = sorted({moment for one in waiting for moment in (one.begin, one.end)})
    found, active, place = [], [], 0
    for begin, end in pairwise(moments):
        while place < len(waiting) and waiting[place].begin <= begin:
            one = waiting[place]
            heapq.heappush(active, (0 if flat else -one.layer, -one.begin, one.end, place))
            place += 1
        while active and active[0][2] <= begin:
            heapq.heappop(active)
        if active:
            found.append((begin, end, waiting[active[0][3]]))
    return found


def own(spans: Iterable[Span]) -> list[tuple[Span, float]]:
    """Every span with its own seconds: of a thread's spans, without those inside of them."""
    threads: dict[str, list[Span]] = defaultdict(list)
    for one in spans:
        threads[one.thread].append(one)
    found = [(one, one.end - one.begin) for one in threads.pop(IN_FLIGHT, [])]
    for mine in threads.values():
        seconds = dict.fromkeys(map(id, mine), 0.0)
        for begin, end, one in innermost(mine, flat=True):
            seconds[id(one)] += end - begin
        found += [(one, seconds[id(one)]) for one in mine]
    return found


def busy(spans: Iterable[Span]) -> dict[str, list[Interval]]:
    """kind -> when it is on, on any thread or in flight."""
    threads: dict[str, list[Span]] = defaultdict(list)
    when: dict[str, list[Interval]] = {kind: [] for kind in KINDS}
    for one in spans:
        if one.thread != IN_FLIGHT:
            threads[one.thread].append(one)
        elif one.kind in when:
            when[one.kind].append((one.begin, one.end))
    for mine in threads.values():
        for begin, end, one in innermost(mine):
            if one.kind in when:
                when[one.kind].append((begin, end))
    return {kind: union(intervals) for kind, intervals in when.items()}


def pieces(window: Interval, when: dict[str, list[Interval]]) -> dict[str, list[Interval]]:
    """part -> its moments within the window. compute, exposed, input and idle fill it without overlap."""
    compute, communication, reading = (
        common(when[kind], [window]) for kind in (COMPUTE, COMMUNICATION, INPUT)
    )
    sending = union([*compute, *communication])
    return {
        "compute": compute,
        "communication": communication,
        "overlapped": common(communication, compute),
        "exposed": without(communication, compute),
        "input": without(reading, sending),
        "idle": without([window], union([*sending, *reading])),
    }


def parts(window: Interval, when: dict[str, list[Interval]]) -> dict[str, float]:
    """part -> seconds, in the order of PARTS; compute + exposed + input + idle = step."""
    return {part: length(moments) for part, moments in pieces(window, when).items()} | {
        "step": window[1] - window[0]
    }
