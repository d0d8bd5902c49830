"""The verbs behind the Makefile. Those of batch jobs, the tour and the doctor have modules of their own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from labkit import paths
from labkit.cli import jobs, trace
from labkit.errors import LabError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. A LabError becomes its sentence and status 1; Ctrl-C is status 130."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["doctor"]:
        from labkit import doctor

        return doctor.main(given[1:])
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

    run = verbs.add_parser("run", help="run a lab's script")
    run.add_argument("lab", help="number or stem")
    run.add_argument("--np", type=int, default=1, help="number of ranks (1: plain Python, no launcher)")
    jobs.add_set(run)
    run.add_argument("--solved", action="store_true", help="the solved lab")
    run.set_defaults(call=_run)

    jobs.add_verbs(verbs)
    trace.add_verb(verbs)
    verbs.add_parser("progress", help="what is solved so far").set_defaults(call=_progress)
    verbs.add_parser("doctor", help="what this machine has, and which lab runs here")
    return parser


def _run(options: argparse.Namespace) -> int:
    from labkit.cli import run as cli_run

    return cli_run.run(options.lab, ranks=options.np, settings=options.set, solved=options.solved)


def _progress(options: argparse.Namespace) -> int:
    from labkit import checks

    checks.show(paths.root())
    return 0
