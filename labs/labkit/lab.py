"""The first call of every lab: which lab this is, and where it runs."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

from labkit import builds, journal, launch, noise, world
from labkit.errors import LabError


def start(stem: str) -> None:
    """Begin the lab `stem` ("40_horovod_pytorch"): plain error messages, and one line: where we
    are.

    Under a launcher (mpiexec, srun, …) every rank runs the whole file, and only rank 0 prints.
    """
    os.environ["LABKIT_LAB"] = stem  # the ranks that `launch` starts find it there
    if _running().parent.name == "solutions":
        os.environ["LABKIT_SOLVED"] = "1"
    noise.silence()
    launch.print_lab_errors_plainly()
    launch.refuse_without_mpi()
    if world.launcher():
        _write_whole_lines()
        launch.leave_stack()
        builds.check()
    if not world.is_root():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open until the process ends
    if world.is_root() and not solved():
        # The first check will say that nothing can be kept.
        with contextlib.suppress(LabError, OSError):
            journal.note("start", lab=stem)
    print(f"Lab {stem.replace('_', ' ', 1)}: {world.describe()}")
    if _running().parent.name == "notebooks":
        print(
            f"Your own copy of this notebook is work/{stem}.ipynb: `make lab` brings it. Write"
            " there."
        )


def current() -> str | None:
    """The stem given to `start`, or None outside a lab."""
    return os.environ.get("LABKIT_LAB")


def solved() -> bool:
    """Whether this run is of a solved lab: then nobody has solved anything, and no progress is
    stored.

    `make run SOLVED=1`, batch jobs with SOLVED=1 and the tour set LABKIT_SOLVED=1; `start` sets it
    in a file or notebook of solutions/.
    """
    return os.environ.get("LABKIT_SOLVED", "0") not in ("", "0")


def _running() -> Path:
    """The notebook or script that runs."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(os.environ.get("JPY_SESSION_NAME") or script or "")


def _write_whole_lines() -> None:
    """Write a line and its end at once, also where PYTHONUNBUFFERED is set: ranks share one
    screen."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def reset_for_tests() -> None:
    """Forget the current lab."""
    os.environ.pop("LABKIT_LAB", None)
    os.environ.pop("LABKIT_SOLVED", None)
