"""`make report`: check the report of lab 80, then render it as one page, HTML and PDF."""

from __future__ import annotations

import argparse
from pathlib import Path

from labkit import paths
from labkit.errors import LabError


def add_verb(verbs) -> None:
    """Add `report` to labkit's parser."""
    report = verbs.add_parser("report", help="check the report of lab 80 and render it")
    report.add_argument("file", nargs="?", help="a report (default: report/report.md in your own folder)")
    report.add_argument("--solved", action="store_true", help="the report of the solved lab")
    report.add_argument("--no-pdf", action="store_true", help="HTML alone")
    report.set_defaults(call=_report)


def _report(options: argparse.Namespace) -> int:
    from labkit import record, reporting

    home = paths.home() / "solved" if options.solved else paths.home()
    file = Path(options.file) if options.file else home / "report" / "report.md"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LabError(f"There is no report {paths.shown(file)} yet: the end of lab 80 writes it.") from None
    except UnicodeDecodeError:
        raise LabError(f"{paths.shown(file)} is not a text in UTF-8.") from None
    records = home / "records" / record.path(reporting.LAB).name
    study = reporting.load(reporting.study_named_in(text), [records])
    page = reporting.write(text, study, file.parent)
    print(f"Every number of {paths.shown(file)} has its record. Page: {paths.shown(page)}")
    if options.no_pdf:
        return 0
    pdf = reporting.write_pdf(page)
    if pdf:
        print(f"PDF:  {paths.shown(pdf)}")
    else:
        print(
            "No PDF: there is no Chromium here. Open the page in any browser and print it: it is set for A4."
        )
    return 0
