"""The text of a report: put together, written with its page, and the names that it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labkit import paths, world

from support.lab80 import figures, page
from support.lab80.records import Study
from support.lab80.report import BLOCKS, SECTIONS


def assemble(title: str, sections: Mapping[str, str], study: Study) -> str:
    """The text of report.md: which study it is about, the title, and the sections in their order."""
    parts = [f"---\nstudy: {study.name}\n---\n", f"# {title}\n"]
    for heading in SECTIONS:
        if heading in sections:
            parts.append(f"## {heading}\n\n{_without_indent(sections[heading])}\n")
    for heading, text in sections.items():
        if heading not in SECTIONS:
            parts.append(f"## {heading}\n\n{_without_indent(text)}\n")
    return "\n".join(parts)


def _without_indent(text: str) -> str:
    return "\n".join(line.strip() for line in str(text).strip().splitlines())


def publish(text: str, study: Study) -> None:
    """Write report.md and its page into home()/report, and say where; on rank 0 alone.

    A report.md that somebody has edited is kept beside it.
    """
    if not world.is_root():
        return
    folder = paths.home() / "report"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "report.md"
    written = folder / ".written.md"  # what the lab wrote last
    if file.exists() and (not written.exists() or written.read_text() != file.read_text()):
        kept = _free_name(folder)
        file.rename(kept)
        print(f"You had edited {paths.shown(file)}; it is kept as {paths.shown(kept)}.")
    file.write_text(text, encoding="utf-8")
    written.write_text(text, encoding="utf-8")
    made = page.write(text, study, folder)
    print(
        f"Report: {paths.shown(file)}, page: {paths.shown(made)}. `make report` checks and renders it again."
    )


def _free_name(folder: Path) -> Path:
    number = 1
    while (folder / f"report-{number}.md").exists():
        number += 1
    return folder / f"report-{number}.md"


def print_figures(study: Study, ranks: int) -> None:
    """Names and values of what a report may hold; of the figures by ranks those of so many."""
    for name, figure in figures.all_of(study).items():
        of_ranks = name.split("_")[-1].isdigit() or name.endswith(("strong_most", "weak_most"))
        if not of_ranks or name.endswith(f"_{ranks}"):
            print(f"{{{name}}}".ljust(38), figure.text)
    for name, words in figures.sentences(study).items():
        print(f"{{{name}}}".ljust(38), words if len(words) < 70 else f"{words[:69]}…")
    print("on lines of their own:", ", ".join(f"{{{name}}}" for name in BLOCKS))
