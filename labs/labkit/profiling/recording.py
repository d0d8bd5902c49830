"""Where the step time goes: compute, communication (overlapped or exposed), input wait, idle; by rank.

    with profiling.span("communication", "bucket 3"): …
    profile = profiling.record(step, comm=comm)
    profile.table(); profile.show(); profile.save("trace.json")

Steps are timed as labkit.timing does: each begins with a barrier, and the slowest rank's time is the step's.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from time import perf_counter

import numpy as np

from labkit import timing, world
from labkit.errors import LabError
from labkit.profiling import clock as profiling_clock
from labkit.profiling.profile import Profile, RankTrace
from labkit.profiling.spans import Span, Spans, mark, span

__all__ = ["Profile", "Span", "mark", "record", "span"]


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

    comm: an mpi4py communicator, or torch.distributed; all its ranks call record with the same numbers.
    kind: "spans" (what `span` and `mark` say), or that and what a profiler sees: "torch", "tensorflow",
      "horovod", and "nsys" (ranges for Nsight Systems); several are joined by "+".
    device: "cuda…": wait at the end of each step until it has done its work.
    overhead: also run as many steps without recording, in turns, to state how much recording costs.
    So step runs warmup + 2 · steps times (without overhead: warmup + steps).

    Raises LabError for a kind that is not there, or a recorded step that records.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise LabError(f"profiling.record: steps={steps!r} records nothing; give a whole number, 1 or more.")
    if comm is None and world.size() > 1 and "horovod" in str(kind):
        raise LabError('profiling.record: kind="horovod" records all ranks together; give it their comm=….')
    group = profiling_clock.of(comm)
    with closing(Together(kind)) as recorder:
        mine = _record(step, steps, group, recorder, device, warmup, overhead)
    everyone = [mine] if group is None else group.allgather(mine)
    if group is not None:
        group.Free()  # collective: after an error on one rank it might wait for ever
    return _merged(everyone, kind)


def _record(step, steps, comm, recorder, device, warmup, overhead) -> dict:
    for _ in range(warmup):
        step()
    clock = [profiling_clock.offset(comm)]
    windows: list[tuple[float, float]] = []
    spans: list[list[Span]] = []
    plain: list[float] = []

    def recorded() -> None:
        recorder.start()
        begin, end = _run(step, comm, device)
        spans.append(recorder.stop(begin, end))
        windows.append((begin, end))

    def unrecorded() -> None:
        begin, end = _run(step, comm, device)
        plain.append(end - begin)

    turn = [recorded, unrecorded] if overhead else [recorded]
    with timing.no_garbage_collection():
        for number in range(steps):
            for run in turn[:: -1 if number % 2 else 1]:
                run()
    clock.append(profiling_clock.offset(comm))
    mine = {"host": socket.gethostname(), "windows": windows, "spans": spans, "plain": plain, "clock": clock}
    mine |= {"error": recorder.error, "notes": recorder.finish()}
    return mine


def _run(step, comm, device) -> tuple[float, float]:
    timing.device_sync(device)
    if comm is not None:
        comm.Barrier()
    begin = perf_counter()
    step()
    timing.device_sync(device)
    return begin, perf_counter()


def _merged(ranks: list[dict], kind: str) -> Profile:
    """All ranks on rank 0's clock, from the first step's begin on; a step lasts as long as on the slowest."""
    lasted = np.array([[end - begin for begin, end in one["windows"]] for one in ranks]).max(axis=0)
    plain = np.array([one["plain"] for one in ranks]).max(axis=0)
    zero = ranks[0]["windows"][0][0]
    traces, errors = [], []
    for rank, one in enumerate(ranks):
        (first, error), (last, error_again) = one["clock"]
        # The clocks may have drifted apart between the two estimates.
        errors.append(one["error"] + max(error, error_again) + abs(last - first) / 2)
        back = zero + (first + last) / 2
        steps = [
            (begin - back, begin - back + long)
            for (begin, _), long in zip(one["windows"], lasted, strict=True)
        ]
        spans = [[s._replace(begin=s.begin - back, end=s.end - back) for s in step] for step in one["spans"]]
        if rank:
            for mine, first_ones in zip(spans, traces[0].spans, strict=True):
                mine += [span for span in first_ones if span.shared]
        number = rank if len(ranks) > 1 else world.rank()
        traces.append(RankTrace(number, one["host"], steps, spans))
    resolution = timing.clock_resolution()
    taken = timing.Measurement(lasted, resolution)
    overhead = timing.Ratio(taken, timing.Measurement(plain, resolution)) if plain.size else None
    notes = list(dict.fromkeys(note for one in ranks for note in one["notes"]))
    return Profile(traces, taken, overhead, max(errors), kind, notes)


# The recorders behind profiling.record: spans always, and what each kind adds. One step at a time.
#
# A recorder has start(), stop(begin, end) -> spans of the step, finish() -> notes, close(), and .error, by how
# many seconds its clock may differ from perf_counter.


_KINDS = {
    "torch": ("torch", "Torch"),
    "tensorflow": ("tensorflow", "TensorFlow"),
    "horovod": ("horovod", "Horovod"),
    "nsys": ("nsys", "Nsys"),
}


class Together:
    """Several recorders as one; the first to be started is the last to be stopped."""

    def __init__(self, kind: str):
        names = [name.strip() for name in kind.split("+")] if isinstance(kind, str) else [kind]
        unknown = [repr(name) for name in names if name != "spans" and name not in _KINDS]
        if unknown:
            raise LabError(
                f"profiling.record: no kind {', '.join(unknown)}; it has spans, {', '.join(_KINDS)}, "
                'and several at once, as in kind="torch+horovod".'
            )
        self._all = []
        try:
            for module, name in (_KINDS[name] for name in dict.fromkeys(names) if name != "spans"):
                self._all.append(getattr(import_module(f"labkit.profiling.recorders.{module}"), name)())
        except BaseException:
            self.close()
            raise
        self._all.append(Spans())

    def start(self) -> None:
        for one in self._all:
            one.start()

    def stop(self, begin: float, end: float) -> list[Span]:
        return [span for one in reversed(self._all) for span in one.stop(begin, end)]

    def finish(self) -> list[str]:
        return [note for one in self._all for note in one.finish()]

    def close(self) -> None:
        for one in reversed(self._all):
            one.close()

    @property
    def error(self) -> float:
        return max(one.error for one in self._all)
