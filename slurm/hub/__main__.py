"""The hub's command line: `python -m slurm.hub up|status|down|forget`, behind `make hub` and
others."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import io
import os
import shutil
import sys
from pathlib import Path

import classroom
from labkit import paths
from labkit.errors import LabError, exit_status

from slurm import tabletop
from slurm.hub import course, install, keep, learners, passwords, process, settings, site_users

FULL = 1_000_000  # bytes that are free on a disk which counts as full
MOST_LINES = 10  # processes that status shows


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. Returns the exit status; a LabError is one sentence on stderr and status 1."""
    top = argparse.ArgumentParser(prog="python -m slurm.hub", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start a hub")
    up.add_argument(
        "--learners", default="", help="as root: how many users to make, learner01 and so on"
    )
    up.add_argument(
        "--names", default="", help="as root: users to make, by their names; at a site: its users"
    )
    up.add_argument("--site", default="", help="a file of slurm/sites/ (default: the tabletop)")
    up.add_argument(
        "--plain", action="store_true", help="without Slurm: servers are processes here"
    )
    up.add_argument(
        "--port", default="8000", help="of the loopback address, for browsers (default: 8000)"
    )
    up.add_argument("--name", default="table", help="which tabletop cluster (default: table)")
    verbs.add_parser("status", help="is there a hub, and who is logged in?")
    verbs.add_parser("down", help="end the hub, all servers and their jobs")
    verbs.add_parser(
        "forget", help="as root: remove the users that the hub has made, with their homes"
    )
    options = top.parse_args(arguments)
    return exit_status(lambda: _VERBS[options.verb](options))


def _up(options: argparse.Namespace) -> int:
    state = settings.folder()
    if process.running(state):
        raise LabError(
            f"A hub runs here already: {_address(state)}. To have another, first: make hub-stop"
        )
    port = settings.read_port(options.port)
    names = _names(options)
    if process.stop(state):  # its jobs are the next hub's
        print("What a hub had left here that did not end in order has been ended.")
    listening = settings.listen(port)
    try:
        return _start(options, state, port, names, listening)
    finally:
        listening.close()


def _at_site(options) -> bool:
    """Is it a hub for a site's users? The tabletop is a site whose users the hub makes."""
    return bool(options.site) and options.site != "tabletop"


def _names(options) -> list[str]:
    """Who shall log in, as typed. LabError for whom this user cannot let in."""
    if options.plain and _at_site(options):
        raise LabError(
            f"PLAIN=1 is a hub without Slurm, SITE={options.site} one with it: choose one of them."
        )
    if not settings.is_root() and (options.learners or options.names):
        raise LabError(
            f"Only root can let others log in; you are {getpass.getuser()}, and your hub is yours"
            " alone. Leave LEARNERS and NAMES out."
        )
    if settings.is_root() and _at_site(options):
        return site_users.names_of(options.learners, options.names)
    names = learners.names_of(options.learners, options.names)
    if settings.is_root() and not (names or learners.made()):
        raise LabError(
            'Who will log in? As root, the hub makes users: make hub LEARNERS=40, or NAMES="ada'
            ' grace".'
        )
    learners.check(names)
    return names


def _start(options, state: Path, port: int, names: list[str], listening) -> int:
    if settings.is_root() and learners.known(passwords.INSTRUCTOR):
        raise LabError(
            f"This machine has a user {passwords.INSTRUCTOR}. On the hub that is who sees the class"
            " board, with a password of the hub's own, and nobody else: rename that user, or take"
            " another machine."
        )
    place, table = _place(options)
    people = names if settings.is_root() and _at_site(options) else []
    warnings = []
    if people:
        site_users.check_pam(place.pam, place.site)
        warnings = site_users.check(people)
    bundle = course.publish(state)
    if settings.is_root():
        # Before anybody is made, and a cluster started. A site's folder may be open to a group
        # alone.
        learners.check_reach(bundle, people[0] if people else "nobody")
        warnings += learners.open_answers(people[0] if people else "nobody")
    install.ensure()
    commands = None
    if not options.plain and not _at_site(options):
        count = len({*learners.made(), *names}) if settings.is_root() else 1
        if table and settings.is_root():
            warnings += too_small(table, count)
        table = table or tabletop.up(options.name, nodes=_nodes(count))
        commands = table.state / "bin"
    known = _let_in(state, names, people)
    page = ""
    if settings.is_root():
        _make_class_folder(state)
        page = (
            f"The class board, for {passwords.INSTRUCTOR}:"
            f" http://127.0.0.1:{port}/services/board/\n"
        )
    process.start(settings.write(place, state, port, commands, people), listening, commands)
    count = "1 person" if len(known) == 1 else f"{len(known)} people"
    where = f"the site {place.site}" if place.site else "this machine, without Slurm"
    if commands is not None:
        where = f"the tabletop cluster '{options.name}'"
    print(
        f"JupyterHub is at {_address(state)}, on {where}, for {count}.\n"
        f"{page}{_word_of_passwords(state, people)}\n"
        "From another machine: ssh -L "
        f"{port}:127.0.0.1:{port} to this one. To end it: make hub-stop"
    )
    for warning in warnings:
        print(f"warning: {warning}")
    return 0


def _nodes(count: int) -> int:
    """Of a tabletop for so many learners: a CPU for each, and two nodes more for their jobs."""
    return min(tabletop.MOST_NODES, 2 + count // tabletop.CPUS)


def too_small(table: tabletop.Tabletop, count: int) -> list[str]:
    """What to say of a tabletop that runs already. LabError where not all of `count` learners find
    a CPU."""
    has = table.settings.nodes
    if has >= _nodes(count):
        return []
    said = (
        f"The tabletop cluster '{table.name}' has {has} nodes of {tabletop.CPUS} CPUs, and {count}"
        f" learners want {_nodes(count)}"
    )
    mend = (
        f"make tabletop-down{tabletop.also_name(table.name)}, and make hub starts one that"
        " suffices."
    )
    if has * tabletop.CPUS < count:
        raise LabError(f"{said}: not all would get a server. First: {mend}")
    return [f"{said}: their jobs will wait for one another. To mend it: make hub-stop, {mend}"]


def _word_of_passwords(state: Path, people: list[str]) -> str:
    file = paths.shown(state / "private" / "passwords.txt")
    if people:
        return (
            f"They log in with the site's passwords. That of {passwords.INSTRUCTOR}, for you alone:"
            f" {file}"
        )
    return f"Names and passwords, for you alone: {file}"


def _place(options) -> tuple[settings.Place, tabletop.Tabletop | None]:
    """Where servers run, and the tabletop of that name, where it runs already."""
    if options.plain:
        return settings.on_one_machine(), None
    if _at_site(options):
        return settings.at_site(options.site), None
    return settings.on_tabletop(), tabletop.find(options.name)


def _make_class_folder(state: Path) -> None:
    """Make the folder into which learners share what they tried, once they agree, on first use.

    It belongs to the board's own user, and so does the folder in which the board listens.
    """
    folder = state / "class"
    if not folder.is_dir():
        with contextlib.redirect_stdout(io.StringIO()):
            made = classroom.main([str(folder), "--new"])
        if made:
            raise LabError(f"The class folder {folder} cannot be made.")
    reader = learners.add_system_user(keep.BOARD_USER)
    (state / "board").mkdir(mode=0o700, exist_ok=True)
    for own in (folder, state / "board"):
        os.chown(own, reader.pw_uid, reader.pw_gid)


def _let_in(state: Path, names: list[str], people: list[str]) -> list[str]:
    """See to users and passwords; the names of all who get a server. people: a site's."""
    path = state / "private" / "passwords.txt"
    before = passwords.read(path) if path.exists() else {}
    if people:
        known = people
        all_names = [passwords.INSTRUCTOR]
    elif settings.is_root():
        learners.add(names)
        known = learners.made()
        all_names = [passwords.INSTRUCTOR, *known]
    else:
        known = [getpass.getuser()]
        all_names = known
    passwords.write(path, {name: before.get(name) or passwords.generate() for name in all_names})
    return known


def _address(state: Path) -> str:
    return f"http://127.0.0.1:{process.read_settings(state)['port']}"


def _status(options: argparse.Namespace) -> int:
    state = settings.folder()
    lines, well = _there(state)
    if shutil.disk_usage(state).free < FULL or shutil.disk_usage(state / "private").free < FULL:
        lines.append(
            f"The disk of {paths.shown(state)} is full, and log-ins may fail. Make room, then: "
            "make hub-stop, and make hub. Saved work stays."
        )
    if process.running(state):
        port = process.read_settings(state)["port"]
        word = "answers" if process.answers(port) else "does not answer"
        log = paths.shown(state / "private" / "hub.log")
        lines.insert(0, f"The hub at {_address(state)} {word}. Its log: {log}")
    elif lines:
        lines.insert(0, "No hub runs here, but one that did not end in order has left this:")
        lines.append("To start one that goes on with the jobs: make hub. To end all: make hub-stop")
    else:
        lines.append("No hub runs here. To start one: make hub")
    print("\n".join(lines))
    return 0 if well else 1


def _there(state: Path) -> tuple[list[str], bool]:
    """What there is of a hub, in lines: processes and jobs. And whether Slurm has answered."""
    processes = process.found(state)
    lines = [f"  {process.said(each)}" for each in processes[:MOST_LINES]]
    if len(processes) > MOST_LINES:
        lines.append(f"  and {len(processes) - MOST_LINES} processes more")
    try:
        jobs = process.jobs(process.read_settings(state))
    except LabError as error:
        return [*lines, f"  {error}"], False
    return lines + ([f"  jobs with learners' servers: {' '.join(jobs)}"] if jobs else []), True


def _down(options: argparse.Namespace) -> int:
    state = settings.folder()
    known = process.read_settings(state)
    ended = process.stop(state)
    cancelled = process.cancel(known)
    if not ended and not cancelled:
        print("No hub runs here.")
        return 0
    print("The hub is gone, and with it all servers.")
    if known["commands"] is not None:
        name = Path(known["commands"]).parent.name
        print(
            f"The tabletop cluster '{name}' goes on, with the learners' batch jobs. To end both:"
            f" make tabletop-down{tabletop.also_name(name)}"
        )
    if settings.is_root() and not known.get("people"):
        print("Its users and their work are still there. To remove both: make hub-forget")
    return 0


def _forget(options: argparse.Namespace) -> int:
    state = settings.folder()
    if process.running(state):
        raise LabError("A hub runs here, and its users may be at work. First: make hub-stop")
    if not settings.is_root():
        raise LabError("A hub of a normal user has made nobody: there is nobody to remove.")
    # A learner's process can look as if it were the hub's, and come back; it ends with its user.
    with contextlib.suppress(LabError):
        process.stop(state)
    _cancel_jobs(state)
    gone = learners.remove()
    # Another class may have the same names, and users of the same numbers: no old cookie is to let
    # anybody in as one of them, and the board is not to show them somebody else's work.
    for name in ("passwords.txt", "jupyterhub.sqlite", "cookie_secret"):
        (state / "private" / name).unlink(missing_ok=True)
    for name in ("class", "board"):
        shutil.rmtree(state / name, ignore_errors=True)
    learners.remove_system_user(keep.BOARD_USER)
    print(
        f"Removed with their homes: {', '.join(gone)}."
        if gone
        else "The hub has made no users here."
    )
    return 0


def _cancel_jobs(state: Path) -> None:
    """The learners' batch jobs, also those that wait: a job must not start for a user who is no
    more."""
    table = process.table(process.read_settings(state))
    if table:
        for name in learners.made():
            table.run(["scancel", f"--user={name}"])


_VERBS = {"up": _up, "status": _status, "down": _down, "forget": _forget}


if __name__ == "__main__":
    sys.exit(main())
