"""The guard of the tests: which processes of a run are still there when it is over."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import psutil

RUN = uuid.uuid4().hex  # marks, by LABKIT_TEST_RUN, whatever a test starts


def find(patience: float = 5.0) -> list[str]:
    """Processes of this run that are still there after a moment."""
    end = time.monotonic() + patience
    while True:
        left = [line for process in psutil.process_iter() if (line := _ours(process))]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.2)


def _ours(process: psutil.Process) -> str | None:
    """One line on the process if it belongs to this test run and should have ended."""
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return None
        marked = f"LABKIT_TEST_RUN={RUN}".encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
        command = " ".join(process.cmdline())
        # A child that was forked without a new program shows the environment that pytest was started with.
        child = any(parent.pid == os.getpid() for parent in process.parents())
        if not (marked or child) or "resource_tracker" in command:  # Python's own, it ends with pytest
            return None
        return f"{process.pid} {command[:150]}"
    except (psutil.Error, OSError):
        return None
