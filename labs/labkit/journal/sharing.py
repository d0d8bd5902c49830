"""A learner agrees that the class board shows what they did, by name or by a pseudonym; or takes it back.

Without the agreement there is no file that the board reads. With it there is one, and nobody but the learner
and whoever runs the board can read it:

* where LABKIT_CLASS names a class folder, LOGIN.jsonl in it. The folder's owner runs the board;
* else shared.jsonl in the learner's own folder, which a board run by root, or by the same user, reads.
"""

from __future__ import annotations

import json
import os
import pwd
import stat
import tempfile
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from labkit import jsonl, paths
from labkit.errors import LabError
from labkit.journal import files, names

FILE = "shared.jsonl"
VERSION = 1
LIMIT = 3 * files.LIMIT  # bytes of the shared file; it is then written afresh, from progress and journal


def share(named: bool = True) -> None:
    """Let your instructor's class board show where you are; say how, and how to take it back.

    It shows lab and exercise, how often you tried, how many hints you read, what a failed check said, and
    when; from now on, and what you did before. named=False: under a pseudonym in place of your name.
    Raises LabError where nothing can be written.
    """
    kept = _agreement()
    with files.alone():
        file = _file()
        if kept.get("file") and kept["file"] != str(file):
            _delete(Path(kept["file"]))
        kept |= {"named": bool(named), "since": _now(), "file": str(file)}
        kept.setdefault("pseudonym", names.draw())
        _keep(kept)
        try:
            _publish(kept)
        except LabError:
            _keep({"pseudonym": kept["pseudonym"]})
            raise
    print(status())


def unshare() -> None:
    """Take the agreement back: what was shared is deleted, and nothing more is written to it."""
    kept = _agreement()
    with files.alone():
        # Also where the agreement is lost: nothing that a board reads may be left.
        for file in {Path(kept.get("file", paths.home() / FILE)), paths.home() / FILE, *_own_in_class()}:
            _delete(file)
        if kept:
            _keep({"pseudonym": kept["pseudonym"]})
    print(status())


def status() -> str:
    """What is shared, and how to change it."""
    kept = _agreement()
    if not kept.get("file"):
        return "You share nothing: the class board cannot read what you do. `make share` changes that."
    if not Path(kept["file"]).exists():
        return f"You share nothing any more: {kept['file']} was removed. `make share` writes it again."
    name = "by your name" if kept["named"] else f'as "{kept["pseudonym"]}", without your name'
    return (
        f"The class board shows you {name}: your lab and exercise, how often you tried, how many hints you "
        f"read, and what failed checks said, since {kept['since']}; and what you did before. "
        "`make unshare` takes it back."
    )


def forward(line: dict) -> None:
    """Append an event to the shared file, where there is one. Call it `files.alone`."""
    kept = _agreement()
    if not kept.get("file"):
        return
    handle = _open(Path(kept["file"]))
    if handle is None:
        return
    try:
        grown = os.fstat(handle).st_size > LIMIT
        if not grown:
            jsonl.write(handle, _line(line))
    finally:
        os.close(handle)
    if grown:
        _publish(kept)


def _open(file: Path) -> int | None:
    """The learner's own shared file, to append to; None where it is gone: it is never made here."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    seen = os.fstat(handle)
    if stat.S_ISREG(seen.st_mode) and seen.st_uid == os.geteuid():
        return handle
    os.close(handle)
    return None


def _file() -> Path:
    """Where this learner shares. Raises LabError when the class folder is not there."""
    chosen = os.environ.get("LABKIT_CLASS")
    if not chosen:
        return paths.home() / FILE
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise LabError(
            f"LABKIT_CLASS names {folder}, which is no folder. Ask your instructor which one it is."
        )
    return folder.resolve() / f"{_login()}.jsonl"


def _own_in_class() -> list[Path]:
    """This learner's file in the class folder, if there is one; another user's is none of theirs."""
    try:
        file = _file()
        mine = file.lstat().st_uid == os.geteuid()
    except (OSError, LabError):
        return []
    return [file] if mine else []


def _login() -> str:
    """Of this user; in a hub that runs all its users as one, of the hub's user. Safe as a file's name."""
    try:
        own = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        own = str(os.geteuid())
    name = quote(os.environ.get("JUPYTERHUB_USER") or own, safe="@+")
    return f"_{name[1:]}" if name.startswith(".") else name


def _publish(kept: dict) -> None:
    """Write the shared file afresh: who this is, what progress says, and what the journal holds."""
    head = {"labkit": "shared", "version": VERSION}
    head |= {name: kept[name] for name in ("named", "pseudonym", "since")}
    lines = [head]
    for number, entry in sorted(files.so_far().items()):
        line = {"event": "before", "exercise": number, "passed": bool(entry.get("passed"))}
        lines.append(line | {name: entry.get(name, 0) for name in ("tries", "hints")})
    lines += files.read()
    file = Path(kept["file"])
    try:
        handle, made = tempfile.mkstemp(dir=file.parent, prefix=".sharing-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.writelines(_line(line) for line in lines)
                _let_the_board_read(stream.fileno())
            os.replace(made, file)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as error:
        raise LabError(
            f"{file} cannot be written ({error.strerror}), so nothing is shared. Tell your instructor."
        ) from None


def _let_the_board_read(handle: int) -> None:
    """Of a class folder that gives its group to files, that group may read; else nobody but the owner.

    Not a group in which the learner is: other learners would be in it, too.
    """
    seen = os.fstat(handle)
    own_groups = {os.getegid(), *os.getgroups()}
    os.fchmod(handle, 0o600 if seen.st_gid in own_groups else 0o640)


def _delete(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(f"{file} cannot be deleted ({error.strerror}). Tell your instructor.") from None


def _line(entry: dict) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _now() -> str:
    return datetime.now().isoformat(sep=" ", timespec="minutes")


def _kept_at() -> Path:
    return paths.home() / "sharing.json"


def _agreement() -> dict:
    """What the learner said last; {} before they said anything, and where it cannot be read."""
    try:
        kept = json.loads(_kept_at().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    known = {"pseudonym": str, "named": bool, "since": str, "file": str}
    if not isinstance(kept, dict) or not isinstance(kept.get("pseudonym"), str):
        return {}
    if all(isinstance(kept.get(name), kind) for name, kind in known.items()):
        return kept
    return {"pseudonym": kept["pseudonym"]}


def _keep(kept: dict) -> None:
    """Store the agreement in one step: a killed process leaves the old one or the new one."""
    try:
        handle, made = tempfile.mkstemp(dir=paths.home(), prefix=".sharing-")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(kept, stream, indent=1)
        os.replace(made, _kept_at())
    except OSError as error:
        raise LabError(f"{_kept_at()} cannot be written ({error.strerror}), so nothing changed.") from None
