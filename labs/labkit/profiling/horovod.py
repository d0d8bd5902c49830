"""Recorder of Horovod's timeline: which library carried tensors when, and how long they waited for all ranks.

In Horovod 0.28 rank 0 alone writes it, on its own clock, in microseconds since a time of day that the file
states (horovod/common/timeline.cc); calls are collective, so they are shown on every rank. It starts and
stops between steps, for which HOROVOD_TIMELINE=DYNAMIC has to be set before hvd.init() (operations.cc).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from labkit.errors import LabError
from labkit.horovod import timeline
from labkit.profiling.libraries import horovod_call
from labkit.profiling.parts import union
from labkit.profiling.spans import COMMUNICATION, IN_FLIGHT, Span

_START = "start_time_since_epoch_in_micros"


class Recorder:
    """One step at a time; the timeline runs for recorded steps alone."""

    error = 1e-6  # the timeline's times are whole microseconds
    notes = (
        "Horovod's timeline is rank 0's: its calls, which are collective, stand on every rank at the times "
        "that rank 0 saw. Waiting for all ranks to be ready (negotiation) counts as idle. A thread of rank 0 "
        "that is there to write it spins from hvd.init() on; the overhead stated here is that of writing "
        "alone.",
    )

    def __init__(self):
        loaded = [
            sys.modules[name] for name in ("horovod.torch", "horovod.tensorflow") if name in sys.modules
        ]
        module = loaded[0] if loaded else None
        if module is None or not module.is_initialized():
            raise LabError(
                'kind="horovod" needs a Horovod that runs: call hvd.init() before profiling.record.'
            )
        if os.environ.get("HOROVOD_TIMELINE") != "DYNAMIC":
            raise LabError(
                'kind="horovod" starts and stops the timeline; Horovod can if HOROVOD_TIMELINE=DYNAMIC '
                'was set before hvd.init(): launch.run(…, env={"HOROVOD_TIMELINE": "DYNAMIC"}).'
            )
        self._hvd = module
        self._folder = tempfile.TemporaryDirectory()
        self._file = None
        self._number = 0  # of the step
        self._on = False

    def start(self) -> None:
        self._number += 1
        self._file = Path(self._folder.name) / f"{self._number}.json"
        self._hvd.start_timeline(str(self._file))
        self._on = True

    def stop(self, begin: float, end: float) -> list[Span]:
        self._on = False
        self._hvd.stop_timeline()  # returns when all is written
        if self._hvd.rank() != 0 or not self._file.exists():
            return []
        text = self._file.read_text(encoding="utf-8", errors="replace")
        self._file.unlink()
        return spans_of(timeline.parse(text)) if text.strip() else []

    def close(self) -> None:
        if self._on:
            self._hvd.stop_timeline()
        self._folder.cleanup()


def spans_of(events: list[dict]) -> list[Span]:
    """Library calls and copies to and from the fusion buffer are communication; negotiation is not."""
    # The wall clock and perf_counter differ by a constant, unless somebody sets the former.
    since = next(event["args"][_START] for event in events if _START in event.get("args", {})) * 1e-6
    back = since - (time.time() - time.perf_counter())
    spans = []
    for call in timeline.collectives(events):
        if call.seconds is not None:
            begin = call.parts[0].start + back
            spans.append(
                _span(COMMUNICATION, begin, begin + call.seconds, call.name, horovod_call(call.name))
            )
    # Each tensor has its own: of what waits or is copied at the same time, the whole counts once.
    waits: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for activity in timeline.activities(events):
        if activity.seconds is not None and activity.name.startswith(("NEGOTIATE_", "MEMCPY_")):
            begin = activity.start + back
            waits[activity.name].append((begin, begin + activity.seconds))
    for name, times in waits.items():
        kind = COMMUNICATION if name.startswith("MEMCPY_") else "negotiation"
        spans += [_span(kind, begin, end, name, "Horovod") for begin, end in union(times)]
    return spans


def _span(kind: str, begin: float, end: float, name: str, library: str) -> Span:
    return Span(kind, begin, end, name, IN_FLIGHT, library=library, shared=True)
