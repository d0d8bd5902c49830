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

_PIECE = 4096  # bytes of the file that are looked at together, from its end


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


def read(file: Path, valid: Callable[[dict], bool], what: str = "record", stacklevel: int = 3) -> list[dict]:
    """The entries of a file, oldest first; [] where there is no file.

    A line that is no object, or not a valid one, is skipped with a warning that names file and line. What a
    killed writer has left of a last line was never reported as written, and is skipped without.
    """
    return [entry for _, entry in read_numbered(file, valid, what, stacklevel + 1)]


def read_numbered(
    file: Path, valid: Callable[[dict], bool], what: str = "record", stacklevel: int = 3
) -> list[tuple[int, dict]]:
    """(number of its line, entry) of each entry, as `read` gives them."""
    try:
        with open(file, "rb") as stream, locked(stream.fileno(), fcntl.LOCK_SH):
            lines = stream.read().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LabError(f"Cannot read the {what}s in {file} ({error.strerror}).") from error
    if _is_torn(lines[-1]):
        del lines[-1]
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if not (isinstance(entry, dict) and valid(entry)):
                raise ValueError(f"no {what}")
        except ValueError:
            warnings.warn(f"{file}:{number}: not a {what}, skipped", stacklevel=stacklevel)
        else:
            entries.append((number, entry))
    return entries


def write(handle: int, line: bytes) -> None:
    """Append a whole line (with its end) to a file that is open for reading and appending.

    One write for all of it, so that a writer killed here leaves at most one broken line, the last. The next
    writer takes that away.
    """
    with locked(handle, fcntl.LOCK_EX) as alone:
        _write_line(handle, line, alone)


def _write_line(handle: int, line: bytes, alone: bool) -> None:
    size = os.fstat(handle).st_size
    tail = _last_line(handle, size)
    if alone and _is_torn(tail):
        size -= len(tail)
        os.ftruncate(handle, size)
    elif tail:
        line = b"\n" + line  # whole, or of an unknown kind, or somebody is still at it: start afresh below
    if os.write(handle, line) != len(line):
        os.ftruncate(handle, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _last_line(handle: int, size: int) -> bytes:
    """What stands behind the last line's end in a file of `size` bytes; nothing, if all went well."""
    begin = size
    tail = b""
    while begin and b"\n" not in tail:
        end = begin
        begin = max(0, end - _PIECE)
        tail = os.pread(handle, end - begin, begin) + tail
    return tail.rpartition(b"\n")[2]


def _is_torn(tail: bytes) -> bool:
    """Is this the beginning of a line of ours, whose writer was killed?"""
    if not tail.startswith(b"{"):
        return False
    try:
        json.loads(tail)
    except ValueError:
        return True
    return False


@contextmanager
def locked(handle: int, kind: int) -> Iterator[bool]:
    """Hold the lock (fcntl.LOCK_EX or LOCK_SH) of an open file. False on a file system without locks."""
    try:
        fcntl.flock(handle, kind)
    except OSError as error:
        # Some cluster file systems have no locks; O_APPEND alone still keeps whole lines apart on one node.
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
