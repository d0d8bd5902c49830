"""The hub as processes and jobs: started, found, asked, ended.

A lock tells whether a hub runs. Its processes are known by a variable in their environment, which
names this hub's settings.json: also those that a hub which did not end in order has left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
from labkit import paths
from labkit.errors import LabError

from slurm import tabletop

MARK = "LABS_HUB_SETTINGS"
JOB = "labs-hub"  # the name of each learner's server, as in job.sh
START_SECONDS = 300  # a few, on a machine with nothing else to do
STOP_SECONDS = 120
LEFT_SECONDS = 10  # for what the hub has left, to end when it is told to
JOBS_SECONDS = 60  # for jobs that are cancelled
MOST_SHOWN = 100  # letters of a command line
_LINES = 5


def running(state: Path) -> bool:
    """Does a hub hold the lock? Also one that is about to end."""
    try:
        with (state / "private" / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def read_settings(state: Path) -> dict:
    """settings.json of the hub that runs, or ran last; empty where none ever did."""
    file = state / "private" / "settings.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def found(state: Path) -> list[psutil.Process]:
    """This hub's processes, by their mark. psutil knows each from a later one of its number."""
    mark = str(state / "private" / "settings.json")
    own = {process.pid for process in (psutil.Process(), *psutil.Process().parents())}
    marked = []
    for process in psutil.process_iter():
        try:
            if process.pid not in own and process.environ().get(MARK) == mark:
                marked.append(process)
        except (psutil.Error, OSError):
            continue  # somebody else's, or it has ended
    return marked


def _keeper() -> str:
    return str(paths.root() / "slurm" / "hub" / "keep.py")


def start(settings: Path, listening: socket.socket, commands: Path | None) -> None:
    """Start the hub and wait until it answers. LabError with the log's last lines when it does not.

    listening: the socket for browsers. commands: bin/ of the tabletop on which the hub runs, else
    None.
    """
    state = settings.parent.parent
    python = str(paths.root() / ".venv" / "hub" / "bin" / "python")
    command = [python, _keeper(), str(listening.fileno())]
    port = listening.getsockname()[1]
    path = [os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]
    if commands is not None:
        command.insert(0, str(commands / "tabletop-enter"))
        path.insert(0, str(commands))
    env = {"PATH": ":".join(path), "LC_ALL": "C.UTF-8", "HOME": os.path.expanduser("~")}
    env[MARK] = str(settings)
    env |= {name: os.environ[name] for name in ("LABKIT_TEST_RUN",) if name in os.environ}
    log = settings.parent / "start.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True, pass_fds=[listening.fileno()],
        )  # fmt: skip
    # This process holds the socket as well, up to the end: whoever answers at the port is the hub.
    deadline = time.monotonic() + START_SECONDS
    while not answers(port) or process.poll() is not None:
        if process.poll() is not None or time.monotonic() > deadline:
            stop(state)
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


def stop(state: Path) -> bool:
    """End the hub and all that it has left; wait until it is gone. False where there was nothing.

    A hub that runs stops its servers and their jobs. LabError for a process that does not end.
    """
    if running(state):
        there = found(state)
        if not there:
            raise LabError(
                "The hub of this folder is another user's, or runs on another machine: end it "
                "there, as that user."
            )
        holders = [process for process in there if _command(process)[1:2] == [_keeper()]]
        _signal(holders, psutil.Process.terminate)
        _wait(lambda: not running(state), STOP_SECONDS)
    elif not found(state):
        return False
    for end in (psutil.Process.terminate, psutil.Process.kill):
        _signal(found(state), end)
        if _wait(lambda: not found(state), LEFT_SECONDS):
            return True
    left = "\n  ".join(map(said, found(state)))
    raise LabError(f"These processes of the hub were killed, and are still there:\n  {left}")


def _signal(processes: list[psutil.Process], signal: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            signal(process)


def _wait(over: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is over, or the time is. Is it over?"""
    deadline = time.monotonic() + seconds
    while not over():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def said(process: psutil.Process) -> str:
    """Its number, user and command line, printable, for anybody may have written that."""
    user = ""
    with contextlib.suppress(psutil.Error):
        user = process.username()
    command = " ".join(_command(process)).replace(f"{paths.root()}/", "")
    command = "".join(letter if letter.isprintable() else "?" for letter in command[:MOST_SHOWN])
    return f"process {process.pid} of {user}: {command}"


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []  # it has ended


def table(known: dict) -> tabletop.Tabletop | None:
    """The tabletop on which the hub of these settings runs, or ran, if that one runs."""
    if not known.get("commands"):
        return None
    folder = Path(known["commands"]).parent
    return tabletop.find(folder.name, folder.parents[1])


def jobs(known: dict) -> list[str]:
    """The numbers of the learners' servers that are jobs, or wait to be.

    known: the hub's settings, as read_settings has them. LabError where Slurm does not say.
    """
    if not known.get("site") or known["commands"] and table(known) is None:
        return []  # a tabletop's jobs end with it
    return _slurm(known, "squeue", "--noheader", "--format=%i").split()


def cancel(known: dict) -> list[str]:
    """Cancel these jobs and wait for their end; their numbers. LabError where one does not end."""
    there = jobs(known)
    if there:
        with contextlib.suppress(LabError):  # a job may end by itself meanwhile; the queue tells
            _slurm(known, "scancel")
        if not _wait(lambda: not jobs(known), JOBS_SECONDS):
            left = " ".join(jobs(known))
            raise LabError(f"These jobs were cancelled, and have not ended yet: {left}")
    return there


def _slurm(known: dict, program: str, *words: str) -> str:
    """What a command says of the jobs with a learner's server, of this hub's people."""
    folder = f"{known['commands']}/" if known["commands"] else ""
    command = [f"{folder}{program}", f"--name={JOB}", *words]
    if not known["commands"]:  # a site's cluster, where others may have such a hub
        command.append(f"--user={','.join(known['people'] or [getpass.getuser()])}")
    try:
        options = {"capture_output": True, "text": True, "timeout": JOBS_SECONDS}
        done = subprocess.run(command, check=False, **options)
        why = done.returncode and (done.stderr.strip() or f"status {done.returncode}")
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why:
        raise LabError(f"Slurm does not say which servers run: {program}: {why}")
    return done.stdout


def _why(private: Path) -> str:
    lines = []
    for name in ("start.log", "hub.log"):
        if (private / name).exists():
            text = (private / name).read_text(encoding="utf-8", errors="replace")
            lines += [f"  {name}: {line}" for line in text.strip().splitlines()[-_LINES:]]
    return f"The hub did not start. The last lines in {paths.shown(private)}:\n" + "\n".join(lines)
