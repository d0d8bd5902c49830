"""The labs at a glance: the course and the library in the README, and every lab in docs/LABS.md.

Which labs the course has, and how the library is grouped, stands in course.yaml; all else in the
headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from labkit.errors import LabError, counted

from authoring.source import Lab

FILE = Path(__file__).with_name("course.yaml")
BEGIN, END = "<!-- labs:begin -->", "<!-- labs:end -->"
PAGE = "docs/LABS.md"
FURTHER = "Further labs"  # those that course.yaml does not name yet
_PAGE = """\
# All labs

Written by `make labs` from the headers in solutions/. Minutes are for a beginner, without what is
headed *Going further (optional)*.

"""


def read(path: Path = FILE) -> dict:
    """course.yaml: `begin` and `course`, numbers of labs, and `library`, question -> numbers."""
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))


def outputs(root: Path, labs: Iterable[Lab]) -> dict[str, str]:
    """Path inside the checkout -> text: the README with fresh tables, and the page of all labs.
    LabError."""
    by_number = {lab.header.number: lab for lab in labs}
    content = read()
    path = root / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    before, begin, rest = text.partition(BEGIN + "\n")
    _, end, after = rest.partition(END + "\n")
    if not begin or not end:
        raise LabError(f"README.md needs the lines `{BEGIN}` and, below it, `{END}`.")
    tables = f"{course(content, by_number)}\n\n{library(content, by_number)}"
    return {
        "README.md": f"{before}{begin}{tables}\n{end}{after}",
        PAGE: _PAGE + table(by_number.values(), "../notebooks/") + "\n",
    }


def course(content: Mapping, labs: Mapping[str, Lab]) -> str:
    """The course: a sentence of what to begin with, and a table. labs: by their numbers."""
    chosen = [labs[number] for number in content["course"] if number in labs]
    hours = sum(lab.header.minutes for lab in chosen) / 60
    first = labs.get(content["begin"])
    begin = f" Begin with {_link(first, 'notebooks/')}." if first else ""
    return f"**The course**: {counted(len(chosen), 'lab')}, {hours:.0f} hours.{begin}\n\n" + table(
        chosen, "notebooks/"
    )


def library(content: Mapping, labs: Mapping[str, Lab]) -> str:
    """The library: a row for each question, with the labs that answer it, and their minutes."""
    groups = {**content["library"], FURTHER: further(content, labs)}
    rows = ["**The library**, by question; [all labs in one table](docs/LABS.md).", ""]
    rows += ["| question | labs (minutes) |", "|---|---|"]
    for question, numbers in groups.items():
        there = [labs[number] for number in numbers if number in labs]
        links = " · ".join(f"{_link(lab, 'notebooks/')} ({lab.header.minutes})" for lab in there)
        if links:
            rows.append(f"| {question} | {links} |")
    return "\n".join(rows)


def further(content: Mapping, numbers: Iterable[str]) -> list[str]:
    """Those of these labs' numbers that course.yaml does not name."""
    library = (number for row in content["library"].values() for number in row)
    named = {content["begin"], *content["course"], *library}
    return [number for number in numbers if number not in named]


def table(labs: Iterable[Lab], folder: str) -> str:
    """A table of labs from their headers, with links into the folder of notebooks."""
    rows = [
        "| Lab | What you build or find | Level | Needs | Ranks | Minutes |",
        "|---|---|---|---|---|---|",
    ]
    for lab in labs:
        head = lab.header
        needs = ", ".join(head.needs)
        cells = (_link(lab, folder), head.summary, head.level, needs, head.ranks, head.minutes)
        rows.append(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |")
    return "\n".join(rows)


def _link(lab: Lab, folder: str) -> str:
    return f"[{lab.header.number} {lab.header.title}]({folder}{lab.stem}.ipynb)"
