"""Ranks that need not import PyTorch or TensorFlow: forks of a process that has imported them
already.

An import of TensorFlow takes seconds of a core for every rank of every run. Here one server process
for each set of variables imports once, and forks. The launcher starts a small client, which hands
its place (files, variables, cores, PMI's socket) to such a fork. From there on a rank is what it
always is: worker.py, a process of its own, in which nothing of an earlier run is left.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from labkit import world
from labkit.launch import plans, process

_SERVER = str(Path(__file__).with_name("fork_server.py"))
_CLIENT = str(Path(__file__).with_name("fork_client.py"))
_OF_LABKIT = (
    "labkit.checks.exercise",
    "labkit.counting",
    "labkit.data",
    "labkit.launch",
    "labkit.nets",
    "labkit.timing.timer",
)
# Imported by the server if this process has imported the first of each: then the ranks most likely
# do, too.
_HEAVY = {
    # Torch.optim imports the second when it makes an optimizer.
    "torch": ("torch", "torch._dynamo"),
    "tensorflow": ("tensorflow", "keras"),
    "horovod.torch": ("horovod.torch",),
    "horovod.tensorflow": ("horovod.tensorflow", "horovod.tensorflow.keras"),
    "numpy": ("numpy", "mpi4py", "cloudpickle", *_OF_LABKIT),
}
_KIT = ("support", "virtual")
# Variables that differ between ranks and runs, and that no import reads.
_OWN = ("LABKIT_", "HOROVOD_", "_HOROVOD_", "MASTER_", "MPIR_CVAR_")
_OWN_NAMES = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "TF_NUM_INTEROP_THREADS",  # TensorFlow reads it when its first operation runs, in the fork
}
_PATIENCE = 120  # seconds for its imports; then ranks start without it
_LEAVE = 10  # seconds to end its ranks and itself
_MOST = 3  # servers at a time: each holds some hundred MB


class _Server(NamedTuple):
    address: str
    process: subprocess.Popen
    ready: bool  # it has imported what it should


_running: dict[tuple, _Server] = {}  # by what they were started with, the oldest first
_one_at_a_time = threading.Lock()


def _forget() -> None:
    """In a fork of this process: the servers are the parent's, which may go on, and so is a lock
    that a thread of it holds."""
    global _one_at_a_time
    _running.clear()
    _one_at_a_time = threading.Lock()


def through_forks(commands: list, path: list[str]) -> list:
    """The commands that start the ranks, so that they start forks; as they are, where that cannot
    be.

    commands: [[command, environment], …], as plans make them. path: sys.path of the ranks.
    """
    if not _can_fork():
        return commands
    with _one_at_a_time:  # the server answers threads that ask it at once with a single line
        server = _server(commands[0][1], path)
    if server is None:
        return commands
    changed = []
    for command, env in commands:
        place = command.index(plans.WORKER)
        client = ["-I", "-S", _CLIENT, server.address]
        changed.append([[*command[:place], *client, *command[place + 1 :]], env])
    return changed


def _can_fork() -> bool:
    """Not with a GPU: what a library may have begun there does not survive a fork."""
    on_gpu = bool(world.gpu_files()) or os.path.exists("/dev/kfd")
    wanted = os.environ.get("LABKIT_FORKS") != "0"
    return wanted and sys.platform.startswith("linux") and not on_gpu and bool(_modules())


def _modules() -> tuple[str, ...]:
    return tuple(name for first, names in _HEAVY.items() if first in sys.modules for name in names)


def _kit_modules() -> list[str]:
    """What the ranks' function will ask for: a lab's own module, the virtual cluster.

    They are no part of a server's key: a rank that needs another one imports it.
    """
    return sorted(name for name in sys.modules if name.partition(".")[0] in _KIT)


def _server(env: Mapping[str, str], path: list[str]) -> _Server | None:
    """The server for ranks with these variables and this path, started if there is none yet.

    None where it cannot import what it should: the ranks that need it will say so.
    """
    shared = {
        name: env[name] for name in env if name not in _OWN_NAMES and not name.startswith(_OWN)
    }
    key = (tuple(sorted(shared.items())), tuple(path), _modules())
    server = _running.get(key)
    if server is None or not _answers(server):
        if server is not None:
            _end(key)
        while len(_running) >= _MOST:
            _end(next(iter(_running)))
        server = _running[key] = _start(shared, path)
    return server if server.ready else None


def _start(env: dict[str, str], path: list[str]) -> _Server:
    # Mkdtemp: for this user only.
    address = os.path.join(tempfile.mkdtemp(prefix="forks-"), "server")
    absolute = [os.path.abspath(entry) for entry in path]
    started = subprocess.Popen(
        [sys.executable, _SERVER, address, json.dumps(absolute), *_modules(), *_kit_modules()],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt meant for this process does not reach it
    )
    return _Server(address, started, _hears(started))


def _answers(server: _Server) -> bool:
    """Is it still there? One that nobody has asked for a while ends; one that answers stays for
    this run.

    One that could not import is not asked again.
    """
    if not server.ready:
        return True
    try:
        server.process.stdin.write(b"\n")
        server.process.stdin.flush()
    except OSError:
        return False
    return _hears(server.process)


def _hears(server: subprocess.Popen) -> bool:
    """Wait for a line of the server; False where it has ended or says nothing."""
    ready, _, _ = select.select([server.stdout], [], [], _PATIENCE)
    return bool(ready) and bool(server.stdout.readline())


def _end(key: tuple) -> None:
    address, server, _ = _running.pop(key)
    process.end(server, _LEAVE)  # it ends its ranks, then itself
    # It removes it, unless it was killed.
    shutil.rmtree(os.path.dirname(address), ignore_errors=True)


def end_all() -> None:
    """End all servers, and what is left of their ranks."""
    for key in list(_running):
        _end(key)


atexit.register(end_all)
os.register_at_fork(after_in_child=_forget)
