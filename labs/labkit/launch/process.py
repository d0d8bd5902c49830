"""What changes in this process while a function runs in place: variables, threads and stdout."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

from labkit import world
from labkit.launch import plans


@contextlib.contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """Set the variables, and put back what was there."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def end(process: subprocess.Popen, seconds: float) -> None:
    """End a process that ends itself when its stdin closes; kill it if it has not done so in
    time."""
    with contextlib.suppress(OSError):  # it has ended already
        process.stdin.close()  # first: a second interrupt cannot leave anything behind
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def my_cores() -> tuple:
    """What this rank may compute on: equal for ranks that share cores."""
    masks = hasattr(os, "sched_getaffinity")
    return socket.gethostname(), tuple(sorted(os.sched_getaffinity(0))) if masks else ()


def fair_threads(everyone: list[tuple]) -> int | None:
    """Threads for this rank so that ranks on the same cores do not crowd each other; None where a
    person or a launcher has chosen already."""
    if "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, world.cores() // everyone.count(my_cores()))


def limit_threads(count: int | None) -> None:
    """Let libraries use `count` threads in this process from now on; None leaves them alone."""
    if count is None:
        return
    os.environ.update(dict.fromkeys(plans.THREAD_VARIABLES, str(count)))
    if "torch" in sys.modules:  # it is loaded already and has read the variables
        sys.modules["torch"].set_num_threads(count)


@contextlib.contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let libraries use `count` threads while the block runs; None leaves them alone."""
    if count is None:
        yield
        return
    before = _threads_of_torch()
    try:
        with environment(dict.fromkeys(plans.THREAD_VARIABLES, str(count))):
            limit_threads(count)
            yield
    finally:
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(before)


def _threads_of_torch() -> int:
    """What PyTorch uses, or will use when it is imported."""
    if "torch" in sys.modules:
        return sys.modules["torch"].get_num_threads()
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, int(first)) if first.isdigit() else world.cores()


class _Prefixed(io.TextIOBase):
    """A stdout that writes whole lines, each after the rank's number, past what silences ranks
    above 0."""

    def __init__(self, rank: int, echo: bool):
        self._rank = rank
        self._echo = echo
        self._partial = ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).split("\n")
        self._emit(lines)
        return len(text)

    def end(self) -> None:
        self._emit([self._partial] if self._partial else [])
        self._partial = ""

    def _emit(self, lines: list[str]) -> None:
        if lines and self._echo:
            text = "".join(f"[{self._rank}] {line}\n" for line in lines)
            os.write(1, text.encode("utf-8", errors="backslashreplace"))


@contextlib.contextmanager
def output(rank: int, echo: bool) -> Iterator[None]:
    """Show what is printed on every rank, each line after the rank's number; nothing without
    `echo`."""
    sys.stdout.flush()
    stream = _Prefixed(rank, echo)
    try:
        with contextlib.redirect_stdout(stream):
            yield
    finally:
        stream.end()
