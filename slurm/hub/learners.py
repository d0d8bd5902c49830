"""Unix users for learners: made by the hub as root, known by a mark, and removed by it, nobody else's."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path

from labkit import paths
from labkit.errors import LabError

MARK = "learner of the labs' hub"  # the comment of each user that the hub has made
SYSTEM_MARK = "of the labs' hub"
MOST = 400
PATIENCE = 20  # seconds for each user's processes, which are told to end, to be gone
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


def names_of(count: str = "", names: str = "") -> list[str]:
    """Names from what was typed: `count` makes learner01, learner02, …; `names` are given one by one.

    LabError for a number or a name that will not do.
    """
    if count:
        if not count.isdecimal() or not 1 <= int(count) <= MOST:
            raise LabError(f"LEARNERS={count} will not do: give a whole number from 1 to {MOST}.")
        numbered = [f"learner{number:02d}" for number in range(1, int(count) + 1)]
    else:
        numbered = []
    given = names.split()
    for name in given:
        if not _NAME.fullmatch(name) or name == "instructor":
            raise LabError(f"NAMES: {name!r} will not do: a small letter, then small letters, digits or -.")
    return list(dict.fromkeys([*numbered, *given]))


def made() -> list[str]:
    """The users that a hub has made, in order: of this machine's own file, for no directory has any."""
    lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
    entries = [line.split(":") for line in lines if line.count(":") == 6]
    return sorted(entry[0] for entry in entries if entry[4].rstrip(",") == MARK)


def check(names: list[str]) -> None:
    """LabError that names all who cannot be made, and why. Before anything is started, nobody is made."""
    ours = set(made())
    wrong = []
    for name in names:
        home = Path("/home") / name
        if name in ours:
            continue
        if known(name):
            wrong.append(f"{name} is on this machine already, and not made by the hub: choose another name")
        elif home.exists():
            wrong.append(f"{home} exists, but no user {name}: move that folder away, or choose another name")
        elif _is_group(name):
            wrong.append(f"{name} is a group of this machine, but no user: choose another name")
    if wrong:
        raise LabError('Not all users can be made; NAMES="…" chooses names:\n  ' + "\n  ".join(wrong))


def add(names: list[str]) -> list[str]:
    """Make those that are not there yet; their names. LabError, before any is made, where one cannot be."""
    check(names)
    ours = set(made())
    new = [name for name in names if name not in ours]
    for name in new:
        home = Path("/home") / name
        _run("useradd", "--create-home", "--home-dir", str(home), "--user-group", "--shell", "/bin/bash",
             "--comment", MARK, name)  # fmt: skip
        home.chmod(0o700)
    return new


def known(name: str) -> bool:
    """Is there such a user? Asked by name: a directory need not list its users."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _is_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def remove() -> list[str]:
    """Remove all users that a hub has made, with their homes and processes; their names.

    LabError where one cannot be removed; those before are gone then, and the next call goes on.
    """
    gone = made()
    for name in gone:
        _end_processes(name)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                _run("userdel", "--remove", name)
                break
            except LabError:  # a process of theirs may be about to be gone
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
                _end_processes(name)
    return gone


def _end_processes(name: str) -> None:
    """All processes of this user, at once: none can make another one meanwhile.

    Servers end with the hub. What a learner has started apart from them does not (nohup, setsid, cron).
    """
    user = pwd.getpwnam(name)
    subprocess.run(
        ["sh", "-c", "kill -KILL -1"],  # as this user: all to whom this user may send a signal
        user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd="/", env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def check_reach(bundle: Path, name: str = "nobody") -> None:
    """LabError unless others can run the shared Python, read labkit and the course: the user `name` tries."""
    root = paths.root()
    python = str(root / ".venv" / "bin" / "python")
    for command, what in (
        (
            [python, "-c", "import labkit"],
            "run .venv/bin/python of this checkout, and the Python it was made with",
        ),
        (["test", "-r", str(bundle)], f"read {bundle}"),
    ):
        tried = subprocess.run(
            ["runuser", "-u", name, "--", *command],
            cwd="/", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if tried.returncode:
            raise LabError(
                f"Learners cannot {what}: a folder above it is closed to other users, as /root is. "
                "Put the checkout where everybody may read, as in /srv, set it up with a Python that "
                "everybody may run (make setup PYTHON=/usr/bin/python3), and run make hub there."
            )


def add_system_user(name: str) -> pwd.struct_passwd:
    """A system user of the hub's own, without home or password. LabError where the name is taken."""
    if not known(name):
        _run("useradd", "--system", "--user-group", "--home-dir", "/nonexistent",
             "--shell", "/usr/sbin/nologin", "--comment", SYSTEM_MARK, name)  # fmt: skip
    user = pwd.getpwnam(name)
    if user.pw_gecos != SYSTEM_MARK:
        raise LabError(
            f"This machine has a user {name}, whom the hub has not made: rename that user, or take another "
            "machine."
        )
    return user


def remove_system_user(name: str) -> None:
    """Remove such a user, where it is there and the hub has made it."""
    if known(name) and pwd.getpwnam(name).pw_gecos == SYSTEM_MARK:
        _run("userdel", name)


def _run(program: str, *arguments: str) -> None:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise LabError(f"There is no {program} here: sudo apt-get install passwd")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{program} {arguments[-1]}: {done.stderr.strip() or 'failed without a word'}.")
