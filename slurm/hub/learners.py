"""Unix users for learners: made by the hub as root, known by a mark, and removed by it, nobody
else's."""

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

from slurm.hub import settings

MARK = "learner of the labs' hub"  # the comment of each user that the hub has made
SYSTEM_MARK = "of the labs' hub"
MOST = 400
PATIENCE = 20  # seconds for each user's processes, which are told to end, to be gone
# Where users leave files besides their homes; the last two hold what cron and at are to start.
_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/var/spool/cron", "/var/spool/at")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


def names_of(count: str = "", names: str = "") -> list[str]:
    """Names from what was typed: `count` makes learner01, learner02, …; `names` are given one by
    one.

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
            raise LabError(
                f"NAMES: {name!r} will not do: a small letter, then small letters, digits or -."
            )
    return list(dict.fromkeys([*numbered, *given]))


def made() -> list[str]:
    """The users that a hub has made, in order: of this machine's own file, for no directory has
    any."""
    lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
    entries = [line.split(":") for line in lines if line.count(":") == 6]
    return sorted(entry[0] for entry in entries if entry[4].rstrip(",") == MARK)


def check(names: list[str]) -> None:
    """LabError that names all who cannot be made, and why. Before anything is started, nobody is
    made."""
    ours = set(made())
    wrong = []
    for name in names:
        home = Path("/home") / name
        if name in ours:
            continue
        if known(name):
            wrong.append(
                f"{name} is on this machine already, and not made by the hub: choose another name"
            )
        elif home.exists():
            wrong.append(
                f"{home} exists, but no user {name}: move that folder away, or choose another name"
            )
        elif _is_group(name):
            wrong.append(f"{name} is a group of this machine, but no user: choose another name")
    if wrong:
        raise LabError(
            'Not all users can be made; NAMES="…" chooses names:\n  ' + "\n  ".join(wrong)
        )


def add(names: list[str]) -> list[str]:
    """Make those that are not there yet; their names. LabError, before any is made, if one fails.

    They get no number of an earlier user of the hub, whose files may still lie somewhere.
    """
    check(names)
    ours = set(made())
    new = [name for name in names if name not in ours]
    # Nor a range of further numbers, which after this class the next one would get.
    keys = ["--key", "SUB_UID_COUNT=0", "--key", "SUB_GID_COUNT=0"]
    if first := _never_given():
        keys += ["--key", f"UID_MIN={first}", "--key", f"GID_MIN={first}"]
    for name in new:
        home = Path("/home") / name
        _run(
            "useradd",
            "--create-home",
            "--home-dir",
            str(home),
            "--user-group",
            "--shell",
            "/bin/bash",
            "--comment",
            MARK,
            *keys,
            name,
        )
        home.chmod(0o700)
    _never_given()
    return new


def _never_given() -> int:
    """The number above all that users of the hub have had, 0 before the first.

    It is noted in the hub's private folder, for when they are gone.
    """
    note = settings.folder() / "private" / "next_uid"
    users = [pwd.getpwnam(name) for name in made()]
    numbers = [number + 1 for user in users for number in (user.pw_uid, user.pw_gid)]
    first = max([int(note.read_text(encoding="utf-8")) if note.exists() else 0, *numbers])
    part = note.with_suffix(".part")
    part.write_text(f"{first}\n", encoding="utf-8")
    part.replace(note)
    return first


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
    """Remove all users that a hub has made, with homes, processes and temporary files; their names.

    LabError where one cannot be removed; those before are gone then, and the next call goes on.
    """
    gone = made()
    _never_given()
    numbers = [pwd.getpwnam(name).pw_uid for name in gone]
    _erase_files(numbers)  # first of all cron and at are to start nothing more for them
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
    _erase_files(numbers)
    return gone


def _erase_files(numbers: list[int]) -> None:
    """What users of these numbers have in the machine's shared folders. find follows no link."""
    if numbers:
        owners = [word for number in numbers for word in ("-o", "-uid", str(number))][1:]
        places = filter(os.path.isdir, _PLACES)
        command = ["find", *places, "-xdev", "(", *owners, ")", "-delete"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _end_processes(name: str) -> None:
    """All processes of this user, at once: none can make another one meanwhile.

    Servers end with the hub. What a learner has started apart from them does not (nohup, setsid,
    cron).
    """
    run_as(name, "sh", "-c", "kill -KILL -1")  # all to whom this user may send a signal


def run_as(name: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as this user, with little environment; status 126 when it cannot be started.

    It has a session of its own and no terminal: other processes of this user may take it over,
    and would type into root's shell.
    """
    user = pwd.getpwnam(name)
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            command,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=os.getgrouplist(name, user.pw_gid),
            start_new_session=True,
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 126, "", str(error))


def check_reach(bundle: Path, name: str = "nobody") -> None:
    """LabError unless others can run the shared Python, read labkit and the course: the user `name`
    tries."""
    root = paths.root()
    python = str(root / ".venv" / "bin" / "python")
    for command, what in (
        (
            [python, "-c", "import labkit"],
            "run .venv/bin/python of this checkout, and the Python it was made with",
        ),
        (["test", "-r", str(bundle)], f"read {bundle}"),
    ):
        if run_as(name, *command).returncode:
            raise LabError(
                f"Learners cannot {what}: a folder above it is closed to other users, as /root is."
                " Put the checkout where everybody may read, as in /srv, set it up with a Python"
                " that everybody may run (make setup PYTHON=/usr/bin/python3), and run make hub"
                " there."
            )


def add_system_user(name: str) -> pwd.struct_passwd:
    """A system user of the hub's own, without a home or password. LabError: the name is taken."""
    if not known(name):
        _run(
            "useradd",
            "--system",
            "--user-group",
            "--home-dir",
            "/nonexistent",
            "--shell",
            "/usr/sbin/nologin",
            "--comment",
            SYSTEM_MARK,
            name,
        )
    user = pwd.getpwnam(name)
    if user.pw_gecos != SYSTEM_MARK:
        raise LabError(
            f"This machine has a user {name}, whom the hub has not made: rename that user, or take "
            "another machine."
        )
    return user


def remove_system_user(name: str) -> None:
    """Remove such a user, where it is there and the hub has made it."""
    if known(name) and pwd.getpwnam(name).pw_gecos == SYSTEM_MARK:
        _run("userdel", name)


def open_answers(name: str = "nobody") -> list[str]:
    """A warning where learners can read solutions or tests of this checkout: `name` tries."""
    root = paths.root()
    folders = [root / folder for folder in ("tests", ".git", "guide", "release")]
    closed = [*filter(Path.is_dir, folders), *(root / "solutions").glob("[0-9]*.*")]
    if not closed:
        return []
    look = run_as(name, "find", *map(str, closed), "-maxdepth", "0", "-readable")
    seen = {Path(path).relative_to(root).parts[0] for path in look.stdout.splitlines()}
    cures = [f"chmod go-rx {folder}" for folder in sorted(seen - {"solutions"})]
    cures += ["chmod go-r solutions/[0-9]*.*"] if "solutions" in seen else []
    if not cures:
        return []
    what = ", ".join(sorted(seen))
    return [f"Learners can read {what} in {root}. There, type: {'; '.join(cures)}"]


def _run(program: str, *arguments: str) -> None:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise LabError(f"There is no {program} here: sudo apt-get install passwd")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(
            f"{program} {arguments[-1]}: {done.stderr.strip() or 'failed without a word'}."
        )
