"""What a tabletop cluster could leave behind: processes, namespaces, mounts, interfaces, files."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from tests.helpers import lives, until

KINDS = ("mnt", "net", "uts", "ipc", "pid", "user")
PLACES = [
    "/etc/slurm",
    "/etc/munge",
    "/run/munge",
    "/var/log/munge",
    "/var/lib/munge",
    "/etc/hosts",
]


def older(moment: float) -> list[int]:
    """Processes begun before `moment`: the kernel soon gives the numbers of dead namespaces to new
    ones."""
    pids = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.create_time() < moment:
                pids.append(process.pid)
    return pids


def namespaces(pid: int) -> set[str]:
    """The namespaces of one process; empty when it is gone."""
    names = set()
    for kind in KINDS:
        with contextlib.suppress(OSError):
            names.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return names


def machine() -> dict[str, object]:
    """What must be the same before, during and after: mounts, interfaces, and files that belong to
    others."""
    files = {"shared memory": os.path.exists("/dev/shm/.tabletop")}
    for place in PLACES:
        path = Path(place)
        if path.exists():
            content = sorted(os.listdir(path)) if path.is_dir() else path.read_bytes()
            files[place] = path.stat().st_ino, content
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    interfaces = sorted(os.listdir("/sys/class/net"))
    return {"mounts": sorted(mounts), "interfaces": interfaces, "files": files}


def name(process: psutil.Process) -> str:
    """Its program; empty when it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


class Traces:
    """All processes below a cluster's holder, and the namespaces they have for themselves."""

    def __init__(self, holder: int):
        process = psutil.Process(holder)
        self.processes = [process, *process.children(recursive=True)]
        below = set().union(*(namespaces(process.pid) for process in self.processes))
        self.namespaces = below - namespaces(os.getpid())
        self.names = sorted(map(name, self.processes))

    def left(self) -> tuple[list[psutil.Process], set[str]]:
        """What of it is there after a moment: (processes, namespaces)."""
        called = time.time()

        def there():
            everyone = set().union(*(namespaces(pid) for pid in older(called)))
            return [*filter(lives, self.processes)], self.namespaces & everyone

        until(lambda: there() == ([], set()), 5)
        return there()
