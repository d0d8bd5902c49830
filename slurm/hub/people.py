"""Unix users: learners, whom the hub makes as root, knows by a mark and removes, nobody else; and a
site's users, who are checked before the hub starts, and never made, changed or removed by it.

Whom the machine knows it is asked by name (NSS): files, LDAP or SSSD, all are one, and a directory
need not list its users.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from labkit import files, paths
from labkit.errors import LabError

from slurm.hub import session, settings
from slurm.hub.names import INSTRUCTOR

MARK = "learner of the labs' hub"  # the comment of each user that the hub has made
SYSTEM_MARK = "of the labs' hub"
MOST = 400
PATIENCE = 20  # seconds for each user's processes, which are told to end, to be gone
COPY = "labs"  # a learner's copy of the course, in the home: session.py makes it
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
# Names become words of a shell's line. JupyterHub knows names without capital letters alone.
_NAME_AT_SITE = re.compile(r"[a-z_][a-z0-9_.@-]{0,63}")
# Where users leave files besides their homes; the last two hold what cron and at are to start.
_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/var/spool/cron", "/var/spool/at")
# Run as the user: as root, a home on NFS can be closed.
LOOK = """
test -d "$1" || exit 10
test -w "$1" || exit 11
test ! -e "$1/$2" || test -d "$1/$2/.git" -a -f "$1/$2/EDITION.json" || exit 12
stat --dereference --format=%a "$1"
"""
_REASONS = {
    10: "the home {home} does not exist (does the first log-in to the site make it?)",
    11: "cannot write into the home {home}",
    12: "{home}/{copy} is there already and no copy of the course: it must be renamed first",
}


def names_of(count: str = "", names: str = "") -> list[str]:
    """Learners' names from what was typed: `count` makes learner01, learner02, …; `names` are given
    one by one. LabError for a number or a name that will not do."""
    numbered = []
    if count:
        if not count.isdecimal() or not 1 <= int(count) <= MOST:
            raise LabError(f"LEARNERS={count} will not do: give a whole number from 1 to {MOST}.")
        numbered = [f"learner{number:02d}" for number in range(1, int(count) + 1)]
    given = [*numbered, *names.split()]
    return _allowed(given, _NAME, "a small letter, then small letters, digits or -.")


def names_at_site(count: str, names: str) -> list[str]:
    """The site's users that were typed. LabError for none, a number, or no user's name."""
    given = names.split()
    if count or not given:
        raise LabError(
            "At a site its own users log in, and the hub makes none. Say which of them: make hub"
            ' SITE=… NAMES="ada grace".'
        )
    return _allowed(given, _NAME_AT_SITE, "the hub takes names of small letters, digits, . _ @ -")


def _allowed(names: list[str], form: re.Pattern, said: str) -> list[str]:
    """These names, once each. LabError for one that is not of this form, or the instructor's."""
    for name in names:
        if not form.fullmatch(name) or name == INSTRUCTOR:
            raise LabError(f"NAMES: {name!r} will not do: {said}")
    return list(dict.fromkeys(names))


def is_known(name: str, look_up: Callable[[str], object] = pwd.getpwnam) -> bool:
    """Is there such a user, or with grp.getgrnam such a group?"""
    try:
        look_up(name)
    except KeyError:
        return False
    return True


# -- a site's users


def check_own() -> None:
    """LabError where this user, for whom alone the hub is, has something else in place of the
    course."""
    home = Path.home()
    if session.in_the_way(home / COPY):
        raise LabError(f"{_REASONS[12].format(home=home, copy=COPY)}.")


def check_at_site(names: list[str]) -> list[str]:
    """See that each can work here; what the admin should hear. LabError that says of each who
    cannot, why."""
    wrong, open_homes = [], []
    for name in names:
        try:
            mode = _mode_of_home(name)
        except LabError as error:
            wrong.append(f"{name}: {error}")
            continue
        if mode & 0o005:
            open_homes.append(name)
    if wrong:
        raise LabError("Not all of NAMES can work here:\n  " + "\n  ".join(wrong))
    if not open_homes:
        return []
    return [
        f"Other users can look into the homes of: {', '.join(open_homes)}. These stay as they are;"
        f" the hub makes ~/{COPY} in them with mode 700."
    ]


def _mode_of_home(name: str) -> int:
    """The permissions of this user's home. LabError: why the user cannot work there."""
    if not is_known(name):
        raise LabError(f"this machine knows no such user (getent passwd {name})")
    user = pwd.getpwnam(name)
    if user.pw_uid == 0:
        raise LabError("is root, for whom the hub starts nothing")
    home = user.pw_dir
    if not home.isprintable() or re.search(r"\s", home):
        raise LabError(
            f"the home {home!r} has a blank in its name, which Slurm's #SBATCH lines do not take"
        )
    done = run_as(name, "sh", "-c", LOOK, "sh", home, COPY)
    if done.returncode:
        reason = _REASONS.get(done.returncode, "no process can be run as this user: {error}")
        error = done.stderr.strip() or "no message"
        raise LabError(reason.format(home=home, copy=COPY, error=error))
    mode = int(done.stdout, 8)
    if mode & 0o002:
        raise LabError(f"everybody can write into the home {home} (mode {mode:o})")
    return mode


