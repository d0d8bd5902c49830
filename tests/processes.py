"""Looking at other processes, which may end in the same moment, or have ended and wait for their parent."""

from __future__ import annotations

import contextlib
from multiprocessing import forkserver

import psutil


def lives(process: psutil.Process) -> bool:
    """A zombie has ended: that its parent has not asked for its status is the parent's affair."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def command_of(process: psutil.Process) -> str:
    """Its command line; empty when it has ended."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def end_fork_server() -> None:
    """It ends with its process, and a test's process goes on. Python has no public way to end it sooner."""
    forkserver._forkserver._stop()
