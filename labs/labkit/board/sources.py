"""Where a class's shared files lie, and their bytes: read with care, as anybody may have written them.

No link is followed, nothing is opened that is no plain file, and a file counts only for the user who owns it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from labkit import journal, paths
from labkit.errors import LabError

HUGE = 8_000_000  # bytes; journal.share keeps a file below half of that
MOST = 1000  # entries of a folder that are looked at
LEARNERS = range(1000, 60000)  # user numbers of people, by the convention of Linux distributions
SUFFIX = Path(journal.FILE).suffix
# Where a learner's own folder lies below their home: see paths.home().
_OWN_FOLDERS = ((), (".labkit",), (".local", "state", "labkit"))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Shared(NamedTuple):
    """A learner's shared file. name: their login."""

    name: str
    content: bytes


class Problem(NamedTuple):
    """Something that could not be read. name: of whom it is; sentence: what is the matter, and what to do."""

    name: str
    sentence: str


class Found(NamedTuple):
    """All that was found. silent: homes of people who share nothing, as a number: nobody says who."""

    shared: list[Shared]
    problems: list[Problem]
    silent: int


class _Unreadable(Exception):
    """The sentence about a file or folder."""


def read(folder: Path | None) -> Found:
    """The shared files in a class folder or below a folder of homes; None: what this machine's users share.

    Raises LabError where the folder itself cannot be read.
    """
    if folder is None and os.environ.get("LABKIT_CLASS"):
        folder = Path(os.environ["LABKIT_CLASS"])
    if folder is None:
        return _of_users()
    folder = folder.expanduser()
    try:
        with ExitStack() as opened:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, handle)
            return _collect(_entries(handle, os.fstat(handle).st_uid))
    except OSError as error:
        raise LabError(
            f"{folder} cannot be read ({error.strerror}). DIR= names the class's folder, which "
            "`make board DIR=folder NEW=1` makes, or the folder that holds your learners' homes."
        ) from None


def _collect(readings: Iterable[Shared | Problem | None]) -> Found:
    shared, problems, silent = [], [], 0
    for reading in readings:
        if isinstance(reading, Shared):
            shared.append(reading)
        elif isinstance(reading, Problem):
            problems.append(reading)
        else:
            silent += 1
    return Found(shared, problems, silent)


def _of_users() -> Found:
    """From the homes of this machine's people, and from the folder of whoever asks."""
    homes = {user.pw_dir: user.pw_name for user in pwd.getpwall() if user.pw_uid in LEARNERS}
    readings = []
    own = paths.home()
    if not any(own.is_relative_to(home) for home in homes):
        homes[str(own)] = _login(os.geteuid())
    for home, name in sorted(homes.items(), key=lambda entry: entry[1]):
        if os.path.isdir(home):
            readings.append(_in_home(name, None, home))
    return _collect(readings)


def _entries(folder: int, owner: int) -> Iterator[Shared | Problem | None]:
    """What the entries of an open folder are; owner: of the folder, who may keep files for others there."""
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    taken: dict[int, str] = {}
    for name in names[:MOST]:
        kind = None
        with contextlib.suppress(OSError):  # gone in this moment
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if kind is None:
            continue
        if stat.S_ISLNK(kind.st_mode):
            yield Problem(unquote(name.removesuffix(SUFFIX)), "is a link, and links are not followed")
        elif stat.S_ISDIR(kind.st_mode):
            if name != "lost+found":
                yield _in_home(name, folder, name)
        elif not name.endswith(SUFFIX):
            yield Problem(name, "is no learner's file: those end in .jsonl, and `make share` writes them")
        else:
            yield _in_class_folder(folder, name, owner, taken)
    if len(names) > MOST:
        yield Problem("The folder", f"has {len(names)} entries; the first {MOST} were read")


def _in_class_folder(folder: int, name: str, owner: int, taken: dict[int, str]) -> Shared | Problem:
    """A file of a class folder. taken: owner of a file -> its name, of those seen already."""
    login = unquote(name.removesuffix(SUFFIX))
    try:
        content, writer = _content(name, folder)
        if writer != owner:  # the system says whose it is, not the file
            if writer in taken:
                raise _Unreadable(f"belongs to {_login(writer)}, whose file {taken[writer]} was read already")
            taken[writer] = name
            login = _login(writer)
        return Shared(login, content)
    except _Unreadable as error:
        return Problem(login, str(error))


def _in_home(login: str, above: int | None, home: str) -> Shared | Problem | None:
    """What the learner of that home shares: the newest of their files; None where there is none."""
    newest: tuple[float, bytes] | None = None
    try:
        with ExitStack() as opened:
            # A home that the system names may be a link: only root writes there. Not so below DIR.
            folder = _open(home, above, _FOLDER if above is not None else _FOLDER & ~os.O_NOFOLLOW)
            opened.callback(os.close, folder)
            owner = os.fstat(folder).st_uid
            for parts in (*_OWN_FOLDERS, *_checkouts(folder)):
                reading = _shared_below(folder, parts, owner)
                if reading and (newest is None or reading[0] > newest[0]):
                    newest = reading
    except _Unreadable as error:
        return Problem(login, str(error))
    return Shared(login, newest[1]) if newest else None


def _checkouts(home: int) -> Iterator[tuple[str, str]]:
    """The folders of a home that may be a checkout: with a .labkit in them."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(home))[:MOST]:
            if not name.startswith("."):
                yield (name, ".labkit")


def _shared_below(home: int, parts: tuple[str, ...], owner: int) -> tuple[float, bytes] | None:
    """(when it changed, content) of the shared file in a folder below a home; None where there is none."""
    with ExitStack() as opened:
        folder = home
        for part in parts:
            try:
                folder = os.open(part, _FOLDER, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    return None
                raise _Unreadable(_why(error)) from None
            opened.callback(os.close, folder)
        try:
            seen = os.stat(journal.FILE, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _Unreadable(_why(error)) from None
        content, writer = _content(journal.FILE, folder)
        if writer != owner:
            raise _Unreadable(
                f"has a {journal.FILE} that belongs to {_login(writer)}: a file counts only for its owner"
            )
        return seen.st_mtime, content


def _content(name: str, folder: int) -> tuple[bytes, int]:
    """(bytes, owner's number) of a plain file; raises _Unreadable with what it is instead."""
    handle = _open(name, folder, _PLAIN_FILE)
    with os.fdopen(handle, "rb") as stream:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise _Unreadable("is no plain file")
        if seen.st_size > HUGE:
            raise _Unreadable(f"is huge, {seen.st_size / 1e6:.0f} MB; `make share` writes it afresh")
        try:
            return stream.read(HUGE + 1), seen.st_uid
        except OSError as error:
            raise _Unreadable(_why(error)) from None


def _open(name: str, folder: int | None, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise _Unreadable(_why(error)) from None


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "is a link, and links are not followed"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "is closed to you. A class folder (`make board DIR=folder NEW=1`) or root reads it"
    return f"cannot be read ({error.strerror})"


def _login(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
