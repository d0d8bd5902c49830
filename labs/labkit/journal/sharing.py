"""A learner agrees that the class board shows what they do, or takes that back.

Without the agreement there is no file that the board reads. With it there is one, LOGIN.jsonl in
the class folder that LABKIT_CLASS names, which only the learner and whoever runs the board can
read. It holds what the learner did since the day of the agreement, and it is deleted when the
agreement is over.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import stat
import sys
import time
from datetime import date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from labkit import files, jsonl, paths
from labkit.errors import LabError
from labkit.journal import log, names

VERSION = 2
LIMIT = 500_000  # bytes of the shared file; then the newest half of them stays
EVENTS = ("start", "passed", "failed", "hint")  # that are shared; guesses are the learner's own
DAYS = 14  # that sharing lasts, unless the learner says otherwise


class Unanswered(LabError):
    """Nobody said whether the board may show the learner's name."""


def share(named: bool | None = None, until: str = "") -> None:
    """Let your instructor's class board show where you are; print the very lines that are shared.

    They say lab and exercise, how often you tried, how many hints you read, what a failed check
    said, and when, beginning with today. named: True is by your name, False by a pseudonym; None
    asks, in a terminal. until: the last day, such as "2026-12-01"; "" is 14 days from now. Raises
    Unanswered where there is no terminal to ask in, and LabError where nothing can be written.
    """
    old = _agreement()
    new = {
        "pseudonym": old.get("pseudonym") or names.draw(),
        "named": bool(named),
        "since": str(_today()) if not old.get("file") or _is_over(old) else old["since"],
        "until": _last_day(until),
        "file": str(_file(old)),
    }
    _show(new)
    if named is None:
        answer = _ask(new["pseudonym"])
        if answer not in ("n", "p"):
            print(status())
            return
        new["named"] = answer == "n"
    with log.alone():
        if old.get("file", new["file"]) != new["file"]:
            _delete(Path(old["file"]))
        _keep(new)
        try:
            _publish(new)
        except LabError:
            _keep({"pseudonym": new["pseudonym"]})
            raise
    print(status())


def unshare() -> None:
    """Take the agreement back: what was shared is deleted, and nothing more is written to it."""
    kept = _agreement()
    with log.alone():
        try:
            for file in [kept.get("file"), _usual_file()]:  # also where the agreement is lost
                if file:
                    _delete(Path(file))
        except LabError:
            if kept.get("file"):  # over, so that nothing more is written; its file is still known
                _keep(kept | {"until": str(_today() - timedelta(days=1))})
            raise
        if kept:
            _keep({"pseudonym": kept["pseudonym"]})
    print(status())


def status() -> str:
    """What is shared, and how to change it."""
    kept = _agreement()
    if not kept.get("file"):
        return (
            "You share nothing: the class board cannot read what you do. `make share` changes that."
        )
    if _is_over(kept):
        return (
            f"You share nothing any more: that ended on {kept['until']}. `make share` begins anew."
        )
    if not _exists(Path(kept["file"])):
        return (
            f"You share nothing any more: {kept['file']} was removed. `make share` writes it again."
        )
    name = "by your name" if kept["named"] else f'as "{kept["pseudonym"]}", without your name'
    return (
        f"The class board shows you {name} until {kept['until']}: your lab and exercise, how often "
        "you tried, how many hints you read, what failed checks said, and when, since "
        f"{kept['since']}. `make unshare` takes it back."
    )


def forward(line: dict) -> None:
    """Append an event to the shared file, if there is one; delete it if the agreement is over.

    Call it `log.alone`.
    """
    kept = _agreement()
    if not kept.get("file") or line["event"] not in EVENTS:
        return
    if _is_over(kept):
        _delete(Path(kept["file"]))
        _keep({"pseudonym": kept["pseudonym"]})
        return
    handle = _open(Path(kept["file"]))
    if handle is None:
        return
    try:
        grown = os.fstat(handle).st_size > LIMIT
        if not grown:
            jsonl.write(handle, _line(_from_then(line, _before(kept))))
    finally:
        os.close(handle)
    if grown:
        _publish(kept)


