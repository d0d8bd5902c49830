"""A lab's file, read: which labs there are, their headers, exercises and hints, and their
parameters."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from labkit import edition, paths
from labkit.errors import LabError

HEADING = re.compile(r"^### Exercise (\d\d\.\d+) · (\S.*)$", re.MULTILINE)
_HINT = re.compile(r"<details>\s*<summary>\s*(Hint (\d+): .*?)</summary>(.*?)</details>", re.DOTALL)


@dataclass
class Exercise:
    """One exercise: its heading, its hints (title, text), and the positions of its cells in the
    lab."""

    number: str
    title: str
    hints: list[tuple[str, str]]
    line: int = 0
    cell: int = 0
    answers: list[int] = field(default_factory=list)
    check: int | None = None


def exercises_in(text: str) -> list[Exercise]:
    """The exercises with their hints, from a lab's script (`# ` before its prose) or from prose
    alone."""
    lines = [line for line in text.splitlines() if not line.startswith("# %%")]
    prose = "\n".join(re.sub(r"^#( |$)", "", line) for line in lines)
    headings = list(HEADING.finditer(prose))
    ends = [*(heading.start() for heading in headings), len(prose)][1:]
    exercises = []
    for heading, end in zip(headings, ends, strict=False):
        hints = _HINT.findall(prose[heading.end() : end])
        exercises.append(
            Exercise(
                heading[1],
                heading[2].strip(),
                [(title.strip(), body.strip()) for title, _, body in hints],
            )
        )
    return exercises


def folder(root: Path | None = None) -> Path:
    """Where the labs are read: solutions/, where they are written; in the learners' archive
    labs/."""
    root = root or paths.root()
    return root / ("labs" if edition.is_learners(root) else "solutions")


def stems(root: Path | None = None) -> list[str]:
    """The stems of all labs, in order: the set of labs is the set of sources."""
    return sorted(path.stem for path in folder(root).glob("[0-9][0-9]_*.py"))


def solved_script(stem: str, root: Path | None = None) -> Path:
    """The script of a lab with its answers. Raises LabError in the learners' archive."""
    root = root or paths.root()
    edition.need_solutions("A solved lab", root)
    return root / "solutions" / f"{stem}.py"


def find(lab: str | int, root: Path | None = None) -> str:
    """The stem of a lab given as number (40, "40") or stem. Raises LabError with the labs there
    are."""
    known = stems(root)
    wanted = f"{int(lab):02d}" if str(lab).isdecimal() else Path(str(lab)).stem
    matches = [stem for stem in known if stem == wanted or stem[:2] == wanted]
    if len(matches) != 1:
        raise LabError(
            f"There is no lab {str(lab)!r}. These exist: {', '.join(known) or 'none yet'}."
        )
    return matches[0]


_HEADER = re.compile(
    r"^# Needs: (?P<needs>.+?) · Ranks: (?P<ranks>\d+) · Minutes: (?P<minutes>\d+)", re.MULTILINE
)


class Header(NamedTuple):
    """The facts in the header line of a lab."""

    needs: tuple[str, ...]
    ranks: int
    minutes: int


def headers(root: Path) -> dict[str, Header]:
    """Stem -> header of every lab of a checkout, in order. A source with a broken header is left
    out here: the generator says what is wrong with it, and the doctor's table must not fail for
    it."""
    known = {}
    for path in sorted(folder(root).glob("[0-9][0-9]_*.py")):
        match = _HEADER.search(path.read_text(encoding="utf-8", errors="replace"))
        if match:
            needs = tuple(word.strip() for word in match["needs"].split(","))
            known[path.stem] = Header(needs, int(match["ranks"]), int(match["minutes"]))
    return known


def read_setting(text: str) -> tuple[str, object]:
    """The name and the value of NAME=VALUE. A word needs no quotes; true and false may be written
    in capitals or not. Raises LabError."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise LabError(f"A parameter is set as NAME=VALUE, such as epochs=1; {text!r} is not.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, {"true": True, "false": False}.get(value.lower(), value)


def override(cell: str, values: dict[str, object]) -> str:
    """The text of a parameters cell with other values. Comments and all other lines stay.

    Raises LabError for a name that the cell does not have, and for a cell that is not Python.
    """
    nodes = _assigned(cell)
    for name in values:
        if name not in nodes:
            raise LabError(
                f"There is no parameter {name!r}. The parameters are {', '.join(nodes) or 'none'}."
            )
    return replaced(cell, [(nodes[name], repr(value)) for name, value in values.items()])


def _assigned(cell: str) -> dict[str, ast.expr]:
    """Name -> value of each plain assignment; a learner's cell may hold other lines, too."""
    try:
        body = ast.parse(cell).body
    except SyntaxError as error:
        raise LabError(
            f"The cell of the parameters is not Python ({error.msg}): {(error.text or '').strip()}"
        ) from None
    values = {}
    for statement in body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                values[name] = value
    return values


def with_parameters(text: str, values: dict[str, object]) -> str:
    """A lab's script with other parameter values, such as {"epochs": 1}. An unknown name is a
    LabError."""
    lines = text.splitlines()
    markers = [number for number, line in enumerate(lines) if line.startswith("# %%")]
    start = next((number for number in markers if 'tags=["parameters"]' in lines[number]), None)
    if start is None:
        raise LabError("This script has no parameters cell.")
    end = next((number for number in markers if number > start), len(lines))
    lines[start + 1 : end] = [*override("\n".join(lines[start + 1 : end]), values).splitlines(), ""]
    return "\n".join(lines).rstrip() + "\n"


def replaced(text: str, changes: list[tuple[ast.expr, str]]) -> str:
    """The text with other source in place of some of its expressions."""
    lines = text.splitlines()
    for node, new in sorted(
        changes, key=lambda change: (change[0].lineno, change[0].col_offset), reverse=True
    ):
        # ast counts columns in bytes of UTF-8.
        first = lines[node.lineno - 1].encode()
        last = lines[node.end_lineno - 1].encode()
        line = first[: node.col_offset] + new.encode() + last[node.end_col_offset :]
        lines[node.lineno - 1 : node.end_lineno] = [line.decode()]
    return "\n".join(lines)
