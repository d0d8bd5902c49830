"""The verbs behind the Makefile. Those with options of their own have modules of their own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from labkit import copies, paths
from labkit.cli import doctor, jobs, run, share, trace
from labkit.errors import exit_status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. A LabError becomes its sentence and status 1; Ctrl-C is status 130."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: options.call(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labkit", description="The labs' own commands; `make help` lists them."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    run.add_verb(verbs)
    jobs.add_verbs(verbs)
    trace.add_verb(verbs)
    share.add_verbs(verbs)
    verbs.add_parser("progress", help="what is solved so far").set_defaults(call=_progress)
    verbs.add_parser("bring", help="bring the labs into work/").set_defaults(call=_bring)
    reset = verbs.add_parser("reset", help="begin a lab afresh; yours is set aside")
    reset.add_argument("lab", help="number or stem")
    reset.set_defaults(call=_reset)
    doctor.add_verb(verbs)
    return parser


def _progress(options: argparse.Namespace) -> int:
    from labkit import journal

    paths.home()  # where it is kept: said here, if that cannot be
    journal.show(paths.root())
    return 0


def _bring(options: argparse.Namespace) -> int:
    copies.bring(paths.root())
    return 0


def _reset(options: argparse.Namespace) -> int:
    copies.reset(options.lab)
    return 0
