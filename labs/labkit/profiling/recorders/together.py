"""Several recorders as one: what spans and marks say, and what the profilers of the kinds asked for see."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from labkit.errors import LabError
from labkit.profiling.spans import Span, Spans

KINDS = {  # kind -> the module beside this one, loaded when it is needed, and its class
    "torch": ("torch", "Torch"),
    "tensorflow": ("tensorflow", "TensorFlow"),
    "horovod": ("horovod", "Horovod"),
    "nsys": ("nsys", "Nsys"),
}


class Recorder(Protocol):
    """One step at a time. error: seconds by which its clock may differ from perf_counter."""

    error: float

    def start(self) -> None:
        """A step begins."""

    def stop(self, begin: float, end: float) -> list[Span]:
        """The spans of the step that ran from begin to end."""

    def finish(self) -> list[str]:
        """Sentences on what the numbers do not say."""

    def close(self) -> None:
        """End the recording, also after an error in a step."""


class Together:
    """The recorders of a kind such as "torch+horovod"; the first to be started is the last to be stopped."""

    def __init__(self, kind: str):
        kinds = [name.strip() for name in kind.split("+")] if isinstance(kind, str) else [kind]
        unknown = [repr(name) for name in kinds if name != "spans" and name not in KINDS]
        if unknown:
            raise LabError(
                f"profiling.record: no kind {', '.join(unknown)}; it has spans, {', '.join(KINDS)}, "
                'and several at once, as in kind="torch+horovod".'
            )
        self._recorders: list[Recorder] = []
        try:
            for name in dict.fromkeys(kinds):
                if name != "spans":
                    module, recorder = KINDS[name]
                    module = import_module(f"labkit.profiling.recorders.{module}")
                    self._recorders.append(getattr(module, recorder)())
        except BaseException:
            self.close()
            raise
        self._recorders.append(Spans())

    def start(self) -> None:
        for recorder in self._recorders:
            recorder.start()

    def stop(self, begin: float, end: float) -> list[Span]:
        return [span for recorder in reversed(self._recorders) for span in recorder.stop(begin, end)]

    def finish(self) -> list[str]:
        return [note for recorder in self._recorders for note in recorder.finish()]

    def close(self) -> None:
        for recorder in reversed(self._recorders):
            recorder.close()

    @property
    def error(self) -> float:
        return max(recorder.error for recorder in self._recorders)
