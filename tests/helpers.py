"""What many tests need: waiting for something, and looking at processes, which may end in the same
moment."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import TypeVar

import psutil

RUN = uuid.uuid4().hex  # marks, by LABKIT_TEST_RUN, whatever a run of the tests starts
Answer = TypeVar("Answer")


def ran(*command: object, timeout: float = 120, **options) -> subprocess.CompletedProcess:
    """A command that has ended: its status, and all that it printed, as text."""
    words = [str(word) for word in command]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=False, **options
    )


def program(path: Path, text: str) -> Path:
    """A program of the shell, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def until(question: Callable[[], Answer], patience: float = 20.0, pause: float = 0.05) -> Answer:
    """The answer as soon as it is a yes, or the last one after `patience` seconds."""
    end = time.monotonic() + patience
    while not (answer := question()) and time.monotonic() < end:
        time.sleep(pause)
    return answer


def awaited(question: Callable[[], Answer], patience: float = 120.0) -> Answer:
    """As `until`; AssertionError where the answer stays a no."""
    answer = until(question, patience)
    assert answer, f"still not so after {patience} s"
    return answer


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


def marked(variable: str) -> list[psutil.Process]:
    """The processes, this one and zombies apart, that were started with variable (NAME=value)."""
    found = []
    for process in psutil.process_iter():
        try:
            words = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue  # another user's, or it ended meanwhile
        if variable.encode() in words and process.pid != os.getpid() and lives(process):
            found.append(process)
    return found


def left_behind(patience: float = 5.0) -> list[str]:
    """Command lines of processes of this run of the tests that are still there after a moment."""
    until(lambda: not _of_this_run(), patience)
    return [f"{process.pid} {command_of(process)[:150]}" for process in _of_this_run()]


def _of_this_run() -> list[psutil.Process]:
    # A child that was forked without a new program shows the environment that pytest was started
    # with.
    ours = {
        *marked(f"LABKIT_TEST_RUN={RUN}"),
        *filter(lives, psutil.Process().children(recursive=True)),
    }
    # Python's own resource tracker ends with pytest.
    return [process for process in ours if "resource_tracker" not in command_of(process)]


def end_fork_server() -> None:
    """It ends with its process, and a test's process goes on. Python has no public way to end it
    sooner."""
    forkserver._forkserver._stop()
