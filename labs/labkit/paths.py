"""Where things are: the checkout, the learner's own folder, and a path as one types it."""

from __future__ import annotations

import os
from pathlib import Path

from labkit import world
from labkit.errors import NoFolder


def root() -> Path:
    """The checkout: the folder that holds labs/, notebooks/ and solutions/."""
    return Path(__file__).resolve().parents[2]


def home() -> Path:
    """This learner's own folder for progress, records and plots (created on first use).

    $LABKIT_HOME if set; else `.labkit/` in the checkout when the checkout belongs to the user;
    else, in a shared checkout such as a JupyterHub course folder, `~/.local/state/labkit`. Raises
    NoFolder.
    """
    chosen = os.environ.get("LABKIT_HOME")
    if chosen:
        folder = Path(chosen).expanduser()
    elif os.access(root(), os.W_OK) and root().stat().st_uid == os.getuid():
        folder = root() / ".labkit"
    else:
        folder = Path.home() / ".local" / "state" / "labkit"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NoFolder(
            f"Your own folder {folder} cannot be made ({error.strerror}): set LABKIT_HOME to one"
            " that can."
        ) from None
    return folder


def own_folder() -> Path:
    """Where a lab writes files that it reads again: home(), in a batch job home()/jobs/NUMBER.

    Jobs share home(), and several may run at once. One that is started again keeps its number.
    """
    number = world.batch_job()
    folder = home() / "jobs" / number if number else home()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def services() -> Path:
    """Where a hub and a tabletop cluster keep their files (created on first use): in `home()`.

    As root in another user's checkout they do in `.labkit/root/` there, because their users have
    no way into root's home. It is a folder of its own because the checkout's owner may have a
    cluster and a hub, too. Raises NoFolder, or another OSError.
    """
    top = root()
    owner = top.stat()
    in_anothers = os.geteuid() == 0 and owner.st_uid != 0 and os.access(top, os.W_OK)
    if os.environ.get("LABKIT_HOME") or not in_anothers:
        return home()
    folder = top / ".labkit" / "root"
    if not folder.parent.exists():
        folder.parent.mkdir()
        os.chown(folder.parent, owner.st_uid, owner.st_gid)
    folder.mkdir(exist_ok=True)
    return folder


def shown(path: Path | str) -> str:
    """A path as one types it: relative to the checkout if it lies there."""
    path = Path(path)
    return str(path.relative_to(root())) if path.is_relative_to(root()) else str(path)
