"""A process that imports PyTorch once, and forks the ranks of all jobs that a notebook plays.

Importing costs seconds of a core, a fork none. `python -m support.lab72.nursery FD PARENT` reads requests
from a socket, a pickle each, and forks a process for each of them, which plays its jobs (`ward.play_here`),
takes along whatever it started, and answers. The nursery ends when the other end of the socket closes or its
parent dies, and all others with it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import os
import pickle
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable

import cloudpickle
import psutil
from labkit import launch, noise, world
from labkit.errors import LabError

START = 120  # seconds for the imports
_SIZE = 8  # bytes before each message: how long it is
_LOOK = 0.05  # seconds between two looks
_SET_CHILD_SUBREAPER = 36  # from <linux/prctl.h>


def prctl(option: int, value: int) -> None:
    """Linux's prctl; elsewhere nothing happens."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


# -- the notebook's side


class Nursery:
    """The process, from this side."""

    def __init__(self):
        own, other = socket.socketpair()
        env = {**world.clean_env(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **launch.loopback_variables(env)}
        # Else a thread may reserve 64 MB of addresses, and a rank with a limit has nothing left.
        env["MALLOC_ARENA_MAX"] = "1"
        command = [sys.executable, "-m", "support.lab72.nursery", str(other.fileno()), str(os.getpid())]
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the process lives
        self.process = subprocess.Popen(
            command,
            env=env,
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self.words,
            stderr=self.words,
            start_new_session=True,  # an interrupt that is meant for the kernel does not reach it
        )
        other.close()
        self.control = own
        self.receive(START)

    def ask(self, function: Callable, argument: object, seconds: float) -> object:
        """What function(argument, folder) returns in a fork of that process; LabError if it raises."""
        _send(self.control, cloudpickle.dumps((function, argument)))
        good, answer = self.receive(seconds)
        if not good:
            raise LabError(f"The jobs cannot be played: {answer}")
        return answer

    def receive(self, seconds: float) -> object:
        """What it says next."""
        self.control.settimeout(seconds)
        try:
            message = _receive(self.control)
        except TimeoutError:
            raise LabError(f"No rank was heard of for {seconds:.0f} s: is this computer busy?") from None
        if message is None:
            self.words.seek(0)
            text = self.words.read().decode(errors="replace")[-500:]
            raise LabError(f"The process that starts the ranks has died: {text}")
        return pickle.loads(message)

    def close(self) -> None:
        """End it and all that it started."""
        self.control.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.words.close()


@functools.cache
def _nursery() -> Nursery:
    started = Nursery()
    atexit.register(started.close)
    return started


def ask(function: Callable, argument: object, seconds: float) -> object:
    """What function(argument, folder) returns in a process that has PyTorch and may fork.

    The first call starts the nursery, which ends with this process. LabError when the function raises, or
    does not come back in time.
    """
    try:
        return _nursery().ask(function, argument, seconds)
    except BaseException:
        close()  # whatever it is doing, an interrupt from the keyboard included
        raise


def close() -> None:
    """End the nursery, if there is one. The next job starts another."""
    if _nursery.cache_info().currsize:
        started = _nursery()
        _nursery.cache_clear()
        atexit.unregister(started.close)
        started.close()


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(_SIZE, "little") + message)


def _receive(connection: socket.socket) -> bytes | None:
    """The next message; None at the end."""
    size = _exactly(connection, _SIZE)
    return None if size is None else _exactly(connection, int.from_bytes(size, "little"))


def _exactly(connection: socket.socket, many: int) -> bytes | None:
    pieces = []
    while many:
        piece = connection.recv(min(many, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        many -= len(piece)
    return b"".join(pieces)


# -- the process itself


def _serve(control: socket.socket, top: str) -> None:
    """Until the other end closes."""
    _send(control, pickle.dumps("ready"))
    for number in range(1_000_000):
        message = _receive(control)
        if message is None:
            return
        folder = os.path.join(top, str(number))
        os.mkdir(folder)
        with warnings.catch_warnings():
            # Python warns where it has threads, whose locks a fork may inherit. These do not hold any.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _work(control, message, folder)
        try:
            _wait(control, pid)
        except BaseException:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)  # before its folder goes: its ranks write there
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _wait(control: socket.socket, pid: int) -> None:
    """Until that child has ended; ConnectionError when nobody waits for it any more."""
    while not os.waitpid(pid, os.WNOHANG)[0]:
        readable, _, _ = select.select([control], [], [], _LOOK)
        if readable and not control.recv(1, socket.MSG_PEEK):
            raise ConnectionError("the notebook has gone")
        if readable:  # it has answered, and the next request is here already
            os.waitpid(pid, 0)
            return


def _work(control: socket.socket, message: bytes, folder: str) -> None:
    """In a fork: one request and its answer, and nothing is left of it."""
    nursery = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: _end(1))
    launch.die_with_parent(nursery, signal.SIGTERM)
    prctl(_SET_CHILD_SUBREAPER, 1)  # what ranks leave behind becomes a child of this process
    try:
        function, argument = pickle.loads(message)
        answer = (True, function(argument, folder))
        text = cloudpickle.dumps(answer)
    except BaseException as error:
        traceback.print_exc()
        text = pickle.dumps((False, f"{type(error).__name__}: {error}"))
    _bury()
    _send(control, text)
    os._exit(0)


def _end(status: int) -> None:
    _bury()
    os._exit(status)


def _bury() -> None:
    """Kill all that this process has started."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        below = psutil.Process().children(recursive=True)
        for process in below:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    launch.die_with_parent(int(sys.argv[2]), signal.SIGTERM)
    noise.silence()
    with tempfile.TemporaryDirectory(prefix="lab72-") as top:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = top  # else the next import makes a folder that stays
        import torch._inductor.codecache  # for all forks; the flight recorder imports it to tell lines
        import torch.distributed

        torch.set_num_threads(1)
        gc.collect()
        gc.freeze()  # collections in the forks would copy all pages
        with contextlib.suppress(ConnectionError):
            _serve(control, top)


if __name__ == "__main__":
    main()
