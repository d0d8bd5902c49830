"""The recorders behind profiling.record: spans always, and what each kind adds. One step at a time.

A recorder has start(), stop(begin, end) -> spans of the step, finish() -> notes, close(), and .error, by how
many seconds its clock may differ from perf_counter.
"""

from __future__ import annotations

from importlib import import_module

from labkit._profile_spans import Span, Spans
from labkit.errors import LabError

_KINDS = {
    "torch": ("_profile_torch", "Torch"),
    "tensorflow": ("_profile_tensorflow", "TensorFlow"),
    "horovod": ("_profile_horovod", "Horovod"),
    "nsys": ("_profile_nsys", "Nsys"),
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
                self._all.append(getattr(import_module(f"labkit.{module}"), name)())
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
