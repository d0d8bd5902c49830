"""Where a step's time went: intervals, their union, and the parts of a step, which sum to its
length.

A thread does one thing at a time: of nested spans the innermost counts. Over threads and requests
in flight the kinds are joined (union: what overlaps counts once), and each moment of a step falls
to the first of compute, communication, input, idle that is on.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, pairwise

from labkit.profiling.spans import COMMUNICATION, COMPUTE, IN_FLIGHT, INPUT, KINDS, Span

Interval = tuple[float, float]
PARTS = ("compute", "communication", "overlapped", "exposed", "input", "idle", "step")


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as disjoint intervals, in order."""
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif end > begin:
            joined.append((begin, end))
    return joined


def common(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """The moments in both; a and b are unions."""
    both = []
    i = j = 0
    while i < len(a) and j < len(b):
        begin = max(a[i][0], b[j][0])
        end = min(a[i][1], b[j][1])
        if end > begin:
            both.append((begin, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return both


def without(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """The moments in a and not in b; a and b are unions."""
    if not a:
        return []
    first = a[0][0]
    last = max(a[-1][1], b[-1][1] if b else a[-1][1])
    edges = [first, *chain.from_iterable(b), last]
    gaps = [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if end > begin]
    return common(a, gaps)


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)


def innermost(spans: Iterable[Span], flat: bool = False) -> list[tuple[float, float, Span]]:
    """One thread's spans as (begin, end, span), cut so that at each moment only the innermost is
    left.

    The innermost is the one that began last; what a profiler saw lies under all that is said
    explicitly, unless flat.
    """
    waiting = sorted((span for span in spans if span.end > span.begin), key=lambda span: span.begin)
    moments = sorted({moment for span in waiting for moment in (span.begin, span.end)})
    cut = []
    active: list[
        tuple[int, float, float, int]
    ] = []  # a heap, the innermost first: layer, -begin, end, place
    place = 0
    for begin, end in pairwise(moments):
        while place < len(waiting) and waiting[place].begin <= begin:
            span = waiting[place]
            heapq.heappush(active, (0 if flat else -span.layer, -span.begin, span.end, place))
            place += 1
        while active and active[0][2] <= begin:
            heapq.heappop(active)
        if active:
            cut.append((begin, end, waiting[active[0][3]]))
    return cut


def own(spans: Iterable[Span]) -> list[tuple[Span, float]]:
    """Every span with its own seconds: of a thread's spans, without those inside of them."""
    threads = _by_thread(spans)
    own_seconds = [(span, span.end - span.begin) for span in threads.pop(IN_FLIGHT, [])]
    for of_thread in threads.values():
        seconds = dict.fromkeys(map(id, of_thread), 0.0)
        for begin, end, span in innermost(of_thread, flat=True):
            seconds[id(span)] += end - begin
        own_seconds += [(span, seconds[id(span)]) for span in of_thread]
    return own_seconds


def busy(spans: Iterable[Span]) -> dict[str, list[Interval]]:
    """kind -> when it is on, on any thread or in flight."""
    threads = _by_thread(spans)
    on = [(span.begin, span.end, span) for span in threads.pop(IN_FLIGHT, [])]
    for of_thread in threads.values():
        on += innermost(of_thread)
    when: dict[str, list[Interval]] = {kind: [] for kind in KINDS}
    for begin, end, span in on:
        if span.kind in when:
            when[span.kind].append((begin, end))
    return {kind: union(intervals) for kind, intervals in when.items()}


def pieces(window: Interval, when: dict[str, list[Interval]]) -> dict[str, list[Interval]]:
    """part -> its moments within the window. compute, exposed, input and idle fill it without
    overlap."""
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
    seconds = {part: length(moments) for part, moments in pieces(window, when).items()}
    return {**seconds, "step": window[1] - window[0]}


def _by_thread(spans: Iterable[Span]) -> dict[str, list[Span]]:
    threads: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        threads[span.thread].append(span)
    return threads
