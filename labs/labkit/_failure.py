"""What is kept of an exception when it travels from a rank to the others: plain data, no tracebacks."""

from __future__ import annotations

from types import FrameType
from typing import NamedTuple


class Failure(NamedTuple):
    """An exception on a rank.

    frames: (file, line number, function), outermost first. when: seconds of any one clock.
    """

    kind: str
    message: str
    plain: (
        bool  # its own sentence says everything: an error made for the learner, or an exercise not solved yet
    )
    frames: list
    phase: str  # "load", "run" or "result": before, in or after the learner's function
    when: float


def describe(error: BaseException, phase: str, when: float) -> Failure:
    from labkit.errors import LabError

    frames, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    try:
        message = str(error)
    except Exception as second:  # a learner's own __str__ may be wrong too
        message = f"(its text cannot be shown: {second})"
    plain = isinstance(error, (LabError, NotImplementedError)) and message != ""
    return Failure(type(error).__name__, message, plain, frames, phase, when)


def stack(frame: FrameType | None) -> list:
    """Where a running thread is: (file, line number, function), outermost first."""
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return frames[::-1]
