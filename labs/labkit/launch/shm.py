"""MPI's shared memory files in /dev/shm: none may stay behind when a run is killed.

MPICH 5 keeps a file `mpich_shm_…` of about 1 MB per rank there until MPI_Finalize. A killed job
never gets there, and a container's /dev/shm holds 64 MB: after a dozen deadlocks every further run
would crash. Where there is no such folder, nothing happens.

Standard library only: the supervisor uses it too.
"""

from __future__ import annotations

import os
import time

_FOLDER = "/dev/shm"
_MPICH = ("mpich_",)
_ANY_MPI = (*_MPICH, "sm_segment.", "vader_segment.")  # Open MPI 5 and 4 leave theirs as well


def mapped(pid: str, prefixes: tuple[str, ...] = _MPICH) -> set[str]:
    """The files of MPI that the process has mapped and that still have a name."""
    top = f"{_FOLDER}/"
    gone = " (deleted)"
    try:
        with open(f"/proc/{pid}/maps", errors="replace") as file:
            names = [line[line.index(top) :].rstrip("\n") for line in file if top in line]
    except OSError:
        return set()  # another user's, or it ended meanwhile
    return {
        name for name in names if name[len(top) :].startswith(prefixes) and not name.endswith(gone)
    }


def unlink_own() -> None:
    """Take away the names of this process's MPICH files; mapped memory stays until its last user
    ends.

    Call it when all ranks of this host have come out of MPI_Init: from then on nobody opens the
    files by name.
    """
    for path in mapped("self"):
        _unlink(path)


def unlink_abandoned() -> None:
    """Remove this user's files of MPI that no process has mapped."""
    abandoned = _unmapped()
    if abandoned:
        time.sleep(0.1)  # a job that is just starting creates its file a moment before it maps it
        for path in abandoned & _unmapped():
            _unlink(path)


def _unmapped() -> set[str]:
    paths = {os.path.join(_FOLDER, name) for name in _names(_FOLDER) if name.startswith(_ANY_MPI)}
    own = {path for path in paths if _owner(path) == os.getuid()}
    if own:
        for pid in _names("/proc"):
            if pid.isdigit():
                own -= mapped(pid, _ANY_MPI)
    return own


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # another rank was quicker
