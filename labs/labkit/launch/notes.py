"""What a rank of a batch job leaves in the job's folder: why it failed, or in which line it was
ended.

Ranks end in many ways, and their launcher tells only some of it. `slurm.job` reads the notes at the
end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import socket
import time
from pathlib import Path

from labkit import world
from labkit.launch import diagnosis, meeting

_stack = None  # the open file that faulthandler writes to


def leave_stack() -> None:
    """In a rank of a batch job: leave its host and, should Slurm end it, its line. Elsewhere:
    nothing."""
    global _stack
    folder = _folder()
    if folder is None or _stack is not None:
        return
    with contextlib.suppress(OSError):  # without the note the job still runs
        _stack = open(folder / f"stack.{world.rank()}", "w")  # noqa: SIM115 - open until the process ends
        print(socket.gethostname(), file=_stack, flush=True)
        # Written by C code: also while the rank waits inside MPI, where no Python runs. Then it
        # ends as ever.
        faulthandler.register(signal.SIGTERM, file=_stack, all_threads=True, chain=True)


def failed(text: str) -> None:
    """Leave the reason for which this rank fails; only the first one counts."""
    folder = _folder()
    if folder is None:
        return
    note = {"rank": world.rank(), "host": socket.gethostname(), "text": text}
    note["when"] = meeting.now()  # nodes' clocks may differ, and the first failure counts
    path = folder / f"failed.{world.rank()}"
    # It is there already, or the folder is gone: then the job is over.
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(note))


def leave_error(error: BaseException) -> None:
    """Leave an exception as the reason, in the words of launch.run."""
    if _folder() is not None:
        failure = diagnosis.describe(error, "run", time.time())
        failed(str(diagnosis.raised(world.rank(), failure)))


def _folder() -> Path | None:
    name = os.environ.get("LABKIT_NOTES")
    # A rank of launch.run on this host is no rank of the job: launch tells of it itself.
    return Path(name) if name and world.launcher() not in (None, "labkit") else None
