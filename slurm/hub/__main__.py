"""The hub's command line: `python -m slurm.hub up|status|down|forget`, behind `make hub` and
others."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import shutil
import sys
from pathlib import Path

import classroom
from labkit import files, paths
from labkit.errors import LabError, exit_status

from slurm import tabletop
from slurm.hub import course, install, passwords, people, process, settings
from slurm.hub.names import BOARD_USER, INSTRUCTOR

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
    where = up.add_mutually_exclusive_group()
    where.add_argument(
        "--site", default="tabletop", help="a file of slurm/sites/ (default: tabletop)"
    )
    where.add_argument(
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
    if settings.is_root():
        os.umask(0o022)  # learners read the course and the hub's packages; private/ has mode 700
    return exit_status(lambda: _VERBS[options.verb](options))


def _up(options: argparse.Namespace) -> int:
    state = settings.folder()
    if process.running(state):
        raise LabError(
            f"A hub runs here already: {_address(state)}. To have another, first: make hub-stop"
        )
    site = "" if options.plain else options.site
    of_site = settings.is_root() and site not in ("", "tabletop")  # are its users those of a site?
    port = settings.read_port(options.port)
    names = _names(options, of_site)
    if process.stop(state):  # its jobs are the next hub's
        print("What a hub had left here that did not end in order has been ended.")
    with settings.listen(port) as listening:
        known = settings.at(site, of_site) | {
            "port": port,
            "real_users": settings.is_root(),
            "people": names if of_site else [],
            "commands": "",
        }
        warnings = _check(state, known)
        if site == "tabletop":
            known["commands"] = str(_cluster(options.name, names, warnings).state / "bin")
        count = _let_in(state, names, known["people"])
        if settings.is_root():
            _make_class_folder(state)
        process.start(settings.write(state, known), listening, known["commands"])
    where = f"the site {site}" if site else "this machine, without Slurm"
    if known["commands"]:
        where = f"the tabletop cluster '{options.name}'"
    print(f"JupyterHub is at {_address(state)}, on {where}, for {count}.")
    _say_how_to_log_in(state, known)
    for warning in warnings:
        print(f"warning: {warning}")
    return 0


def _names(options: argparse.Namespace, of_site: bool) -> list[str]:
    """Who shall log in, as typed. LabError for whom this user cannot let in."""
    if of_site:
        return people.names_at_site(options.learners, options.names)
    if not settings.is_root():
        if options.learners or options.names:
            raise LabError(
                f"Only root can let others log in; you are {getpass.getuser()}, and your hub is"
                " yours alone. Leave LEARNERS and NAMES out."
            )
        return []
    names = people.names_of(options.learners, options.names)
    if not (names or people.made()):
        raise LabError(
            'Who will log in? As root, the hub makes users: make hub LEARNERS=40, or NAMES="ada'
            ' grace".'
        )
    people.check(names)
    return names


def _check(state: Path, known: dict) -> list[str]:
    """All that may refuse, before anybody is made and a cluster started; what the admin should
    hear. The course and the hub's packages are there then."""
    if settings.is_root() and people.is_known(INSTRUCTOR):
        raise LabError(
            f"This machine has a user {INSTRUCTOR}. On the hub that is who sees the class"
            " board, with a password of the hub's own, and nobody else: rename that user, or take"
            " another machine."
        )
    if not settings.is_root():
        people.check_own()
    warnings = people.check_at_site(known["people"])
    bundle = course.publish(state)
    warnings += course.lacks_site(known["site"])
    if settings.is_root():
        # A site's folder may be open to a group alone: one of those who will log in tries.
        one = known["people"][0] if known["people"] else "nobody"
        people.check_reach(bundle, one)
        warnings += people.open_answers(one)
    install.ensure()
    return warnings


def _cluster(name: str, names: list[str], warnings: list[str]) -> tabletop.Tabletop:
    """The tabletop of this name, as it runs or as the class wants it."""
    count = len({*people.made(), *names}) if settings.is_root() else 1
    table = tabletop.find(name)
    if table and settings.is_root():
        warnings += too_small(table, count)
    return table or tabletop.up(name, nodes=_nodes(count))


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


