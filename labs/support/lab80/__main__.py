"""`make report`: check the report of lab 80, then render it as one page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from labkit import paths, record
from labkit.errors import LabError, exit_status

from support.lab80 import page, records, report


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and render a report. A LabError becomes its sentence and status 1."""
    parser = argparse.ArgumentParser(
        prog="report", description="Check the report of lab 80 and render it."
    )
    parser.add_argument(
        "file", nargs="?", help="a report (default: report/report.md in your own folder)"
    )
    parser.add_argument("--solved", action="store_true", help="the report of the solved lab")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _report(options))


def _report(options: argparse.Namespace) -> None:
    home = paths.home() / "solved" if options.solved else paths.home()
    file = Path(options.file) if options.file else home / "report" / "report.md"
    if file.suffix == ".html":
        raise LabError(f"{paths.shown(file)} is a page. Name the text of it, such as report.md.")
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LabError(
            f"There is no report {paths.shown(file)} yet: the end of lab 80 writes it."
        ) from None
    except UnicodeDecodeError:
        raise LabError(f"{paths.shown(file)} is not a text in UTF-8.") from None
    there = home / "records" / record.path(records.LAB).name
    study = records.load(report.study_named_in(text), there)
    made = page.write(text, study, file)
    print(f"Every number of {paths.shown(file)} has its record.")
    print(f"Page, set to be printed: {paths.shown(made)}")


if __name__ == "__main__":
    sys.exit(main())
