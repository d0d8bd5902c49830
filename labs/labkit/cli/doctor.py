"""`make doctor`: what this machine has, and which lab runs here."""

from __future__ import annotations

import argparse
import json

from labkit.errors import LabError

LONGEST = 3600  # seconds


def add_verb(verbs) -> None:
    """Add `doctor` to labkit's parser."""
    doctor = verbs.add_parser("doctor", help="what this machine has, and which lab runs here")
    doctor.add_argument("--json", action="store_true", help="the report as JSON")
    doctor.add_argument(
        "--require", default="", metavar="NEEDS", help="status 1 if one of mpi,horovod,… is missing"
    )
    doctor.add_argument("--limit", type=float, default=60.0, help="seconds to wait for a probe (default 60)")
    doctor.set_defaults(call=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from labkit import doctor

    if not 0 < options.limit <= LONGEST:
        raise LabError(f"--limit {options.limit:g} will not do: give seconds, above 0 and up to {LONGEST}.")
    report = doctor.report(limit=options.limit)
    if options.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        doctor.show()
    doctor.require(options.require)
    return 0
