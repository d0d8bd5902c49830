"""The hub as a process: started, found, asked, ended."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from labkit import paths
from labkit.errors import LabError

START_SECONDS = 300  # a few, on a machine with nothing else to do
STOP_SECONDS = 120
_LINES = 5


def running(state: Path) -> int | None:
    """The holder's process id as it knows it itself (on the tabletop: inside of it); None without a hub."""
    try:
        with (state / "private" / "lock").open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read() or 0) or None
    except (FileNotFoundError, ValueError):
        pass
    return None


def read_settings(state: Path) -> dict:
    """settings.json of the hub that runs, or ran last."""
    return json.loads((state / "private" / "settings.json").read_text(encoding="utf-8"))


def start(settings: Path, listening: socket.socket, commands: Path | None) -> None:
    """Start the hub and wait until it answers. LabError with the log's last lines when it does not.

    listening: the socket for browsers. commands: bin/ of the tabletop on which the hub runs, else None.
    """
    hub = paths.root() / ".venv" / "hub"
    command = [
        str(hub / "bin" / "python"),
        str(paths.root() / "env" / "jupyterhub" / "keep.py"),
        str(settings),
    ]
    port = listening.getsockname()[1]
    path = [os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]
    options = {}
    if commands is not None:
        command = [str(commands / "tabletop-enter"), *command, str(listening.fileno())]
        path.insert(0, str(commands))
        options = {"pass_fds": [listening.fileno()]}
    else:
        listening.close()  # the proxy itself listens there
    env = {"PATH": ":".join(path), "LC_ALL": "C.UTF-8", "HOME": os.path.expanduser("~")}
    env |= {name: os.environ[name] for name in ("LABKIT_TEST_RUN",) if name in os.environ}
    log = settings.parent / "start.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True, **options,
        )  # fmt: skip
    listening.close()
    deadline = time.monotonic() + START_SECONDS
    while not answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            if process.poll() is None:
                stop(settings.parent.parent, commands)
            raise LabError(_why(settings.parent))
        time.sleep(0.2)


def answers(port: int) -> bool:
    """Does a hub answer at this port of the loopback address?"""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/hub/health", timeout=5) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def stop(state: Path, commands: Path | None) -> bool:
    """End the hub, all servers and their jobs; wait until it is gone. False when none ran."""
    pid = running(state)
    if pid is None:
        return False
    if commands is not None:
        subprocess.run([str(commands / "tabletop-enter"), "kill", "-TERM", str(pid)], check=False)
    else:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while running(state) is not None:
        if time.monotonic() > deadline:
            raise LabError(
                f"The hub was told to end {STOP_SECONDS} s ago and still runs; see {state}/private/hub.log."
            )
        time.sleep(0.1)
    return True


def _why(private: Path) -> str:
    lines = []
    for name in ("start.log", "hub.log"):
        if (private / name).exists():
            text = (private / name).read_text(encoding="utf-8", errors="replace")
            lines += [f"  {name}: {line}" for line in text.strip().splitlines()[-_LINES:]]
    return f"The hub did not start. The last lines in {paths.shown(private)}:\n" + "\n".join(lines)
