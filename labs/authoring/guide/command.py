"""`make guide`: the instructor's guide as one HTML file, and slides for each lab. All of it opens
offline."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from labkit import edition, labfile, paths
from labkit.errors import LabError, exit_status

from authoring import generate, offline, tour
from authoring.guide import lesson, timetable
from authoring.guide.lesson import Lesson

LEARNERS = 40
PREPARATION = "## Before the class, and after it"  # in docs/TEACHING.md
MARK = ".guide"  # in every guide's folder
_ROOM = 800  # characters of prose that fit on a slide, beside its heading


def main(arguments: list[str] | None = None) -> int:
    """Write the guide. A LabError becomes its sentence and status 1."""
    parser = argparse.ArgumentParser(
        prog="authoring guide", description="Write the instructor's guide."
    )
    parser.add_argument("--out", type=Path, default=None, help="its folder (default: guide)")
    parser.add_argument("--track", help="a timetable's key: it and its labs alone")
    parser.add_argument(
        "--learners", type=int, default=LEARNERS, help="of the class, for node-minutes"
    )
    parser.add_argument("--report", type=Path, default=None, help="a tour's folder, for plots")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _guide(options))


def _guide(options: argparse.Namespace) -> int:
    root = paths.root()
    if options.learners < 1:
        raise LabError(f"A class has one learner or more; {options.learners} makes no guide.")
    report = options.report or root / "report"
    if options.report and not (report / tour.MARK).exists():
        raise LabError(f"{report} holds no report. `make tour` writes one, to report/.")
    content = timetable.read()
    read = [lesson.read(generate.load(stem, root), content, report) for stem in labfile.stems(root)]
    tables = timetable.plan(content, {each.lab.header.number: each for each in read})
    if options.track:
        tables = [table for table in tables if table.key == options.track]
        if not tables:
            keys = ", ".join(content["timetables"])
            raise LabError(f"There is no timetable {options.track!r}. There are {keys}.")
        read = [each for each in read if each.lab.header.number in tables[0].numbers]
    out = tour.fresh_folder(options.out or root / "guide", MARK, "guide")
    _write(root, out, read, tables, learners=options.learners, is_small=_is_small(report))
    plots = sum(each.plot is not None for each in read)
    print(
        f"{paths.shown(out / 'index.html')}: {len(read)} labs, {len(tables)} timetables, {plots}"
        " plots; slides of each lab in slides/."
    )
    if not plots:
        print("No plot was drawn here yet: `make tour` draws them, `make guide` takes them in.")
    return 0


def _write(root: Path, out: Path, lessons: list[Lesson], tables: list, **known) -> None:
    """index.html and slides/. known: what else the page shows."""
    here = Path(__file__)
    filters = {"line": _line, "first": lesson.first_sentences, "fitting": fitting}
    page = offline.template(here.with_name("guide.html.j2"), **filters)
    version = f"{edition.version(root)}, revision {edition.revision(root) or 'not known'}"
    known |= {"preparation": preparation(root), "version": version}
    numbers = {each.lab.header.number for each in lessons}
    text = page.render(lessons=lessons, timetables=tables, numbers=numbers, **known)
    (out / "index.html").write_text(text, encoding="utf-8")
    deck = offline.template(here.with_name("slides.html.j2"), **filters)
    (out / "slides").mkdir()
    for each in lessons:
        file = out / "slides" / f"{each.lab.stem}.slides.html"
        file.write_text(deck.render(lesson=each, head=each.lab.header), encoding="utf-8")


def preparation(root: Path) -> str:
    """What an instructor does before a class and after it: that part of docs/TEACHING.md, in
    Markdown."""
    text = (root / "docs" / "TEACHING.md").read_text(encoding="utf-8")
    _, _, below = text.partition(f"{PREPARATION}\n")
    if not below:
        raise LabError(f"docs/TEACHING.md has no part {PREPARATION!r}, which the guide shows.")
    return lesson.plain(re.split(r"^## ", below, flags=re.MULTILINE)[0])


def fitting(text: str) -> tuple[str, str]:
    """(the first paragraphs, as far as a slide has room; the others, for the notes)."""
    # A paragraph that ends with a colon says nothing without the table or code below it.
    paragraphs = re.split(r"(?<!:)\n\n+", lesson.plain(text))
    room = _ROOM
    for count, paragraph in enumerate(paragraphs):
        room -= len(paragraph)
        if room < 0 and count:
            return "\n\n".join(paragraphs[:count]), "\n\n".join(paragraphs[count:])
    return "\n\n".join(paragraphs), ""


def _is_small(report: Path) -> bool:
    """Is this the report of a tour at the size of the tests?"""
    try:
        return json.loads((report / tour.MARK).read_text(encoding="utf-8"))["small"]
    except (OSError, ValueError, KeyError):
        return False


def _line(text: str) -> str:
    """Prose of one paragraph as HTML, without the paragraph around it."""
    page = offline.to_html(text).strip()
    return re.sub(r"^<p>(.*)</p>$", r"\1", page, flags=re.DOTALL)
