"""Recorder of what torch.profiler sees: operators on the CPU's threads, kernels on a GPU's streams.

The trace that export_chrome_trace writes is read: its thread numbers are the system's, its clock is
the wall clock. A few events whose time is known on both clocks tell the difference. The GPU half
was not run.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from time import perf_counter

from labkit.errors import NotHere
from labkit.noise import without_lines
from labkit.profiling import libraries
from labkit.profiling.spans import COMPUTE, EXPLICIT, INPUT, OPERATION, Span, thread_names

_NOISE = re.compile(rb"^USDT:")  # two lines of PyTorch's profiler at each start and stop
# A convolution backward that is not oneDNN's.
_OVERWRITTEN = re.compile(r"slow_conv|thnn|nnpack_spatial")
_CLOCK = "labkit.clock"


class Recorder:
    """One step at a time; the profiler runs for recorded steps alone."""

    def __init__(self):
        try:
            import torch
        except ImportError as error:
            raise NotHere(
                'kind="torch" needs PyTorch, which is not installed here: `make setup`.'
            ) from error
        self._torch = torch
        kinds = torch.profiler.ProfilerActivity
        self._activities = [kinds.CPU, kinds.CUDA] if torch.cuda.is_available() else [kinds.CPU]
        self._profiler = None
        self.error = 0.0  # seconds, of the clocks
        self.start()  # the first start takes seconds
        self.stop(0.0, 0.0)

    def start(self) -> None:
        profiler = self._torch.profiler.profile(
            activities=self._activities,
            record_shapes=True,  # the types of inputs tell a product's library
            acc_events=True,  # without it PyTorch 2.10 warns of each profile
        )
        with without_lines(_NOISE):
            profiler.start()
        self._profiler = profiler
        self._known = []
        for _ in range(3):
            with self._torch.profiler.record_function(_CLOCK):
                self._known.append(perf_counter())

    def stop(self, begin: float, end: float) -> list[Span]:
        profiler = self._profiler
        self._profiler = None
        with without_lines(_NOISE):
            profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(file))
            trace = json.loads(file.read_text(encoding="utf-8", errors="replace"))
        events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
        ahead, error = offset(
            [(e["ts"], e["dur"]) for e in events if e["name"] == _CLOCK], self._known
        )
        self.error = max(self.error, error)
        return spans_of(events, ahead, thread_names())

    def close(self) -> None:
        if self._profiler is not None:  # a step failed while the profiler ran
            with without_lines(_NOISE):
                self._profiler.stop()


def offset(events: list[tuple[float, float]], known: list[float]) -> tuple[float, float]:
    """(microseconds that the trace's clock is ahead, largest error in seconds), from (ts, dur) of
    events during each of which perf_counter was read. The shortest one knows best."""
    (start, lasted), read = min(
        zip(sorted(events), known, strict=True), key=lambda pair: pair[0][1]
    )
    return start + lasted / 2 - read * 1e6, lasted / 2 * 1e-6


def spans_of(events: list[dict], ahead: float, threads: dict[int, str]) -> list[Span]:
    """The trace's events as spans. ahead: microseconds, as of `offset`. threads: number -> name.

    With a GPU, what the CPU's operators do is to launch its kernels: these compute, those are idle
    time.
    """
    on_gpu = any(event.get("cat") == "kernel" for event in events)
    overwritten = [
        (event["tid"], event["ts"]) for event in events if _OVERWRITTEN.search(event["name"])
    ]
    spans = []
    for event in events:
        category = event.get("cat")
        name = event["name"]
        tid = event.get("tid")
        times = (event["ts"] - ahead) * 1e-6, (event["ts"] + event["dur"] - ahead) * 1e-6
        if category in ("cpu_op", "user_annotation"):
            types = tuple(event.get("args", {}).get("Input type", ()))
            kind, explicit, library = libraries.torch_operator(name, types)
            if name == "aten::convolution_backward" and _holds(event, overwritten):
                library = "PyTorch"
            if on_gpu and kind == COMPUTE:
                kind = "launch"
            if kind:
                layer = EXPLICIT if explicit else OPERATION
                spans.append(
                    Span(kind, *times, name, threads.get(tid, f"thread {tid}"), layer, library)
                )
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            kind, library = libraries.gpu_kernel(name)
            if category == "gpu_memcpy":
                kind = INPUT if "HtoD" in name else "copy"
                library = "CUDA"
            stream = f"GPU {event.get('pid')} stream {tid}"
            spans.append(Span(kind, *times, name, stream, OPERATION, library))
    return spans


def _holds(event: dict, calls: list[tuple[int, float]]) -> bool:
    """Whether one of the (thread, moment) calls falls into the event."""
    begin = event["ts"]
    end = event["ts"] + event["dur"]
    return any(tid == event.get("tid") and begin <= moment <= end for tid, moment in calls)
