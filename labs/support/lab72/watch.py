"""A watcher that goes from line to line: the first that leaves something behind that is no finite number."""

from __future__ import annotations

import sys
from collections.abc import Callable


def watch_numbers(program: Callable) -> Callable:
    """Watch the tensors of `program`, which is about to be called; tells (step, line) of the first bad one.

    A bad tensor holds an inf or a nan. step: the program's own variable of that name. None: all was well.
    """
    import torch

    noted: list[tuple[int, int]] = []
    last = [0]

    def look(frame, event: str, _):
        if noted or event not in ("line", "return"):
            return look
        values = frame.f_locals
        for value in values.values():
            if torch.is_tensor(value) and value.is_floating_point() and not value.isfinite().all():
                noted.append((values["step"], last[0]))
                break
        last[0] = frame.f_lineno
        return look

    def begin(frame, event: str, _):
        return look if frame.f_code is program.__code__ else None

    sys.settrace(begin)
    return lambda: noted[0] if noted else None
