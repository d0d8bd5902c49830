"""What an error that nobody caught prints, and how it ends the other ranks of a job."""

from __future__ import annotations

import os
import sys
import time

from labkit import world
from labkit.errors import LabError
from labkit.launch import meeting, notes


def print_lab_errors_plainly() -> None:
    """Let a script that fails with a LabError print its message alone and end with status 1.

    Under a launcher the whole job ends with it: ranks that did not fail would wait for this one for ever.
    """

    def hook(kind, error, trace):
        under = world.launcher() not in (None, "labkit")
        if under:
            notes.leave_error(error)
        # Where every rank comes here within a second, rank 0 speaks for all, and each ends with status 1.
        together = under and meeting.all_end(1.0)
        if under and not world.is_root():
            if together:
                return
            time.sleep(1.0)  # rank 0 most often fails with the same sentence; then the job ends here
            print(f"[{world.rank()}] ", end="", file=sys.stderr)
        if issubclass(kind, LabError):
            print(error, file=sys.stderr, flush=True)
        else:
            sys.__excepthook__(kind, error, trace)
        if under and not together:
            _end_the_job()

    sys.excepthook = hook


def _end_the_job() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(0.3)  # mpiexec passes on what it has read when it hears of the end, and no more
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(1)
    os._exit(1)
