"""How many cores this process may use: the machine's count, its affinity mask, and its cgroup's
quota."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def usable() -> int:
    """The smallest of the affinity mask and the cgroup quota (rounded up); at least 1."""
    # macOS has no affinity masks.
    masks = hasattr(os, "sched_getaffinity")
    allowed = len(os.sched_getaffinity(0)) if masks else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, allowed if quota is None else min(allowed, math.ceil(quota)))


def cgroup_quota(
    root: Path = _CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")
) -> float | None:
    """The smallest CPU quota of this process's cgroup and those above it, in cores; None without a
    quota."""
    quotas = []
    for controllers, path in _memberships(membership):
        if controllers == "":
            folders = [root]
            read = _quota_v2
        elif "cpu" in controllers.split(","):
            folders = [root / controllers, root / "cpu"]
            read = _quota_v1
        else:
            continue
        for top in folders:
            # In a container the path may be the host's; then only the mounted top is there to read.
            folder = top / path.lstrip("/")
            quotas += [
                read(where) for where in (folder, *folder.parents) if where.is_relative_to(top)
            ]
    return min((quota for quota in quotas if quota is not None), default=None)


def _memberships(file: Path) -> list[tuple[str, str]]:
    """(controllers, path) of each line of /proc/self/cgroup; controllers are "" under cgroup v2."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return []
    return [tuple(line.split(":", 2)[1:]) for line in lines if line.count(":") >= 2]


def _quota_v2(folder: Path) -> float | None:
    fields = _words(folder / "cpu.max")
    return int(fields[0]) / int(fields[1]) if len(fields) == 2 and fields[0] != "max" else None


def _quota_v1(folder: Path) -> float | None:
    quota = _words(folder / "cpu.cfs_quota_us")
    period = _words(folder / "cpu.cfs_period_us")
    return int(quota[0]) / int(period[0]) if quota and period and int(quota[0]) > 0 else None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
