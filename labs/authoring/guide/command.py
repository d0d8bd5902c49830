"""`make guide`: the instructor's guide as one HTML file, and slides for each lab. All of it opens
offline."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import edition, labfile, paths
from labkit.errors import LabError, exit_status

from authoring import batch, generate, tour
from authoring.guide import figures, lesson, mistakes, page, results, reveal, slides, timetable
from authoring.guide.page import Sheet

LEARNERS = 40
PREPARATION = "## Before the class, and after it"  # in docs/TEACHING.md
MARK = ".guide"  # in every guide's folder


def main(arguments: list[str] | None = None) -> int:
    """Write the guide. A LabError becomes its sentence and status 1."""
    parser = argparse.ArgumentParser(
        prog="authoring guide", description="Write the instructor's guide."
    )
    parser.add_argument("--out", type=Path, default=None, help="its folder (default: guide)")
    parser.add_argument(
        "--learners", type=int, default=LEARNERS, help="of the class, for node-minutes"
    )
    parser.add_argument("--report", type=Path, default=None, help="a tour's folder, for figures")
    parser.add_argument("--no-slides", action="store_true", help="the page alone")
    parser.add_argument(
        "--reveal", type=Path, default=None, help="the package with reveal.js, where it lies"
    )
    options = parser.parse_args(arguments)
    return exit_status(lambda: _guide(options))


def _guide(options: argparse.Namespace) -> int:
    root = paths.root()
    if options.learners < 1:
        raise LabError(f"A class has one learner or more; {options.learners} makes no guide.")
    report = options.report or root / "report"
    if options.report and not (report / "tour.json").exists():
        raise LabError(f"{report} holds no report. `make tour` writes one, to report/.")
    out = tour.fresh_folder(options.out or root / "guide", MARK, "guide")
    content = timetable.read()
    sheets = read_sheets(root, content, report)
    by_number = {sheet.lesson.lab.header.number: sheet.lesson for sheet in sheets}
    tables = timetable.plan(content, by_number)
    toured = _tour(report)
    page.write(
        out / "index.html",
        sheets,
        tables,
        preparation(root),
        learners=options.learners,
        version=version(root),
        small=toured.get("small", False),
    )
    pictures = sum(sheet.picture is not None for sheet in sheets)
    counts = f"{len(sheets)} labs, {len(tables)} timetables, {pictures} figures"
    print(f"{paths.shown(out / 'index.html')}: {counts}.")
    if not pictures:
        print(
            "No figure was drawn here yet: `make tour` draws them, then `make guide` takes them in."
        )
    if not options.no_slides:
        _write_slides(options.reveal or reveal.package(root), out, sheets)
    return 0


def read_sheets(root: Path, content: Mapping, report: Path) -> list[Sheet]:
    """What the kit knows of each lab. content: of timetables.yaml. report: a tour's folder, or
    none."""
    seconds = {} if _tour(report).get("small") else _seconds(report)
    sheets = []
    for stem in labfile.stems(root):
        lab = generate.load(stem, root)
        told = lesson.read(
            lab, content["figures"].get(stem[:2], ""), content["must_do"].get(stem[:2], ())
        )
        book = report / "notebooks" / f"{stem}.ipynb"
        sheets.append(
            Sheet(
                lesson=told,
                mistakes=mistakes.read(root, stem),
                expected=results.read(root, stem),
                job=batch.job(lab.header),
                picture=figures.picture(book, told.figure.cell) if told.figure else None,
                solved_seconds=seconds.get(stem),
            )
        )
    return sheets


def preparation(root: Path) -> str:
    """What an instructor does before a class and after it: that part of docs/TEACHING.md, in
    Markdown."""
    page = root / "docs" / "TEACHING.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    section = re.search(
        rf"^{re.escape(PREPARATION)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if section is None:
        raise LabError(f"{paths.shown(page)} has no part {PREPARATION!r}, which the guide shows.")
    return section[1].strip()


def version(root: Path) -> str:
    """ "0.1.0, revision 1a2b3c4d5e6f", as far as it is known."""
    return (
        f"{edition.version(root) or 'not known'}, revision {edition.revision(root) or 'not known'}"
    )


def _write_slides(package: Path | None, out: Path, sheets: list[Sheet]) -> None:
    found = reveal.read(package) if package else None
    folder = out / "slides"
    folder.mkdir()
    for sheet in sheets:
        slides.write(folder / f"{sheet.lesson.lab.stem}.slides.html", sheet, found)
    print(f"{paths.shown(folder)}: slides of {len(sheets)} labs.")
    if found is None:
        print(
            "reveal.js could not be fetched (no network?): the slides stand one below the other,"
            " without arrow keys, speaker notes and transitions. `make guide` with a network puts"
            " it in.",
            file=sys.stderr,
        )


def _tour(report: Path) -> dict:
    """What a tour's report says about itself; {} without one."""
    try:
        return json.loads((report / "tour.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _seconds(report: Path) -> dict[str, float]:
    """Stem -> seconds of the solved lab, of those that ran."""
    labs = _tour(report).get("labs", [])
    return {entry["stem"]: entry["seconds"] for entry in labs if entry["status"] == "ran"}
