"""Waiting for a batch job: a line that says how it stands, and the sentence at its end."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace

from labkit import _slurm, _slurm_status, hints
from labkit._cluster_job import Job, shown
from labkit._slurm_status import GOOD, Status
from labkit.errors import LabError, NotHere

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0  # seconds between two questions to Slurm
PLACE_EVERY = 30.0  # seconds; the whole queue is a larger question
PATIENCE = 120.0  # seconds without an answer, then it is said


class StoppedWaiting(LabError):
    """Ctrl-C while waiting; the job goes on."""


class Line:
    """One line that rewrites itself in a notebook and on a terminal; elsewhere, a line for each change."""

    def __init__(self) -> None:
        self._last, self._handle = "", None
        self._terminal = sys.stdout.isatty()

    def show(self, text: str, seconds: float) -> None:
        """Show `text` and the seconds waited so far."""
        whole = f"{text} · {seconds:.0f} s"
        if hints.in_notebook():
            self._display(whole)
        elif self._terminal:
            fitting = whole[: shutil.get_terminal_size().columns - 1]  # a wrapped line stays
            print(f"\r\033[K{fitting}", end="", flush=True)
        elif text != self._last:
            print(whole, flush=True)
        self._last = text

    def end(self, text: str) -> None:
        """The last words, on the same line."""
        if hints.in_notebook():
            self._display(text)
        else:
            print(f"\r\033[K{text}" if self._terminal else text, flush=True)

    def _display(self, text: str) -> None:
        from IPython.display import display

        plain = {"text/plain": text}
        if self._handle is None:
            self._handle = display(plain, raw=True, display_id=True)
        else:
            self._handle.update(plain, raw=True)


def follow(job: Job, timeout: float | None) -> str:
    """Wait until the job has ended or `timeout` seconds have passed; see Job.wait."""
    line, begin = Line(), time.monotonic()
    try:
        status = _until_ended(job, timeout, line, begin)
    except KeyboardInterrupt:
        line.end(f"Stopped waiting for {job}.")
        raise StoppedWaiting(
            f"Stopped waiting; job {job.number} goes on. job.wait() waits again, `make results` shows how it "
            "stands, job.cancel() ends it."
        ) from None
    waited = time.monotonic() - begin
    if not status.ended:
        line.end(
            f"{_capital(job)} {_words(status)} · after {waited:.0f} s no longer waited for. "
            "job.wait() waits again; what comes next can go on meanwhile."
        )
        return status.state
    ran = f", ran {status.seconds} s" if status.seconds is not None else ""
    line.end(f"{_capital(job)}: {status.state.replace('_', ' ')}{ran}. Output: {shown(job.file)}")
    if status.state != GOOD:
        time.sleep(0.5)  # a shared file system may show the last lines a little late
        raise LabError(job.failure(status))
    return status.state


def _until_ended(job: Job, timeout: float | None, line: Line, begin: float) -> Status:
    """Ask again and again: soon at first, then every ten seconds."""
    pause, silent_since, placed = FIRST_PAUSE, None, None
    status = Status("pending", "None")
    while True:
        try:
            status, silent_since = job.status(), None
            if status.ended:
                return status
            placed = _placed(job, status, placed)
            said = _words(replace(status, place=placed[1] if placed else None))
        except _slurm.NoAnswer as error:
            silent_since = silent_since or time.monotonic()
            silence = time.monotonic() - silent_since
            if silence > PATIENCE:
                raise LabError(
                    f"{error} It has been so for {silence:.0f} s; job.wait() tries again."
                ) from None
            said = "is somewhere: Slurm's controller does not answer just now"
        except NotHere as error:
            raise LabError(f"{_capital(job)} cannot be followed: {error}") from None
        left = pause if timeout is None else min(pause, begin + timeout - time.monotonic())
        _tick(line, f"{_capital(job)} {said}", begin, left)
        if timeout is not None and time.monotonic() >= begin + timeout:
            return status
        pause = min(LONGEST_PAUSE, 1.5 * pause)


def _placed(job: Job, status: Status, before: tuple | None) -> tuple | None:
    """(when asked, place in the queue), asked for only now and then; None for a job that does not wait."""
    if not status.waits:
        return None
    if before and time.monotonic() < before[0] + PLACE_EVERY:
        return before
    return time.monotonic(), _slurm_status.place(job.number, job.where, status.partition)


def _tick(line: Line, text: str, begin: float, pause: float) -> None:
    """Sleep for `pause` seconds while the seconds on the line run on."""
    end = time.monotonic() + pause
    while True:
        line.show(text, time.monotonic() - begin)
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(1.0, left))


def _words(status: Status) -> str:
    if status.waits:
        return _slurm_status.why(status)
    if status.state == "running":
        return f"runs on {status.hosts}"
    return f"is {status.state.replace('_', ' ')}"


def _capital(job: Job) -> str:
    text = str(job)
    return text[0].upper() + text[1:]
