"""The one process that holds a cluster: started here, recognised here, ended here."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

from labkit.errors import LabError

from slurm.tabletop import config, needs

_INNER = [
    "--mount",
    "--propagation",
    "slave",
    "--net",
    "--uts",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
]


_started: dict[
    int, subprocess.Popen
] = {}  # by process id: Python warns of one forgotten while it runs


def start(state: Path, nodes: int) -> subprocess.Popen:
    """Start inside/cluster.sh as process 1 of namespaces of its own, and note it in `state/holder`.

    It waits for a line on stdin, which comes once it is noted: should this process be killed
    before, it ends, and no cluster runs that nobody can find. Raises LabError.
    """
    log = (state / "log" / "cluster.log").open("ab")
    inner = [needs.program("unshare"), *_INNER, "--mount-proc"]
    command = [*inner, "bash", str(config.INSIDE / "cluster.sh"), str(state), str(nodes)]
    env = _environment()
    options = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log, "env": env, "cwd": "/"}
    options["start_new_session"] = True
    before = os.readlink("/proc/self/ns/net")
    with log:
        process = (
            subprocess.Popen(command, **options)
            if needs.is_root()
            else _with_users(command, options)
        )
    try:
        while process.poll() is None and (network := _network(process.pid)) in (None, before):
            time.sleep(0.005)
        if process.poll() is None:
            (state / "holder").write_text(f"{process.pid} {network}\n", encoding="utf-8")
            _started[process.pid] = process
            _let_go(process)
            process.stdin.close()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _let_go(process: subprocess.Popen) -> None:
    """The line that it waits for; a process that has ended meanwhile is found so by who looks after
    it."""
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"go\n")
        process.stdin.flush()


def _environment() -> dict[str, str]:
    """The daemons know nothing of the user's own settings, least of all of another Slurm."""
    return {"PATH": needs.path(), "LC_ALL": "C.UTF-8", "HOME": os.path.expanduser("~")}


def _with_users(command: list[str], options: dict) -> subprocess.Popen:
    """Start in a user namespace in which this user is root and the user's own range is everybody
    else.

    The process waits for its maps, and becomes root's when it goes on: only then do its
    capabilities count.
    """
    wait = [needs.program("unshare"), "--user", "bash", "-c", 'read -r && exec "$@"', "bash"]
    before = os.readlink("/proc/self/ns/user")
    process = subprocess.Popen([*wait, *command], **options)
    try:
        while os.readlink(f"/proc/{process.pid}/ns/user") == before:
            if process.poll() is not None:
                raise LabError("The user namespace could not be made; see log/cluster.log.")
            time.sleep(0.005)
        for program, own, file in (
            ("newuidmap", os.getuid(), "/etc/subuid"),
            ("newgidmap", os.getgid(), "/etc/subgid"),
        ):
            first, count = _range(file)
            numbers = [process.pid, 0, own, 1, 1, first, count]
            done = subprocess.run(
                [needs.program(program), *map(str, numbers)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise LabError(f"{program} refused the range in {file}: {done.stderr.strip()}")
        _let_go(process)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _range(file: str) -> tuple[int, int]:
    """The user's range of further ids: (first, count). Raises LabError when there is none."""
    user = pwd.getpwuid(os.getuid()).pw_name
    lines = Path(file).read_text(encoding="utf-8").splitlines() if os.path.exists(file) else []
    for line in lines:
        owner, _, numbers = line.partition(":")
        if owner in (user, str(os.getuid())):
            first, _, count = numbers.partition(":")
            return int(first), min(int(count), 65536)
    raise LabError(
        f"{file} gives {user} no range of further ids, which Slurm's daemons need. Its"
        " administrator adds one: sudo usermod --add-subuids 100000-165535 --add-subgids"
        f" 100000-165535 {user}"
    )


def _network(pid: int) -> str | None:
    """The network namespace of a process; None when there is no such process."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        return os.readlink(f"/proc/{pid}/ns/net")
    return None


def alive(state: Path) -> int | None:
    """The holder's process id, or None. A process that only has the same number is told by its
    network."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        pid, network = (state / "holder").read_text(encoding="utf-8").split()
        if _network(int(pid)) == network:
            return int(pid)
        if int(pid) in _started:
            _started.pop(int(pid)).wait()  # it has been killed
    return None


def end(state: Path, seconds: float = 5) -> bool:
    """End the holder, and everything with it; wait until it is gone. False when there was none."""
    pid = alive(state)
    if pid is None:
        return False
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while alive(state) is not None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            raise LabError(
                f"The cluster's process {pid} was told to end {seconds:g} s ago and is still there."
            )
        time.sleep(0.01)
    (state / "holder").unlink()
    if pid in _started:
        _started.pop(pid).wait()
    return True
