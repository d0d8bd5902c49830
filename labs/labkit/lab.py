"""The first call of every lab: which lab this is, and where it runs."""

from __future__ import annotations

import io
import os
import sys

from labkit import _notes, errors, quiet, world

_current: str | None = os.environ.get("LABKIT_LAB")  # what `launch` tells the ranks it starts


def start(stem: str) -> None:
    """Begin the lab `stem` ("40_horovod_pytorch"): plain error messages, and one line: where we are.

    Under a launcher (mpiexec, srun, …) every rank runs the whole file, and only rank 0 prints.
    """
    global _current
    _current = stem
    quiet.quiet()
    errors.print_lab_errors_plainly()
    if world.launcher():
        _write_whole_lines()
        _notes.begin()
    if not world.is_root():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open until the process ends
    print(f"Lab {stem.replace('_', ' ', 1)}: {world.describe()}")


def _write_whole_lines() -> None:
    """Write a line and its end at once, also where PYTHONUNBUFFERED is set: ranks share one screen."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def current() -> str | None:
    """The stem given to `start`, or None outside a lab."""
    return _current


def reset_for_tests() -> None:
    """Forget the current lab."""
    global _current
    _current = None
