"""What happened when on this process: spans of threads, and of requests that were in flight.

Times are seconds of time.perf_counter, which on Linux is CLOCK_MONOTONIC: one clock for all
processes of a host. Outside a recording a span costs two readings of that clock.
"""

from __future__ import annotations

import threading
from collections import Counter
from time import perf_counter
from typing import NamedTuple

from labkit.errors import LabError

COMPUTE, COMMUNICATION, INPUT = "compute", "communication", "input"
KINDS = (COMPUTE, COMMUNICATION, INPUT)
IN_FLIGHT = ""  # the thread of a request that no thread is busy with
OPERATION, EXPLICIT = 0, 1  # layers: what a profiler saw counts only where nothing explicit is said


class Span(NamedTuple):
    """begin, end: seconds. thread: its name (see `thread_names`), or IN_FLIGHT. library: what
    carried it out, where known."""

    kind: str
    begin: float
    end: float
    name: str = ""
    thread: str = IN_FLIGHT
    layer: int = EXPLICIT
    library: str = ""


# Of the recording that is on: kind, begin, end, name, the thread's number in the system (None: in
# flight).
_log: list[tuple[str, float, float, str, int | None]] | None = None
_open: dict[int, span] = {}  # entered and not yet left, on any thread


class span:
    """`with span("communication", "bucket 3"): …`: this thread does so until the end of the block.

    kind: "compute", "communication", "input"; any other counts as idle. In nested spans the inner
    one counts.
    """

    __slots__ = ("kind", "name", "begin", "thread")

    def __init__(self, kind: str, name: str = ""):
        self.kind = kind
        self.name = name

    def __enter__(self) -> span:
        self.thread = threading.get_native_id()
        _open[id(self)] = self
        self.begin = perf_counter()
        return self

    def __exit__(self, *_) -> None:
        end = perf_counter()
        _open.pop(id(self), None)
        log = _log  # another thread may end the recording meanwhile
        if log is not None:
            log.append((self.kind, self.begin, end, self.name, self.thread))


def mark(kind: str, begin: float, end: float, name: str = "") -> None:
    """A span whose times are known [s of time.perf_counter]: a request, from its start to its end
    as seen.

    Marks may overlap each other and what threads do. Raises LabError when the end lies before the
    begin.
    """
    if not end >= begin:
        raise LabError(
            f"profiling.mark: {name or kind} ends at {end}, before it begins at {begin}."
        )
    log = _log
    if log is not None:
        log.append((kind, begin, end, name, None))


def thread_names() -> dict[int | None, str]:
    """number in the system -> name of every thread; where several have one name, with that
    number."""
    threads = threading.enumerate()
    count = Counter(thread.name for thread in threads)
    return {
        thread.native_id: thread.name
        if count[thread.name] == 1
        else f"{thread.name} {thread.native_id}"
        for thread in threads
    }


def _thread(number: int | None, names: dict[int | None, str]) -> str:
    return IN_FLIGHT if number is None else names.get(number, f"thread {number}")


class Recorder:
    """Of what `span` and `mark` say, one step at a time.

    So is the recorder of a profiler: `start` and `stop` stand around a step, `close` ends a
    recording also after an error in a step. error: seconds by which the clock may differ from
    perf_counter.
    """

    error = 0.0

    def start(self) -> None:
        global _log
        if _log is not None:
            raise LabError(
                "profiling.record is already recording: a recorded step cannot record another."
            )
        _log = []

    def stop(self, begin: float, end: float) -> list[Span]:
        """The spans of the step that ran from begin to end, cut to that; those still open end
        now."""
        global _log
        log = _log or []
        _log = None
        still_open = list(_open.values())  # other threads go on meanwhile
        for each in still_open:
            since = getattr(each, "begin", None)  # not set for an instant on another thread
            if since is not None and since < end:
                log.append((each.kind, since, end, each.name, each.thread))
        names = thread_names()
        return [
            Span(kind, max(since, begin), min(until, end), name, _thread(number, names))
            for kind, since, until, name, number in log
            if since < end and until > begin
        ]

    def close(self) -> None:
        """End the recording, also after an error in a step."""
        global _log
        _log = None
