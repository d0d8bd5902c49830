"""Where a result came from: time, machine, versions, launcher, git revision. What cannot be found
is None."""

from __future__ import annotations

import os
import platform
import socket
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

from labkit import builds, edition, files, paths, world

# For results of NumPy's arrays, or of other tensors in host memory, that travel by MPI; as
# placement.on_host("MPI").fields().
BY_MPI = {"device": "cpu", "staged": "no", "library": "MPI"}

# Name in the record: distributions that may bring it; the first one that is there counts.
_DISTRIBUTIONS = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow_cpu"),
    "horovod": ("horovod",),
    "mpi4py": ("mpi4py",),
}


def here() -> dict:
    """Provenance of a result measured now, in this process. Flat: one key per fact."""
    return {
        "utc": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "host": socket.gethostname(),
        "cpu": cpu_model(),
        "cores": world.cores(),
        "device": world.device(),
        # And library: placement.of_mpi().fields() and the like say both, and the device.
        "staged": None,
        "library": None,
        "launcher": world.launcher(),
        "ranks": world.size(),
        "python": platform.python_version(),
        **versions(),
        **builds.in_use(),
        **batch_job(),
        # Only rank 0 writes. All ranks of a job asking git at once would keep the file system busy.
        **(git(str(paths.root())) if world.is_root() else {}),
    }


def batch_job() -> dict:
    """`job` (Slurm's number, as text), `site`, `submitted` (UTC) and `restarts` (how often Slurm
    has begun it again) of the job that runs this process; None outside of one.
    """
    number = world.batch_job()
    names = {"site": "SITE", "submitted": "LABKIT_SUBMITTED"}
    about = {field: os.environ.get(name) or None for field, name in names.items()}
    about["restarts"] = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    return {"job": number, **(about if number else dict.fromkeys(about))}


@lru_cache(maxsize=1)
def cpu_model() -> str | None:
    """The processor's own name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return " ".join(line.split(":", 1)[1].split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or None


@lru_cache(maxsize=1)
def versions() -> dict:
    """Versions of the installed frameworks, read from their metadata: nothing is imported."""
    return {name: files.version(*candidates) for name, candidates in _DISTRIBUTIONS.items()}


@lru_cache(maxsize=4)
def git(folder: str) -> dict:
    """`revision` (12 digits) of the checkout; `changed`: tracked files differ from it. None without
    git.

    An archive says its revision itself, and nobody knows what was changed.
    """
    archive = edition.read(Path(folder))
    if archive is not None:
        return {"revision": archive.revision, "changed": None}
    revision = files.git(Path(folder), "rev-parse", "--short=12", "HEAD")
    if revision is None:
        return {"revision": None, "changed": None}
    status = files.git(Path(folder), "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "changed": None if status is None else bool(status)}
