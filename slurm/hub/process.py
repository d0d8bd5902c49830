"""The hub as processes and jobs: started, held, found, ended.

`make hub` leaves one process running, `python -m slurm.hub.process SOCKET`, which starts the hub,
shields and ends it. SOCKET is the number of an inherited file: the socket for browsers, at the
loopback address. It is held for as long as the hub runs, so that nobody else can take the port.
What connects there is handed on to the proxy, which listens at a Unix socket in the hub's private
folder. The class board's port is held in the same way.

A lock tells whether a hub runs. Its processes are known by a variable in their environment, which
names this hub's settings.json: also those that a hub which did not end in order has left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import getpass
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
from labkit import launch, paths
from labkit.errors import LabError

from slurm import tabletop
from slurm.hub import install
from slurm.hub.names import BOARD, MARK, PROXY, PROXY_API

JOB = "labs-hub"  # the name of each learner's server, as in job.sh
START_SECONDS = 300  # a few, on a machine with nothing else to do
HUB_SECONDS = 90  # for the hub to stop all servers
STOP_SECONDS = 120  # for the process that holds it
LEFT_SECONDS = 10  # for what the hub has left, to end when it is told to
JOBS_SECONDS = 60  # for jobs that are cancelled
LOOK = 0.2  # seconds between two looks at the hub
MOST_SHOWN = 100  # letters of a command line
_HOLDER = ["-m", "slurm.hub.process"]
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


def start(settings: Path, listening: socket.socket, commands: str) -> None:
    """Start the hub and wait until it answers. LabError with the log's last lines when it does not.

    listening: the socket for browsers. commands: bin/ of the tabletop on which the hub runs, or "".
    """
    root = paths.root()
    command = [sys.executable, *_HOLDER, str(listening.fileno())]
    path = [os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]
    if commands:
        command.insert(0, f"{commands}/tabletop-enter")
        path.insert(0, commands)
    env = {"PATH": ":".join(path), "LC_ALL": "C.UTF-8", "HOME": os.path.expanduser("~")}
    env |= {MARK: str(settings), "PYTHONPATH": f"{root}:{root / 'labs'}"}
    env |= {name: os.environ[name] for name in ("LABKIT_TEST_RUN",) if name in os.environ}
    log = settings.parent / "start.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True, pass_fds=[listening.fileno()],
        )  # fmt: skip
    # This process holds the socket as well, up to the end: whoever answers at the port is the hub.
    port = listening.getsockname()[1]
    deadline = time.monotonic() + START_SECONDS
    while not answers(port) or process.poll() is not None:
        if process.poll() is not None or time.monotonic() > deadline:
            stop(settings.parent.parent)
            raise LabError(_why(settings.parent))
        time.sleep(0.2)


def answers(port: int) -> bool:
    """Does a hub answer at this port of the loopback address?"""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/hub/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def _why(private: Path) -> str:
    lines = []
    for name in ("start.log", "hub.log"):
        if (private / name).exists():
            text = (private / name).read_text(encoding="utf-8", errors="replace")
            lines += [f"  {name}: {line}" for line in text.strip().splitlines()[-_LINES:]]
    return f"The hub did not start. The last lines in {paths.shown(private)}:\n" + "\n".join(lines)


# -- the process that holds a hub


def hold(listening: int) -> None:
    """Run the hub and hold its lock meanwhile: whoever asks sees by it that a hub runs."""
    os.umask(0o077)  # the log of a learner's job takes this from the hub
    os.chdir(Path(os.environ[MARK]).parent)
    with open("lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("Another hub runs here already.")
        # After an unclean end: JupyterHub would kill whatever has the number in that file by now.
        for name in ("jupyterhub-proxy.pid", PROXY, PROXY_API):
            Path(name).unlink(missing_ok=True)
        launch.adopt_orphans()
        with socket.socket(fileno=listening) as browsers:
            asyncio.run(_serve(browsers, lock.fileno()))
            _end(_children)


async def _serve(browsers: socket.socket, lock: int) -> None:
    """Start the hub, serve both ports, and wait until it ends, or is told to and has ended."""
    await asyncio.start_server(relay(PROXY), sock=browsers)
    board = await asyncio.start_server(relay(BOARD), "127.0.0.1", 0)
    hub = _start_hub(board.sockets[0].getsockname()[1], lock)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        """Once: told again, JupyterHub would break off its end in order."""
        loop.add_signal_handler(signal.SIGTERM, lambda: None)
        hub.terminate()
        loop.call_later(HUB_SECONDS, hub.kill)

    loop.add_signal_handler(signal.SIGTERM, stop)
    while hub.poll() is None:
        _reap()
        await asyncio.sleep(LOOK)


def _start_hub(board_port: int, lock: int) -> subprocess.Popen:
    """JupyterHub itself, in its own Python, which has no part of the labs."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    config = str(Path(__file__).with_name("jupyterhub_config.py"))
    with open("hub.log", "ab", opener=functools.partial(os.open, mode=0o600)) as log:
        return subprocess.Popen(
            [str(install.HUB / "bin" / "jupyterhub"), "-f", config],
            env={**env, "LABS_HUB_BOARD_PORT": str(board_port)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],  # should this process be killed, the hub has the lock until its end
            preexec_fn=functools.partial(launch.die_with_parent, os.getpid(), signal.SIGTERM),
        )


def relay(path: str):
    """What serves one connection: to the Unix socket `path`, both ways."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_unix_connection(path)
        except OSError:
            writer.close()  # nobody listens yet
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    return serve


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, up to its end, whatever that is."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _children() -> list[psutil.Process]:
    """This process's children. What lost its parent below it is one of them."""
    _reap()
    return psutil.Process().children()


def _reap() -> None:
    """Let children that have ended go; until then their numbers are nobody else's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


# -- its end


def stop(state: Path) -> bool:
    """End the hub and all that it has left; wait until it is gone. False where there was nothing.

    A hub that runs stops its servers and their jobs. LabError for a process that does not end.
    """
    there = found(state)
    if running(state):
        if not there:
            raise LabError(
                "The hub of this folder is another user's, or runs on another machine: end it "
                "there, as that user."
            )
        for process in there:
            if _command(process)[1:3] == _HOLDER:
                _signal(process, signal.SIGTERM)
        _wait(lambda: not running(state), STOP_SECONDS)
    elif not there:
        return False
    if _end(lambda: found(state)):
        return True
    left = "\n  ".join(map(said, found(state)))
    raise LabError(f"These processes of the hub were killed, and are still there:\n  {left}")


def _end(there: Callable[[], list[psutil.Process]]) -> bool:
    """Tell these processes to end, also those that join them; kill whoever is left when their time
    is up. Have all ended?"""
    told = set()
    deadline = time.monotonic() + LEFT_SECONDS
    while left := there():
        now = time.monotonic()
        if now > deadline + LEFT_SECONDS:
            return False
        for process in left:
            if now > deadline:
                _signal(process, signal.SIGKILL)
            elif process not in told:
                told.add(process)
                _signal(process, signal.SIGTERM)
        time.sleep(0.1)
    return True


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


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


# -- jobs; known: the hub's settings


def table(known: dict) -> tabletop.Tabletop | None:
    """The tabletop on which the hub of these settings runs, or ran, if that one runs."""
    if not known.get("commands"):
        return None
    folder = Path(known["commands"]).parent
    return tabletop.find(folder.name, folder.parents[1])


def jobs(known: dict) -> list[str]:
    """The numbers of the learners' servers that are jobs, or wait to be. LabError where Slurm does
    not say."""
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


if __name__ == "__main__":
    hold(int(sys.argv[1]))
