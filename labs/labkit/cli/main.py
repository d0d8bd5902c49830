"""The verbs behind the Makefile. Those of batch jobs, the tour and the doctor have modules of their own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from authoring import generate

import labkit
from labkit.cli import jobs, trace
from labkit.errors import LabError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. A LabError becomes its sentence and status 1; Ctrl-C is status 130."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["tour"], ["doctor"]):
        return _delegate(given[0], given[1:])
    options = _parser().parse_args(given)
    try:
        return options.call(options)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or 'A file'}: {error.strerror or error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labkit", description="The labs' own commands; `make help` lists them."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    labs = verbs.add_parser("labs", help="write the learner's files and the README's table from solutions/")
    labs.add_argument("lab", nargs="*", help="only these labs (number or stem)")
    labs.add_argument(
        "--check", action="store_true", help="write nothing; name what is out of date, status 1"
    )
    labs.set_defaults(call=_labs)

    new = verbs.add_parser("new", help="begin a new lab")
    new.add_argument("lab", help="its stem, such as 66_my_topic")
    new.set_defaults(call=_new)

    run = verbs.add_parser("run", help="run a lab's script")
    run.add_argument("lab", help="number or stem")
    run.add_argument("--np", type=int, default=1, help="number of ranks (1: plain Python, no launcher)")
    jobs.add_set(run)
    run.add_argument("--solved", action="store_true", help="the solved lab")
    run.set_defaults(call=_run)

    reset = verbs.add_parser("reset", help="begin a lab afresh; what you wrote is set aside")
    reset.add_argument("lab", help="number or stem")
    reset.set_defaults(call=_reset)

    solve = verbs.add_parser("solve", help="put the answer of one exercise into your notebook")
    solve.add_argument("lab", help="number or stem")
    solve.add_argument("exercise", help="such as 40.1")
    solve.set_defaults(call=_solve)

    jobs.add_verbs(verbs)
    trace.add_verb(verbs)
    verbs.add_parser("progress", help="what is solved so far").set_defaults(call=_progress)
    verbs.add_parser("site", help="write a site file for a new cluster").set_defaults(call=_site)
    verbs.add_parser("tour", help="run every solved lab and write a report")
    verbs.add_parser("doctor", help="what this machine has, and which lab runs here")
    return parser


def _delegate(verb: str, rest: list[str]) -> int:
    import importlib

    return importlib.import_module(f"labkit.{verb}").main(rest) or 0


def _labs(options: argparse.Namespace) -> int:
    only = [generate.find(lab) for lab in options.lab]
    stale = generate.write_all(check=options.check, only=only)
    if not options.check:
        print(f"{len(generate.stems())} labs; written: {', '.join(stale) or 'nothing, all was up to date'}")
        return 0
    if stale:
        print(
            f"Out of date or without a source: {', '.join(stale)}. `make labs` writes them.", file=sys.stderr
        )
    return 1 if stale else 0


def _new(options: argparse.Namespace) -> int:
    from authoring import skeleton

    skeleton.new(options.lab)
    return 0


def _run(options: argparse.Namespace) -> int:
    from labkit.cli import run as cli_run

    return cli_run.run(options.lab, ranks=options.np, settings=options.set, solved=options.solved)


def _reset(options: argparse.Namespace) -> int:
    from authoring import learner

    learner.reset(options.lab)
    return 0


def _solve(options: argparse.Namespace) -> int:
    from authoring import learner

    learner.solve(options.lab, options.exercise)
    return 0


def _progress(options: argparse.Namespace) -> int:
    from labkit import checks

    checks.show(labkit.root())
    return 0


def _site(options: argparse.Namespace) -> int:
    from slurm import new_site

    new_site.run()
    return 0
