"""The shared files of a class folder, read with care, because learners can put anything there.

A file counts only for the user who owns it, whatever its name. No link is followed, only plain
files are read, and each user has a budget, so that nobody can hide other learners or slow the board
down.

A folder into which only its owner may write is that of a hub that runs all its users as one. There,
and only there, the names of the owner's files say whose they are.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from labkit import journal
from labkit.errors import LabError

from classroom import reader
from classroom.curriculum import Lab

HUGE = 1_000_000  # bytes of a file; journal.share keeps it below half of that
ENTRIES = 3  # of one learner that are looked at
LEARNERS = 1000  # whose files are looked at
BUDGET = 64_000_000  # bytes that one look reads
SUFFIX = ".jsonl"
_NO_FILE = "has something in the class folder that is no plain file"
_AFRESH = "`make share` writes it afresh"


class Shared(NamedTuple):
    """What a learner shares. name: their login."""

    name: str
    shared: reader.Shared


class Problem(NamedTuple):
    """Something that could not be read. name: of whom it is; sentence: what to do about what."""

    name: str
    sentence: str


class _Unreadable(Exception):
    """The sentence about a file."""


class _File(NamedTuple):
    """An entry of the folder. rank: of a learner's entries that with the smallest is read first."""

    rank: tuple[bool, float]
    name: str
    size: int


@dataclass
class _Learner:
    """Whose entries these are. usual: the name of their shared file; files: those looked at."""

    name: str
    owner: int
    usual: str
    count: int = 0
    files: list[_File] = field(default_factory=list)

    def add(self, name: str, seen: os.stat_result) -> None:
        """One more entry; the usual name is first, so that others' hard links do not push it
        out."""
        self.count += 1
        unusual = name != self.usual
        self.files.append(_File((unusual, -seen.st_mtime), name, seen.st_size))
        self.files = sorted(self.files)[:ENTRIES]


def read(folder: Path | None, labs: dict[str, Lab], now: float) -> Iterator[Shared | Problem]:
    """What the learners of a class folder share; None: of the folder that LABKIT_CLASS names.

    labs: by their stems. now: seconds since 1970. Raises LabError where no folder can be read.
    """
    chosen = folder or os.environ.get("LABKIT_CLASS")
    if not chosen:
        raise LabError(
            "Which class? Name its folder: `make board DIR=/srv/class`, or set LABKIT_CLASS. "
            "`make board DIR=/srv/class NEW=1` makes one."
        )
    try:
        handle = os.open(Path(chosen).expanduser(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(
            f"{chosen} cannot be read ({error.strerror}). DIR= names the class's folder, which "
            "`make board DIR=folder NEW=1` makes."
        ) from None
    try:
        yield from _class(handle, labs, now)
    finally:
        os.close(handle)


def _class(folder: int, labs: dict[str, Lab], now: float) -> Iterator[Shared | Problem]:
    learners = sorted(
        _learners(folder), key=lambda learner: sum(file.size for file in learner.files)
    )
    if len(learners) > LEARNERS:
        count = len(learners)
        yield Problem("The folder", f"has files of {count} learners; those of {LEARNERS} were read")
    room = BUDGET
    for learner in learners[:LEARNERS]:
        problem = ""
        if learner.count > ENTRIES:
            problem = f"has {learner.count} entries in the class folder; {ENTRIES} were looked at"
        for file in learner.files:
            try:
                content = _content(folder, file.name, learner.owner, room)
                room -= len(content)
                shared = reader.parse(content, labs, now)
                if shared is None:
                    raise _Unreadable(f"has a file that is not what `make share` writes; {_AFRESH}")
            except _Unreadable as error:
                problem = problem or str(error)
                continue
            if shared.until >= date.fromtimestamp(now):
                yield Shared(learner.name, shared)
            break
        if problem:
            yield Problem(learner.name, problem)


def _learners(folder: int) -> list[_Learner]:
    """Who has entries in an open folder."""
    whole = os.fstat(folder)
    of_one_user = not whole.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    learners: dict[tuple[int, str], _Learner] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                seen = entry.stat(follow_symlinks=False)
            except OSError:  # gone in this moment
                continue
            named = of_one_user and seen.st_uid == whole.st_uid
            key = (seen.st_uid, unquote(entry.name.removesuffix(SUFFIX)) if named else "")
            if key not in learners:
                login = key[1] or _login(seen.st_uid)
                usual = journal.file_name(login or str(seen.st_uid))
                learners[key] = _Learner(login or f"user {seen.st_uid}", seen.st_uid, usual)
            learners[key].add(entry.name, seen)
    return list(learners.values())


def _content(folder: int, name: str, owner: int, room: int) -> bytes:
    """A plain file of this owner's, of at most `room` bytes. Raises _Unreadable for all else."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=folder)
        try:
            seen = os.fstat(handle)
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid != owner:
                raise _Unreadable(_NO_FILE)
            if seen.st_size > HUGE:
                raise _Unreadable(f"has a huge file, {seen.st_size / 1e6:.0f} MB; {_AFRESH}")
            if seen.st_size > room:
                limit = f"{BUDGET / 1e6:.0f} MB"
                raise _Unreadable(f"was not read: the files of the class exceed {limit}")
            return os.pread(handle, HUGE, 0)
        finally:
            os.close(handle)
    except OSError as error:
        raise _Unreadable(_why(error)) from None


def _why(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
        return _NO_FILE
    if error.errno in (errno.EACCES, errno.EPERM):
        return "has a file that is closed to you; whoever owns the class folder can read it"
    return f"has a file that cannot be read ({error.strerror})"


def _login(user: int) -> str:
    """ "" where the system knows none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return ""
