"""A command run to its end in the foreground: signals are passed on, and nothing of it outlives the
call."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_POLL = 0.25  # seconds


class Ended(NamedTuple):
    """How a command ended. `status`: as a shell gives it, 128 + the signal for a process that one
    ended.

    `cause`: "" when it ended by itself; else "SIGTERM" or "SIGINT", which this process was sent
    meanwhile, or "timeout".
    """

    status: int
    cause: str


def run_to_end(
    command: Sequence[str],
    *,
    patience: float = 10.0,
    timeout: float | None = None,
    tick: Callable[[], None] | None = None,
    hear: Callable[[bytes], None] | None = None,
    **options,
) -> Ended:
    """Run the command until it ends; in the main thread, as signals are taken there.

    When SIGTERM comes it is passed on; so is Ctrl-C, unless the terminal has sent it to the command
    as well. From then on, or once `timeout` seconds have passed and SIGTERM was sent, the command
    has `patience` seconds to end; then it is killed. So are the processes that were below it when
    it was told to end.

    tick: called a few times a second.
    hear(line): called on a thread of its own for each line that the command writes on stderr.
    options: those of subprocess.Popen, such as env, cwd, stdout and start_new_session.
    """
    if hear:
        options["stderr"] = subprocess.PIPE
    # Taken before the command starts: a signal that comes in between is not lost.
    with _signals_noted(signal.SIGTERM, signal.SIGINT) as noted:
        process = subprocess.Popen(command, **options)
        listener = threading.Thread(target=_listen, args=(process.stderr, hear), daemon=True)
        if hear:
            listener.start()
        below: list = []
        try:
            cause = _wait(process, noted, timeout, patience, tick, below)
        finally:
            _kill_what_is_left(process, below)
        if hear:
            listener.join(2.0)  # what a killed command's children still hold open is not waited for
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Ended(status, cause)


def _wait(
    process: subprocess.Popen,
    noted: list[int],
    timeout: float | None,
    patience: float,
    tick: Callable[[], None] | None,
    below: list,
) -> str:
    """Wait until it has ended or lost all patience; the cause as in Ended.

    below: takes psutil's processes below it at the moment at which it is told to end.
    """
    begin = time.monotonic()
    cause, told_at = "", 0.0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL)
            return cause or (signal.Signals(noted[0]).name if noted else "")
        now = time.monotonic()
        if not cause and noted:
            cause = signal.Signals(noted[0]).name
            told_at = now
            below += _below(process)
            _pass_on(process, noted[0])
        elif not cause and timeout is not None and now > begin + timeout:
            cause = "timeout"
            told_at = now
            below += _below(process)
            process.terminate()
        elif cause and now > told_at + patience:
            return cause
        if tick:
            tick()


def _pass_on(process: subprocess.Popen, number: int) -> None:
    """A terminal sends Ctrl-C to its whole process group: a second one would end a launcher
    rudely."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGTERM or os.getpgid(process.pid) != os.getpgrp():
            process.send_signal(number)


def _below(process: subprocess.Popen) -> list:
    import psutil

    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill_what_is_left(process: subprocess.Popen, below: list) -> None:
    """Kill the command, and every process (of psutil's) that is or was below it."""
    import psutil

    if process.poll() is None:
        below += _below(process)
        process.kill()
        process.wait()
    for left in below:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            left.kill()  # psutil knows a process from a later one of the same number


def _listen(stream, hear: Callable[[bytes], None]) -> None:
    with stream:
        for line in stream:
            hear(line)


@contextlib.contextmanager
def _signals_noted(*numbers: int) -> Iterator[list[int]]:
    """The signals that come while the block runs, in order; as before afterwards."""
    noted: list[int] = []
    before = {
        number: signal.signal(number, lambda sent, _: noted.append(sent)) for number in numbers
    }
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