# -- learners whom the hub makes


def made() -> list[str]:
    """The users that a hub has made, in order: of this machine's own file, for no directory has
    any."""
    lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
    entries = [line.split(":") for line in lines if line.count(":") == 6]
    return sorted(entry[0] for entry in entries if entry[4].rstrip(",") == MARK)


def check(names: list[str]) -> None:
    """LabError that names all who cannot be made, and why. Before anything is started, nobody is
    made."""
    wrong = []
    for name in sorted({*names} - {*made()}):
        if is_known(name):
            wrong.append(
                f"{name} is on this machine already, and not made by the hub: choose another name"
            )
        elif (Path("/home") / name).exists():
            wrong.append(
                f"/home/{name} exists, but no user {name}: move that folder away, or choose another"
                " name"
            )
        elif is_known(name, grp.getgrnam):
            wrong.append(f"{name} is a group of this machine, but no user: choose another name")
    if wrong:
        raise LabError(
            'Not all users can be made; NAMES="…" chooses names:\n  ' + "\n  ".join(wrong)
        )


def add(names: list[str]) -> None:
    """Make those that are not there yet. LabError, before any is made, if one cannot be.

    They get no number of an earlier user of the hub, whose files may still lie somewhere.
    """
    check(names)
    # Nor a range of further numbers, which after this class the next one would get.
    keys = ["SUB_UID_COUNT=0", "SUB_GID_COUNT=0"]
    if first := _never_given():
        keys += [f"UID_MIN={first}", f"GID_MIN={first}"]
    options = [word for key in keys for word in ("--key", key)]
    options += ["--create-home", "--user-group", "--shell=/bin/bash", f"--comment={MARK}"]
    ours = made()
    for name in names:
        if name not in ours:
            home = Path("/home") / name
            _run("useradd", *options, f"--home-dir={home}", name)
            home.chmod(0o700)
    _never_given()


def _never_given() -> int:
    """The number above all that users of the hub have had, 0 before the first.

    It is noted in the hub's private folder, for when they are gone.
    """
    note = settings.folder() / "private" / "next_uid"
    users = [pwd.getpwnam(name) for name in made()]
    numbers = [number + 1 for user in users for number in (user.pw_uid, user.pw_gid)]
    first = max([int(note.read_text(encoding="utf-8")) if note.exists() else 0, *numbers])
    files.replace(note, f"{first}\n")
    return first


def remove() -> list[str]:
    """Remove all users that a hub has made, with homes, processes and temporary files; their names.

    LabError where one cannot be removed; those before are gone then, and the next call goes on.
    """
    gone = made()
    _never_given()
    numbers = [pwd.getpwnam(name).pw_uid for name in gone]
    _erase_files(numbers)  # first of all cron and at are to start nothing more for them
    for name in gone:
        _remove(name)
    _erase_files(numbers)
    return gone


def _remove(name: str) -> None:
    """A user and all processes of theirs. Servers end with the hub; what a learner has started
    apart from them does not (nohup, setsid, cron)."""
    deadline = time.monotonic() + PATIENCE
    while True:
        # All to whom this user may send a signal, at once: none can make another one meanwhile.
        run_as(name, "sh", "-c", "kill -KILL -1")
        try:
            return _run("userdel", "--remove", name)
        except LabError:  # a process of theirs may be about to be gone
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _erase_files(numbers: list[int]) -> None:
    """What users of these numbers have in the machine's shared folders. find follows no link."""
    if numbers:
        owners = [word for number in numbers for word in ("-o", "-uid", str(number))][1:]
        places = filter(os.path.isdir, _PLACES)
        command = ["find", *places, "-xdev", "(", *owners, ")", "-delete"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


# -- the system user of the class board


def add_system_user(name: str) -> pwd.struct_passwd:
    """A system user of the hub's own, without a home or password. LabError: the name is taken."""
    if not is_known(name):
        options = ["--system", "--user-group", "--home-dir=/nonexistent"]
        options += ["--shell=/usr/sbin/nologin", f"--comment={SYSTEM_MARK}"]
        _run("useradd", *options, name)
    user = pwd.getpwnam(name)
    if user.pw_gecos != SYSTEM_MARK:
        raise LabError(
            f"This machine has a user {name}, whom the hub has not made: rename that user, or take "
            "another machine."
        )
    return user


def remove_system_user(name: str) -> None:
    """Remove such a user, where it is there and the hub has made it."""
    if is_known(name) and pwd.getpwnam(name).pw_gecos == SYSTEM_MARK:
        _run("userdel", name)


def _run(*command: str) -> None:
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or "failed without a word"
        raise LabError(f"{command[0]} {command[-1]}: {said}.")


# -- what users can do


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
    python = str(paths.root() / ".venv" / "bin" / "python")
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


def open_answers(name: str = "nobody") -> list[str]:
    """A warning where learners can read solutions, solved labs or tests of this checkout: `name`
    tries."""
    root = paths.root()
    closed_ones = ("tests", ".git", "guide", "release", "report", "book")
    folders = [root / folder for folder in closed_ones]
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
