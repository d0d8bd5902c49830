"""Recorder of what TensorFlow's profiler sees: the operations on its threads, and on a GPU's streams.

tf.profiler writes an XSpace (xplane.proto of OpenXLA): planes of devices, lines of threads, events by the
wall clock. An event whose time is known on both clocks tells the difference. The GPU half was not run.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from time import perf_counter

from labkit.errors import LabError, NotHere
from labkit.profiling import libraries
from labkit.profiling.spans import INPUT, OPERATION, Span
from labkit.profiling.torch import offset

_CLOCK = "labkit.clock"
_NODE = re.compile(r"^(?P<node>[\w./>-]+):(?P<type>\w+)$")  # an operation of a graph
_EAGER = re.compile(r"^EagerLocalExecute: (?P<type>(?!__)\w+)$")  # called from Python; __ is a whole graph
_GPU = re.compile(r"^/device:GPU:(\d+)")


class Recorder:
    """One step at a time; the profiler runs for recorded steps alone."""

    notes = ()

    def __init__(self):
        try:
            import tensorflow as tf
            from tensorflow.tsl.profiler.protobuf import xplane_pb2
        except ImportError as error:
            raise NotHere(f'kind="tensorflow" needs TensorFlow 2.21: {error}.') from error
        self._profiler = tf.profiler.experimental
        self._space = xplane_pb2.XSpace
        self._folder = None
        self.error = 0.0  # seconds, of the clocks
        self.start()  # the first start is the slow one
        self.stop(0.0, 0.0)

    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._profiler.start(self._folder.name)
        self._known = []
        for _ in range(3):
            with self._profiler.Trace(_CLOCK):
                self._known.append(perf_counter())

    def stop(self, begin: float, end: float) -> list[Span]:
        folder = self._folder
        self._folder = None
        with folder:
            self._profiler.stop()
            files = list(Path(folder.name).rglob("*.xplane.pb"))
            if not files:
                raise LabError("TensorFlow's profiler wrote no trace; is another profiler running?")
            space = self._space.FromString(files[0].read_bytes())
        events = list(events_of(space))
        clock = [(ts, lasted) for _, _, name, ts, lasted in events if name == _CLOCK]
        ahead, error = offset(clock, self._known)
        self.error = max(self.error, error)
        return [span for span in (_span(event, ahead) for event in events) if span is not None]

    def close(self) -> None:
        if self._folder is not None:  # a step failed while the profiler ran
            with self._folder:
                self._profiler.stop()


def events_of(space):
    """(plane, line, name, begin, length) of every event of an XSpace, times in microseconds."""
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                begin = line.timestamp_ns * 1e-3 + event.offset_ps * 1e-6
                name = plane.event_metadata[event.metadata_id].name
                yield plane.name, line.display_name or line.name, name, begin, event.duration_ps * 1e-6


def _span(event, ahead: float) -> Span | None:
    """The event as a span; None for those that say nothing on what is computed or sent."""
    plane, line, name, begin, lasted = event
    times = (begin - ahead) * 1e-6, (begin + lasted - ahead) * 1e-6
    gpu = _GPU.match(plane)
    if gpu:
        if not line.startswith("Stream"):
            return None  # summaries of the same kernels by step, module and operation
        kind, library = libraries.gpu_kernel(name, "TensorFlow")
        return Span(kind, *times, name, f"GPU {gpu[1]} {line}", OPERATION, library)
    operation = _NODE.match(name) or _EAGER.match(name)
    if not operation or not plane.startswith("/host:CPU"):
        return None
    kind, library = libraries.tensorflow_operator(operation["type"])
    if line.startswith("tf_data"):
        kind = INPUT  # the threads that prepare the next batches
    thread = "MainThread" if line == "python" else line
    return Span(kind, *times, operation["type"], thread, OPERATION, library)