def _let_in(state: Path, names: list[str], of_site: list[str]) -> str:
    """See to users and passwords; how many get a server, in words."""
    if of_site:
        count, with_password = len(of_site), [INSTRUCTOR]
    elif settings.is_root():
        people.add(names)
        made = people.made()
        count, with_password = len(made), [INSTRUCTOR, *made]
    else:
        count, with_password = 1, [getpass.getuser()]
    path = _passwords(state)
    before = passwords.read(path) if path.exists() else {}
    lines = (f"{name} {before.get(name) or passwords.generate()}\n" for name in with_password)
    files.replace(path, "".join(lines))
    return "1 person" if count == 1 else f"{count} people"


def _make_class_folder(state: Path) -> None:
    """Make the folder into which learners share what they tried, once they agree, on first use.

    It belongs to the board's own user, and so does the folder in which the board listens.
    """
    classroom.make_folder(state / "class")
    (state / "board").mkdir(mode=0o700, exist_ok=True)
    reader = people.add_system_user(BOARD_USER)
    for own in ("class", "board"):
        os.chown(state / own, reader.pw_uid, reader.pw_gid)


def _say_how_to_log_in(state: Path, known: dict) -> None:
    file = paths.shown(_passwords(state))
    port = known["port"]
    if known["real_users"]:
        board = f"http://127.0.0.1:{port}/services/board/"
        print(f"The class board, for {INSTRUCTOR}: {board}")
    if known["people"]:
        print(f"They log in with the site's passwords. That of {INSTRUCTOR}, for you alone: {file}")
    else:
        print(f"Names and passwords, for you alone: {file}")
    print(
        f"From another machine: ssh -L {port}:127.0.0.1:{port} to this one. To end it: make"
        " hub-stop"
    )


def _passwords(state: Path) -> Path:
    return state / "private" / "passwords.txt"


def _address(state: Path) -> str:
    return f"http://127.0.0.1:{settings.read(state)['port']}"


def _status(options: argparse.Namespace) -> int:
    state = settings.folder()
    lines, well = _there(state)
    if shutil.disk_usage(state / "private").free < FULL:
        lines.append(
            f"The disk of {paths.shown(state)} is full, and log-ins may fail. Make room, then: "
            "make hub-stop, and make hub. Saved work stays."
        )
    if process.running(state):
        word = "answers" if process.answers(settings.read(state)["port"]) else "does not answer"
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
        jobs = process.jobs(settings.read(state))
    except LabError as error:
        return [*lines, f"  {error}"], False
    return lines + ([f"  jobs with learners' servers: {' '.join(jobs)}"] if jobs else []), True


def _down(options: argparse.Namespace) -> int:
    state = settings.folder()
    known = settings.read(state)
    ended = process.stop(state)
    cancelled = process.cancel(known)
    if not ended and not cancelled:
        print("No hub runs here.")
        return 0
    print("The hub is gone, and with it all servers.")
    if known["commands"]:
        name = Path(known["commands"]).parent.name
        print(
            f"The tabletop cluster '{name}' goes on, with the learners' batch jobs. To end both:"
            f" make tabletop-down{tabletop.also_name(name)}"
        )
    if settings.is_root() and not known["people"]:
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
    # The learners' batch jobs, too: one that waits must not start for a user who is no more.
    if table := process.table(settings.read(state)):
        for name in people.made():
            table.run(["scancel", f"--user={name}"])
    gone = people.remove()
    # Another class may have the same names, and users of the same numbers: no old cookie is to let
    # anybody in as one of them, and the board is not to show them somebody else's work.
    for name in ("passwords.txt", "jupyterhub.sqlite", "cookie_secret"):
        (state / "private" / name).unlink(missing_ok=True)
    for name in ("class", "board"):
        shutil.rmtree(state / name, ignore_errors=True)
    people.remove_system_user(BOARD_USER)
    print(
        f"Removed with their homes: {', '.join(gone)}."
        if gone
        else "The hub has made no users here."
    )
    return 0


_VERBS = {"up": _up, "status": _status, "down": _down, "forget": _forget}


if __name__ == "__main__":
    sys.exit(main())