def _show(kept: dict) -> None:
    """Print what will be shared: the lines that there are, or else an example of each kind."""
    head, *lines = _lines(kept)
    print(
        f"Until {kept['until']}, your instructor's class board gets a line for each lab that you "
        "begin, each check that you run, and each hint that you read, after a first line about you:"
    )
    print(f"  {head.decode().rstrip()}")
    if lines:
        print(f"These are the lines since {kept['since']}:")
    else:
        print(f"There are no such lines since {kept['since']}. What you do gives lines like these:")
        lines = [_line(event) for event in _examples()]
    for line in lines:
        print(f"  {line.decode().rstrip()}")


def _examples() -> list[dict]:
    number = {"exercise": "23.1"}
    return [
        log.event("start", lab="23_ring_allreduce"),
        log.event("failed", "Chunk 2 of rank 1: expected 3, got 2.", **number, tries=1),
        log.event("hint", **number, hints=1),
        log.event("passed", **number, tries=2),
    ]


def _ask(pseudonym: str) -> str:
    """ "n" for the learner's name, "p" for the pseudonym; anything else is no."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise Unanswered(
            "Say how the board shows you: `make share NAMED=1` is by your name, `make share"
            " HIDDEN=1` by a pseudonym; in a notebook, share(named=True) or share(named=False)."
            " Nothing has changed."
        )
    print(
        f'With your name, the first line says "named": true. As "{pseudonym}" you have no name on'
        " the board, although whoever runs it can look up whose file it is."
    )
    try:
        answer = input("Type n for your name, p for the pseudonym; Enter shares nothing: ")
    except EOFError:
        return ""
    return answer.strip().lower()


def _last_day(until: str) -> str:
    """A checked day, as 2026-12-01."""
    today = _today()
    try:
        day = date.fromisoformat(str(until)) if until else today + timedelta(days=DAYS)
    except ValueError:
        raise LabError(
            f"{until} is no day. Write the last day of sharing as `make share UNTIL=2026-12-01`."
        ) from None
    if not today <= day <= today + timedelta(days=366):
        raise LabError(f"Sharing ends today or within a year, not on {day}. Choose another UNTIL=.")
    return str(day)


def _today() -> date:
    return datetime.fromtimestamp(time.time()).date()


def _is_over(kept: dict) -> bool:
    return _today() > date.fromisoformat(kept["until"])


def _open(file: Path) -> int | None:
    """The learner's own shared file, to append to; None where it is gone: it is never made here."""
    try:
        handle = os.open(
            file, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return None
    if _is_own(os.fstat(handle)):
        return handle
    os.close(handle)
    return None


def _is_own(seen: os.stat_result) -> bool:
    """Is it a plain file of this user's? Others may put something there under the same name."""
    return stat.S_ISREG(seen.st_mode) and seen.st_uid == os.geteuid()


def _exists(file: Path) -> bool:
    """Is this learner's own file there?"""
    try:
        return _is_own(file.lstat())
    except OSError:
        return False


def _file(old: dict) -> Path:
    """Where this learner shares: where they did before, or under a name that nobody has taken.

    Raises LabError where there is no class folder.
    """
    usual = _usual_file()
    if usual is None:
        raise LabError(
            "There is no class to share with, because LABKIT_CLASS names no folder. Ask your"
            " instructor for it, set it, for example by `export LABKIT_CLASS=/srv/class`, and share"
            " again."
        )
    if not usual.parent.is_dir():
        raise LabError(
            f"LABKIT_CLASS names {usual.parent}, which is no folder. Ask your instructor for it."
        )
    before = Path(old.get("file", usual))
    if before.parent == usual.parent and _exists(before):
        return before
    if _exists(usual) or not os.path.lexists(usual):
        return usual
    return usual.with_stem(f"{usual.stem}-{secrets.token_hex(4)}")


def _usual_file() -> Path | None:
    """LOGIN.jsonl in the class folder; None where LABKIT_CLASS names none.

    LOGIN is that of this user; in a hub that runs all its users as one, that of the hub's user.
    """
    folder = os.environ.get("LABKIT_CLASS")
    if not folder:
        return None
    try:
        own = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        own = str(os.geteuid())
    return Path(folder).expanduser().resolve() / file_name(os.environ.get("JUPYTERHUB_USER") or own)


def file_name(login: str) -> str:
    """The name of that user's file in a class folder, unless somebody else took it; never a
    path."""
    name = quote(login, safe="@+")
    return f"_{name[1:]}.jsonl" if name.startswith(".") else f"{name}.jsonl"


def _publish(kept: dict) -> None:
    """Write the shared file afresh."""
    file = Path(kept["file"])
    try:
        files.replace(file, b"".join(_lines(kept)), before=_let_the_board_read)
    except OSError as error:
        raise LabError(
            f"{file} cannot be written ({error.strerror}), so nothing is shared. Tell your"
            " instructor."
        ) from None


def _lines(kept: dict) -> list[bytes]:
    """Who this is, and what the journal holds since the day of the agreement: the newest of it."""
    head = {"labkit": "shared", "version": VERSION}
    head |= {name: kept[name] for name in ("named", "pseudonym", "until")}
    begin, before = _begin(kept), _before(kept)
    lines, size = [], 0
    for event in reversed([event for event in log.read() if event["event"] in EVENTS]):
        line = _line(_from_then(event, before))
        size += len(line)
        if event["at"] < begin or size > LIMIT / 2:
            break
        lines.append(line)
    return [_line(head), *reversed(lines)]


def _begin(kept: dict) -> float:
    """When the day of the agreement began, in seconds since 1970."""
    return datetime.fromisoformat(kept["since"]).timestamp()


def _before(kept: dict) -> dict[str, dict]:
    """Exercise -> "tries" and "hints" of before the day of the agreement."""
    known: dict[str, dict] = {}
    for event in log.read():
        if event["event"] == "progress":  # what an earlier version had stored
            earlier = event["exercises"]
        elif "exercise" in event and event["at"] < _begin(kept):
            earlier = {event["exercise"]: event}
        else:
            continue
        for number, counts in earlier.items():
            most = known.setdefault(number, {"tries": 0, "hints": 0})
            known[number] = {name: max(most[name], counts.get(name, 0)) for name in most}
    return known


def _from_then(event: dict, before: dict[str, dict]) -> dict:
    """An event whose tries and hints are counted from the day of the agreement on."""
    earlier = before.get(event.get("exercise", ""), {})
    own = {name: max(event[name] - earlier[name], 0) for name in earlier if name in event}
    return event | own


def _let_the_board_read(handle: int) -> None:
    """Of a class folder that gives its group to files, that group may read; else nobody but the
    owner.

    Not a group in which the learner is: other learners would be in it, too.
    """
    seen = os.fstat(handle)
    own_groups = {os.getegid(), *os.getgroups()}
    os.fchmod(handle, 0o600 if seen.st_gid in own_groups else 0o640)


def _delete(file: Path) -> None:
    """Delete this learner's own file; what others have put there is none of theirs."""
    try:
        if _exists(file):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(
            f"{file} cannot be deleted ({error.strerror}). Tell your instructor."
        ) from None


def _line(entry: dict) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _kept_at() -> Path:
    return paths.home() / "sharing.json"


def _agreement() -> dict:
    """What the learner said last; {} before they said anything, and where it cannot be read."""
    try:
        kept = json.loads(_kept_at().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(kept, dict) or not isinstance(kept.get("pseudonym"), str):
        return {}
    return kept if _is_whole(kept) else {"pseudonym": kept["pseudonym"]}


def _is_whole(kept: dict) -> bool:
    try:
        for day in ("since", "until"):
            date.fromisoformat(kept[day])
        return isinstance(kept["named"], bool) and isinstance(kept["file"], str)
    except (KeyError, TypeError, ValueError):
        return False


def _keep(kept: dict) -> None:
    """Store the agreement."""
    try:
        files.replace(_kept_at(), json.dumps(kept, indent=1))
    except OSError as error:
        raise LabError(
            f"{_kept_at()} cannot be written ({error.strerror}), so nothing changed."
        ) from None
