"""A site's users: known to its directory, with homes and passwords of their own.

They are checked before the hub starts, and never made, changed or removed by it. Whom the machine
knows it is asked by name (NSS): files, LDAP or SSSD, all are one, and a directory need not list its
users.
"""

from __future__ import annotations

import pwd
import re
from pathlib import Path

from labkit.errors import LabError

from slurm.hub import learners
from slurm.hub.passwords import INSTRUCTOR

COPY = "labs"  # a learner's copy of the course, in the home: session.py makes it
# Names become words of a shell's line. JupyterHub knows names without capital letters alone.
_NAME = re.compile(r"[a-z_][a-z0-9_.@-]{0,63}")
_PAM = ("/etc/pam.d", "/usr/lib/pam.d")
# Run as the user: as root, a home on NFS can be closed.
_LOOK = """
test -d "$1" || exit 10
test -w "$1" || exit 11
test ! -e "$1/$2" -o -d "$1/$2/.git" || exit 12
stat --dereference --format=%a "$1"
"""
_REASONS = {
    10: "the home {home} does not exist (does the first log-in to the site make it?)",
    11: "cannot write into the home {home}",
    12: "{home}/{copy} is there already and no copy of the course: it must be renamed first",
}


def names_of(count: str, names: str) -> list[str]:
    """The names that were typed, once each. LabError for none, a number, or no user's name."""
    if count or not names.split():
        raise LabError(
            "At a site its own users log in, and the hub makes none. Say which of them: make hub"
            ' SITE=… NAMES="ada grace".'
        )
    for name in names.split():
        if not _NAME.fullmatch(name) or name == INSTRUCTOR:
            raise LabError(
                f"NAMES: {name!r} will not do: the hub takes names of small letters, digits, ."
                " _ @ -"
            )
    return list(dict.fromkeys(names.split()))


def check(names: list[str]) -> list[str]:
    """See that each can work here; what the admin should hear. LabError that says of each who
    cannot, why."""
    wrong, open_homes = [], []
    for name in names:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            wrong.append(f"{name}: this machine knows no such user (getent passwd {name})")
            continue
        if user.pw_uid == 0:
            wrong.append(f"{name}: is root, for whom the hub starts nothing")
            continue
        mode, reason = _home(user)
        if reason:
            wrong.append(f"{name}: {reason}")
        elif mode & 0o002:
            wrong.append(f"{name}: everybody can write into the home {user.pw_dir} (mode {mode:o})")
        elif mode & 0o005:
            open_homes.append(name)
    if wrong:
        raise LabError("Not all of NAMES can work here:\n  " + "\n  ".join(wrong))
    if not open_homes:
        return []
    return [
        f"Other users can look into the homes of: {', '.join(open_homes)}. These stay as they are;"
        f" the hub makes ~/{COPY} in them with mode 700."
    ]


def check_pam(service: str, site: str) -> None:
    """LabError unless PAM has rules for the service that the site file names."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", service) or not any(
        Path(folder, service).is_file() for folder in _PAM
    ):
        raise LabError(
            f"PAM has no service {service!r} on this machine, there is no file of this name in"
            f" {_PAM[0]}: mend LABKIT_HUB_PAM in slurm/sites/{site}.sh."
        )


def _home(user: pwd.struct_passwd) -> tuple[int, str]:
    """(mode of the home, "") or (0, why this user cannot work there)."""
    if not user.pw_dir.isprintable() or re.search(r"\s", user.pw_dir):
        return (
            0,
            (
                f"the home {user.pw_dir!r} has a blank in its name, which Slurm's #SBATCH lines do"
                " not take"
            ),
        )
    done = learners.run_as(user.pw_name, "sh", "-c", _LOOK, "sh", user.pw_dir, COPY)
    if done.returncode:
        reason = _REASONS.get(done.returncode, "no process can be run as this user: {error}")
        return 0, reason.format(
            home=user.pw_dir, copy=COPY, error=done.stderr.strip() or "no message"
        )
    return int(done.stdout, 8), ""
