"""Files of one JSON object per line: safe with many writers, and with a writer that is killed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit.errors import LabError


def append(file: Path, entry: dict, what: str = "record", mode: int = 0o644) -> None:
    """Append one line, whole or not at all; `what` it is, for the LabError when that fails.

    mode: of a file that is not there yet.
    """
    line = json.dumps(entry, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
        try:
            write(handle, line)
        finally:
            os.close(handle)
    except OSError as error:
        raise LabError(
            f"Cannot write the {what} to {file} ({error.strerror}). "
            "Free space there, or set LABKIT_HOME to a folder you can write to."
        ) from error


def write(handle: int, line: bytes) -> None:
    """Append a whole line (with its end) to a file that is open for reading and appending.

    One write for all of it, so that a writer killed here leaves at most one broken line. That stays
    as it is, on a line of its own, and whoever reads the file passes it over.
    """
    with locked(handle, fcntl.LOCK_EX):
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(handle, line) != len(line):
            os.ftruncate(handle, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def numbered(
    file: Path, valid: Callable[[dict], bool], what: str = "record"
) -> list[tuple[int, dict]]:
    """(number of its line, entry) of a file, oldest first; [] where there is no file.

    A line that is no object, or not a valid one, is skipped with a warning that names file and
    line.
    """
    try:
        with open(file, "rb") as stream, locked(stream.fileno(), fcntl.LOCK_SH):
            lines = stream.read().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LabError(f"Cannot read {file} ({error.strerror}).") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict) and valid(entry):
            entries.append((number, entry))
        else:
            warnings.warn(f"{file}:{number}: not a {what}, skipped", stacklevel=3)
    return entries


def read(file: Path, valid: Callable[[dict], bool], what: str = "record") -> list[dict]:
    """The entries alone."""
    return [entry for _, entry in numbered(file, valid, what)]


@contextmanager
def locked(handle: int, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of an open file, until then. On a file system without locks nothing is held."""
    try:
        fcntl.flock(handle, kind)
    except OSError as error:
        # Some cluster file systems have no locks; O_APPEND alone still keeps whole lines apart on
        # one node.
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
