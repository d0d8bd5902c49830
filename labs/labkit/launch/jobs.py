"""Processes beside a notebook that may hang and die, forked by one server, which has imported what
they need.

Importing PyTorch or TensorFlow costs seconds of a core, a fork none. The server is the one of
Python's own `multiprocessing`. It ends with the process that started it, and so does every process
that it forks.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import connection, forkserver
from pathlib import Path
from typing import NamedTuple

import cloudpickle

from labkit.errors import LabError
from labkit.launch.process import environment
from labkit.launch.supervisor import prctl

START = 120  # seconds for the server's imports
_SET_PTRACER = 0x59616D61  # from <linux/prctl.h>: who may read this process's memory
_CONTEXT = multiprocessing.get_context("forkserver")


class Process(NamedTuple):
    """One of `processes`: Python's object of it, the other end of its pipe, and a file of what it
    printed."""

    process: multiprocessing.process.BaseProcess
    pipe: connection.Connection
    log: Path


@contextlib.contextmanager
def processes(
    calls: Sequence[tuple], env: Mapping[str, str], preload: Sequence[str] = ()
) -> Iterator[list[Process]]:
    """Start a process for each (function, *arguments), which calls function(pipe, *arguments).

    env: their environment; what a program's loader reads of it (LD_PRELOAD) is that of the first
    processes, with which the server is started. preload: modules that it imports then. When the
    block ends, for whatever reason, all of them are killed.
    """
    started: list[Process] = []
    with tempfile.TemporaryDirectory() as folder:
        if calls:
            _serve(preload, env)
        try:
            for number, call in enumerate(calls):
                own, other = multiprocessing.Pipe()
                log = Path(folder, f"{number}.log")
                told = cloudpickle.dumps(call)
                process = _CONTEXT.Process(target=_begin, args=(told, other, str(log), dict(env)))
                started.append(Process(process, own, log))
                with _without_main():
                    process.start()
                other.close()
            yield started
        finally:
            _end(started)


def _end(started: Sequence[Process]) -> None:
    alive = [process for process, _, _ in started if process.pid]
    for process in alive:
        process.kill()
    for process in alive:
        process.join()
    for _, pipe, _ in started:
        pipe.close()


def _serve(preload: Sequence[str], env: Mapping[str, str]) -> None:
    """Have a server that has imported the modules. Each process writes to its log, the server
    nowhere."""
    _CONTEXT.set_forkserver_preload(list(preload))
    sys.stderr.flush()
    screen = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with environment({**env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}):
            forkserver.ensure_running()
    finally:
        os.dup2(screen, 2)
        os.close(screen)
        os.close(nowhere)
    with _without_main():
        first = _CONTEXT.Process(target=int)
        first.start()
    first.join(START)
    if first.exitcode != 0:
        first.kill()
        raise LabError("The process that starts others does not answer: is this computer busy?")


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """A new process would import the main module of a script again: the whole lab would run in
    each."""
    main = sys.modules["__main__"]
    taken = {
        name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__
    }
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(taken)


# -- in the process


def _begin(told: bytes, pipe: connection.Connection, log: str, env: dict[str, str]) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout.reconfigure(line_buffering=True)  # nothing is lost of a process that is killed
    # An interrupt is meant for the notebook, which ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_the_notebook()
    # py-spy, say, which is no ancestor: some systems let it look only if it is asked to.
    prctl(_SET_PTRACER, ctypes.c_ulong(-1))
    os.environ.clear()
    os.environ.update(env)
    function: Callable
    function, *arguments = cloudpickle.loads(told)
    function(pipe, *arguments)


def _end_with_the_notebook() -> None:
    """Have the kernel kill this process when the notebook's ends: also one that is stopped.

    The notebook is not its parent. Its end closes a pipe, and on Linux a closed pipe may send any
    signal.
    """
    if not sys.platform.startswith("linux"):
        return
    sentinel = multiprocessing.parent_process().sentinel
    fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sentinel, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(sentinel, fcntl.F_SETFL, os.O_ASYNC)
    if connection.wait([sentinel], 0):  # it has ended before
        os._exit(1)
