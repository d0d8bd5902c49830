"""`make submit`, `make results`, `make scaling`: batch jobs from the command line."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from labkit import labfile, paths
from labkit.cli.run import add_choices
from labkit.errors import LabError, NotHere

_COLOURS = {"completed": "green", "running": "cyan", "pending": "yellow", "unknown": "dim"}


def add_verbs(verbs) -> None:
    """Add submit, results and scaling to labkit's parser."""
    submit = verbs.add_parser("submit", help="hand a lab's batch script to Slurm")
    submit.add_argument("lab", help="number or stem")
    submit.add_argument("--nodes", default="2", help="computers (default 2)")
    _job_options(submit)
    submit.set_defaults(call=_submit)

    results = verbs.add_parser("results", help="your batch jobs, and where their records are")
    results.add_argument("lab", nargs="?", help="only this lab's (number or stem)")
    results.set_defaults(call=_results)

    scaling = verbs.add_parser(
        "scaling", help="one job for each number of nodes; without numbers, the table"
    )
    scaling.add_argument("lab", help="number or stem")
    scaling.add_argument("--nodes", help="numbers of computers, such as 1,2,4,8")
    _job_options(scaling)
    scaling.set_defaults(call=_scaling)


def _job_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", help="ranks on each node (default: as the batch script says)")
    parser.add_argument(
        "--site", help="a file of slurm/sites/ (default: $SITE, else a tabletop that runs)"
    )
    add_choices(parser)
    parser.add_argument(
        "--env",
        nargs="*",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="variables for the job's ranks",
    )
    parser.add_argument(
        "--solved", action="store_true", help="the solved lab, its records kept apart"
    )
    parser.add_argument(
        "--wait", action="store_true", help="wait for the end, and show what it printed"
    )


def _count(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise LabError(f"{name} is a whole number, 1 or more, not {text!r}.")
    return int(text)


def _options(options: argparse.Namespace) -> dict:
    from labkit import cluster

    settings = dict(labfile.read_setting(text) for text in options.set)
    return {
        "ranks_per_node": options.ranks and _count("RANKS", options.ranks),
        "site": options.site,
        "settings": settings,
        "solved": options.solved,
        "env": dict(cluster.read_variable(text) for text in options.env),
        "horovod": options.horovod,
        "mpi": options.mpi,
    }


def _submit(options: argparse.Namespace) -> int:
    from labkit import cluster

    job = cluster.submit(options.lab, _count("NODES", options.nodes), **_options(options))
    _announce(job)
    return _wait([job]) if options.wait else 0


def _announce(job) -> None:
    file = paths.shown(job.file)
    print(f"Submitted {job}. It prints to {file}; `make results` shows how it stands.", flush=True)


def _wait(jobs: list) -> int:
    """Wait for each job in turn and show what it printed. 130 after Ctrl-C."""
    from labkit import cluster

    status = 0
    for job in jobs:
        try:
            job.wait(timeout=None)
        except cluster.StoppedWaiting as stopped:
            print(stopped, file=sys.stderr)
            return 130
        except LabError as error:
            print(job.output(), end="")
            print(error, file=sys.stderr)
            status = 1
        else:
            print(job.output(), end="")
    return status


def _scaling(options: argparse.Namespace) -> int:
    from labkit import cluster

    if options.nodes is None:
        study = cluster.last_study(options.lab)
        print(f"Jobs: {', '.join(f'{job.number} {job.state()}' for job in study)}")
        frame = study.table()
        if not frame.empty:
            print(frame.round(4).to_string(index=False))
        return 0
    counts = [_count("NODES", part) for part in options.nodes.split(",")]
    study = cluster.study(options.lab, counts, **_options(options))
    for job in study:
        _announce(job)
    number = study.lab[:2]
    print(
        f"When they have ended, `make scaling LAB={number}` shows the table: seconds, speed-up,"
        " efficiency. "
        f'In the notebook: study = cluster.last_study("{number}"), then study.table() and'
        ' study.plot("…").'
    )
    return _wait(study.jobs) if options.wait else 0


def _results(options: argparse.Namespace) -> int:
    from labkit import cluster

    jobs = cluster.jobs(options.lab)
    if not jobs:
        print("No batch jobs yet. `make submit LAB=40 NODES=2` submits one.")
        return 0
    _show(jobs)
    return 0


def _show(jobs: list) -> None:
    """A table of jobs, the newest last."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Your batch jobs")
    for name in ("Job", "Lab", "Site", "Nodes × ranks", "State", "Submitted", "Records"):
        table.add_column(
            name, justify="right" if name in ("Job", "Nodes × ranks", "Records") else "left"
        )
    with_choices = any(_choices(job) for job in jobs)
    if with_choices:
        table.add_column("With", overflow="fold")
    table.add_column("Output", overflow="fold")
    # Site, or a job of which Slurm says nothing -> why: once is enough for a site.
    silent: dict[str, str] = {}
    for job in jobs:
        size = f"{job.nodes} × {job.ranks // job.nodes if job.ranks else '?'}"
        when = datetime.fromisoformat(job.submitted).astimezone()
        state = _state(job, silent)
        records = str(len(job.entries()) or "")
        lab = f"{job.lab[:2]}{' solved' if job.solved else ''}"
        cells = [job.number, lab, job.site, size, state, f"{when:%Y-%m-%d %H:%M}", records]
        if with_choices:
            cells.append(escape(_choices(job)))
        table.add_row(*cells, escape(paths.shown(job.file)))
    # Where nobody watches (a file, a pipe), a line is as long as it needs to be.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    for what, sentence in silent.items():
        print(f"{what}: {sentence}")
    print(
        'In a notebook: cluster.jobs("40")[-1].records() reads what the newest job of lab 40'
        " measured."
    )


def _choices(job) -> str:
    """The builds and the variables that the job was submitted with; "" for none."""
    builds = {"HOROVOD": job.horovod, "MPI": job.mpi}
    chosen = {name: build for name, build in builds.items() if build} | job.env
    return " ".join(f"{name}={value}" for name, value in chosen.items())


def _state(job, silent: dict[str, str]) -> str:
    from labkit import cluster

    place = job.commands or job.site
    if place in silent and not job.final:
        return "not known"
    try:
        status = job.status()
    except (cluster.slurm.NoAnswer, NotHere) as error:
        silent[place] = str(error)
        return "not known"
    except cluster.slurm.Refused as error:  # of this job alone
        silent[str(job)] = str(error)
        return "not known"
    word = status.state.replace("_", " ")
    why = f", {cluster.why(status)}" if status.waits else ""
    return f"[{_COLOURS.get(status.state, 'red')}]{word}[/]{why}"
