"""The verbs behind the Makefile: the parser, and the short ones; others have modules of their
own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from labkit import copies, journal, paths
from labkit.cli import jobs, run, trace
from labkit.errors import LabError, exit_status

LONGEST = 3600  # seconds that the doctor waits for a probe


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

    share = verbs.add_parser("share", help="let your instructor's class board show where you are")
    name = share.add_mutually_exclusive_group()
    name.add_argument("--named", action="store_true", default=None, help="by your name")
    name.add_argument("--hidden", dest="named", action="store_false", help="by a pseudonym")
    share.add_argument(
        "--until", default="", metavar="DAY", help="the last day, such as 2026-12-01"
    )
    share.add_argument("--status", action="store_true", help="change nothing; say what is shared")
    share.set_defaults(call=_share)
    unshare = verbs.add_parser("unshare", help="take that back, and delete what was shared")
    unshare.set_defaults(call=lambda options: journal.unshare())

    verbs.add_parser("progress", help="what is solved so far").set_defaults(call=_progress)
    bring = verbs.add_parser("bring", help="bring the labs into work/")
    bring.set_defaults(call=lambda options: copies.bring(paths.root()))
    reset = verbs.add_parser("reset", help="begin a lab afresh; yours is set aside")
    reset.add_argument("lab", help="number or stem")
    reset.set_defaults(call=lambda options: copies.reset(options.lab))

    doctor = verbs.add_parser("doctor", help="what this machine has, and which lab runs here")
    doctor.add_argument("--json", action="store_true", help="the report as JSON")
    doctor.add_argument(
        "--limit", type=float, default=60.0, help="seconds to wait for a probe (default 60)"
    )
    doctor.set_defaults(call=_doctor)
    return parser


def _share(options: argparse.Namespace) -> int:
    if options.status:
        print(journal.status())
        return 0
    try:
        journal.share(options.named, options.until)
    except journal.Unanswered as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _progress(options: argparse.Namespace) -> None:
    paths.home()  # where it is kept: said here, if that cannot be
    journal.show(paths.root())


def _doctor(options: argparse.Namespace) -> None:
    from labkit import doctor

    if not 0 < options.limit <= LONGEST:
        raise LabError(
            f"--limit {options.limit:g} will not do: give seconds, above 0 and up to {LONGEST}."
        )
    report = doctor.report(limit=options.limit)
    if options.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        doctor.show()
