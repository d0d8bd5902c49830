"""Run a training step several times and record where its time goes, on all ranks.

Steps are timed as labkit.timing does: each begins with a barrier, and the slowest rank's time is
the step's.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter

import numpy as np

from labkit import timing, world
from labkit.errors import LabError
from labkit.profiling import clock
from labkit.profiling.parts import Interval
from labkit.profiling.profile import Profile, RankTrace
from labkit.profiling.spans import Span

KINDS = ("spans", "torch")  # modules beside this one, loaded when asked for


def record(
    step: Callable[[], object],
    steps: int = 5,
    comm=None,
    kind: str = "spans",
    *,
    device: str | None = None,
    warmup: int = 1,
    overhead: bool = True,
) -> Profile:
    """Run `step()` and record `steps` of the runs; returns the Profile, on every rank the same.

    comm: an mpi4py communicator; all its ranks call record with the same numbers.
    kind: "spans" (what `span` and `mark` say), or "torch": that and what PyTorch's profiler sees.
    device: "cuda…": wait at the end of each step until it has done its work.
    overhead: also run as many steps without recording, in turns, to state how much recording costs.
    So step runs warmup + 2 · steps times (without overhead: warmup + steps).

    Raises LabError for a kind that is not there, or a recorded step that records.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise LabError(
            f"profiling.record: steps={steps!r} records nothing; give a whole number, 1 or more."
        )
    # A group of the recording's own: its messages never meet those of the step.
    group = None if comm is None else comm.Dup()
    with ExitStack() as stack:
        recorders = _recorders(kind, stack)
        own = _record(step, steps, group, recorders, device, warmup, overhead)
    everyone = [own] if group is None else group.allgather(own)
    if group is not None:
        group.Free()  # collective: after an error on one rank it might wait for ever
    return _merged(everyone)


@dataclass
class Recording:
    """What one rank recorded, on its own clock.

    steps: (begin, end) of each recorded step; spans: those of each. unrecorded: seconds of the
    others. offsets: (seconds this clock is ahead of rank 0's, largest error), before the first step
    and after the last. error: of the recorder's clock, in seconds.
    """

    host: str = field(default_factory=socket.gethostname)
    steps: list[Interval] = field(default_factory=list)
    spans: list[list[Span]] = field(default_factory=list)
    unrecorded: list[float] = field(default_factory=list)
    offsets: list[tuple[float, float]] = field(default_factory=list)
    error: float = 0.0


def _recorders(kind: str, stack: ExitStack) -> list:
    """That of the kind, and that of spans, which is the last to be started.

    The stack closes them at its end.
    """
    if kind not in KINDS:
        raise LabError(f"profiling.record: no kind {kind!r}; it has {' and '.join(KINDS)}.")
    recorders = []
    for name in dict.fromkeys([kind, "spans"]):
        recorder = import_module(f"labkit.profiling.{name}").Recorder()
        stack.callback(recorder.close)
        recorders.append(recorder)
    return recorders


def _record(
    step, steps: int, group, recorders: list, device, warmup: int, overhead: bool
) -> Recording:
    own = Recording()
    for _ in range(warmup):
        step()
    own.offsets.append(clock.offset(group))

    def recorded() -> None:
        for recorder in recorders:
            recorder.start()
        begin, end = _run(step, group, device)
        own.spans.append(
            [span for recorder in reversed(recorders) for span in recorder.stop(begin, end)]
        )
        own.steps.append((begin, end))

    def unrecorded() -> None:
        begin, end = _run(step, group, device)
        own.unrecorded.append(end - begin)

    turn = [recorded, unrecorded] if overhead else [recorded]
    with timing.no_garbage_collection():
        for number in range(steps):
            for run in reversed(turn) if number % 2 else turn:
                run()
    own.offsets.append(clock.offset(group))
    own.error = max(recorder.error for recorder in recorders)
    return own


def _run(step, group, device) -> Interval:
    timing.device_sync(device)
    if group is not None:
        group.Barrier()
    begin = perf_counter()
    step()
    timing.device_sync(device)
    return begin, perf_counter()


def _merged(recordings: list[Recording]) -> Profile:
    """All ranks on rank 0's clock, from the first step's begin on; a step lasts as long as on the
    slowest."""
    lasted = np.array([[end - begin for begin, end in own.steps] for own in recordings]).max(axis=0)
    zero = recordings[0].steps[0][0]
    ranks = range(len(recordings)) if len(recordings) > 1 else [world.rank()]
    traces = [
        _on_rank_0s_clock(own, rank, zero, lasted)
        for rank, own in zip(ranks, recordings, strict=True)
    ]
    resolution = timing.clock_resolution()
    step = timing.Measurement(lasted, resolution)
    unrecorded = np.array([own.unrecorded for own in recordings]).max(axis=0)
    overhead = (
        timing.Ratio(step, timing.Measurement(unrecorded, resolution)) if unrecorded.size else None
    )
    return Profile(traces, step, overhead, max(map(_clock_error, recordings)))


def _on_rank_0s_clock(own: Recording, rank: int, zero: float, lasted: np.ndarray) -> RankTrace:
    """zero: the begin of the first step on rank 0's clock. lasted: seconds of each step."""
    (first, _), (last, _) = own.offsets
    back = zero + (first + last) / 2
    begins = [begin - back for begin, _ in own.steps]
    steps = [(begin, begin + seconds) for begin, seconds in zip(begins, lasted, strict=True)]
    spans = [
        [span._replace(begin=span.begin - back, end=span.end - back) for span in of_step]
        for of_step in own.spans
    ]
    return RankTrace(rank, own.host, steps, spans)


def _clock_error(own: Recording) -> float:
    (first, error), (last, error_again) = own.offsets
    drift = abs(last - first)  # of the two clocks, between the two estimates
    return own.error + max(error, error_again) + drift / 2
