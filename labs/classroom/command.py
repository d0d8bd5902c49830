"""`make board`: the class board in the terminal, as a page in a file, or as a hub's service."""

from __future__ import annotations

import argparse
import contextlib
import grp
import os
import pwd
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from labkit.errors import LabError, exit_status

from classroom import page, server
from classroom.terminal import as_text
from classroom.view import Classroom, look

# Everybody may put a file in; only the owner sees which are there; a file gets the folder's group.
_CLASS_FOLDER = 0o3733


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the board. A LabError becomes its sentence and status 1; Ctrl-C is status 130."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _show(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="classroom", description="Where those who agreed are.")
    parser.add_argument("folder", nargs="?", type=Path, help="the class's (default: $LABKIT_CLASS)")
    parser.add_argument("--new", action="store_true", help="make this class folder")
    parser.add_argument(
        "--hide-names", action="store_true", help="pseudonyms in place of all names"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write one page that reloads itself"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write each learner's exercises as a table"
    )
    parser.add_argument("--watch", action="store_true", help=f"again every {page.REFRESH} s")
    return parser


def _show(options: argparse.Namespace) -> int:
    if options.new:
        _new(options.folder)
        return 0
    if server.in_hub():
        server.hub_service(lambda: page.as_page(_look(options)))
        return 0
    _show_once(options)
    if options.html:
        print(f"The class board: {options.html}, readable by you alone.", flush=True)
    while options.watch:
        time.sleep(page.REFRESH)
        _show_once(options)
    return 0


def _look(options: argparse.Namespace) -> Classroom:
    return look(options.folder, options.hide_names)


def _show_once(options: argparse.Namespace) -> None:
    classroom = _look(options)
    if options.csv:
        page.write(options.csv, page.as_csv(classroom))
        print(f"The scores: {options.csv}, readable by you alone.", flush=True)
    if options.html:
        page.write(options.html, page.as_page(classroom))
    if options.csv or options.html:
        return
    colour = sys.stdout.isatty()
    text = as_text(classroom, colour=colour)
    if options.watch and colour:
        text = f"\033[2J\033[H{text}"  # clear, and begin at the top
    print(text, end="", flush=True)


def make_folder(folder: Path) -> None:
    """Make a class folder, unless it is one: learners write into it, and read nothing there.

    Raises LabError where there is something else, or none can be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_one = stat.S_IMODE(folder.stat().st_mode) == _CLASS_FOLDER
        # Somebody's home, perhaps: its modes stay as they are.
        if not is_one and any(folder.iterdir()):
            raise LabError(
                f"{folder} holds something already. Name a folder that is empty or not there."
            )
        folder.chmod(_CLASS_FOLDER)
    except OSError as error:
        raise LabError(f"{folder} cannot be made a class folder ({error.strerror}).") from None


def _new(folder: Path | None) -> None:
    if folder is None:
        raise LabError("Say where: make board DIR=/path/of/the/class NEW=1")
    folder = folder.expanduser()
    make_folder(folder)
    print(
        f"{folder} is a class folder: learners with LABKIT_CLASS={folder} share into it, once they"
        " say so."
    )
    others = _members(folder.stat().st_gid)
    if others and os.geteuid() != 0:
        print(
            f"Its group has other members, such as {others[0]}: they could read what is shared. And"
            " learners in that group share for root alone. `chgrp` the folder to a group of"
            f" instructors, then `chmod 3733 {folder}`."
        )


def _members(group: int) -> list[str]:
    """The users in a group of that number, without whoever asks."""
    people = pwd.getpwall()
    own = {user.pw_name for user in people if user.pw_uid == os.geteuid()}
    members = {user.pw_name for user in people if user.pw_gid == group}
    with contextlib.suppress(KeyError):
        members |= set(grp.getgrgid(group).gr_mem)
    return sorted(members - own)
