"""The exercises of a lab: found by their headings, with hints, answers and checks, and held to the rules."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from authoring.source import Cell, Lab


BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_HEADING = re.compile(r"^### Exercise (\d\d\.\d+) · (\S.*)$", re.MULTILINE)
_ANY_HEADING = re.compile(r"#+\s*Exercise\b", re.IGNORECASE)
_HINT = re.compile(r"<details>\s*<summary>\s*(Hint (\d+): .*?)</summary>(.*?)</details>", re.DOTALL)


@dataclass
class Exercise:
    """One exercise: its heading, its hints (title, text), and the positions of its cells in the lab."""

    number: str
    title: str
    hints: list[tuple[str, str]]
    line: int = 0
    cell: int = 0
    answers: list[int] = field(default_factory=list)
    check: int | None = None


def exercises_in(text: str) -> list[Exercise]:
    """The exercises with their hints, from a lab's script (`# ` before its prose) or from prose alone."""
    lines = [line for line in text.splitlines() if not line.startswith("# %%")]
    prose = "\n".join(re.sub(r"^#( |$)", "", line) for line in lines)
    headings = list(_HEADING.finditer(prose))
    ends = [*(heading.start() for heading in headings), len(prose)][1:]
    found = []
    for heading, end in zip(headings, ends, strict=False):
        hints = _HINT.findall(prose[heading.end() : end])
        found.append(
            Exercise(
                heading[1], heading[2].strip(), [(title.strip(), body.strip()) for title, _, body in hints]
            )
        )
    return found


def collect(lab: Lab) -> list[Exercise]:
    """The lab's exercises with the positions of their cells. Raises LabError by file and line."""
    found: list[Exercise] = []
    for position, cell in enumerate(lab.cells):
        if cell.kind == "markdown":
            found += _headings(lab, position, cell)
            continue
        if marked(cell):
            if not found:
                raise lab.wrong(cell.line, "an answer stands above the first `### Exercise` heading.")
            if found[-1].check is not None:
                raise lab.wrong(
                    cell.line, f"an answer stands below the check of exercise {found[-1].number}."
                )
            found[-1].answers.append(position)
        for number, line in _checks_in(lab.tree(cell)):
            _take_check(lab, found, number, position, cell.line + line - 1)
    for count, exercise in enumerate(found, 1):
        _hold_to_rules(lab, exercise, f"{lab.stem[:2]}.{count}")
    return found


def marked(cell: Cell) -> bool:
    """Whether the cell holds a mark of an answer."""
    return BEGIN in cell.source or END in cell.source


def _headings(lab: Lab, position: int, cell: Cell) -> list[Exercise]:
    lines = cell.source.splitlines()
    for number, text in enumerate(lines, cell.line):
        if _ANY_HEADING.match(text) and not _HEADING.match(text):
            wanted = f"### Exercise {lab.stem[:2]}.1 · Title"
            raise lab.wrong(number, f"a heading of an exercise reads `{wanted}`; this is {text!r}.")
        if BEGIN in text or END in text:
            raise lab.wrong(number, "a mark of an answer stands in prose.")
    found = exercises_in(cell.source)
    if len(found) > 1:
        raise lab.wrong(cell.line, "two exercises share one cell; give each its own.")
    for exercise in found:
        above = next(count for count, text in enumerate(lines) if _HEADING.match(text))
        exercise.cell, exercise.line = position, cell.line + above
    return found


def _checks_in(tree: ast.Module) -> list[tuple[str, int]]:
    """(exercise, line) of each `with check("40.1"):` in a cell."""
    calls = [
        item.context_expr for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items
    ]
    return [(str(call.args[0].value), call.lineno) for call in calls if _is_check(call)]


def _is_check(call: ast.expr) -> bool:
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"
    return named and bool(call.args) and isinstance(call.args[0], ast.Constant)


def _take_check(lab: Lab, found: list[Exercise], number: str, position: int, line: int) -> None:
    if not found or found[-1].number != number:
        above = f"exercise {found[-1].number}" if found else "no exercise"
        raise lab.wrong(line, f"check({number!r}) stands under the heading of {above}.")
    exercise = found[-1]
    if exercise.check is not None:
        raise lab.wrong(line, f"exercise {number} has two checks; make it one.")
    if not exercise.answers:
        raise lab.wrong(
            line, f"exercise {number} has a check, but no answer between `{BEGIN}` and `{END}` above it."
        )
    if position in exercise.answers:
        raise lab.wrong(line, f"the check of exercise {number} has a cell of its own, below the answer's.")
    exercise.check = position


def _hold_to_rules(lab: Lab, exercise: Exercise, expected: str) -> None:
    line, number = exercise.line, exercise.number
    if number != expected:
        raise lab.wrong(line, f"exercises are numbered in order: expected {expected}, found {number}.")
    if not exercise.answers:
        raise lab.wrong(line, f"exercise {number} has no answer between `{BEGIN}` and `{END}`.")
    if exercise.check is None:
        raise lab.wrong(line, f'exercise {number} has no check: add a cell `with check("{number}"):`.')
    if not 2 <= len(exercise.hints) <= 4:
        form = "`<details><summary>Hint 1: …</summary>`, an empty line, text, an empty line, `</details>`"
        count = len(exercise.hints)
        raise lab.wrong(
            line,
            f"exercise {number} needs 2 to 4 hints below its text, and {count} were found. One is {form}.",
        )
    for count, (title, text) in enumerate(exercise.hints, 1):
        if not title.startswith(f"Hint {count}: ") or not text:
            raise lab.wrong(line, f"hint {count} of exercise {number} is empty or misnumbered: {title!r}.")


# For each lab: does it run here, does it run reduced, or what does it need? From its header alone.


RUNS, REDUCED, NEEDS = "runs here", "runs reduced", "needs"

_HEADER = re.compile(
    r"^# Needs: (?P<needs>.+?) · Ranks: (?P<ranks>\d+) · Minutes: (?P<minutes>\d+)", re.MULTILINE
)


class Header(NamedTuple):
    """The facts in the header line of a lab."""

    needs: tuple[str, ...]
    ranks: int
    minutes: int


def headers(root: Path) -> dict[str, Header]:
    """Stem -> header of every lab of a checkout, in order. A source with a broken header is left out here:
    the generator says what is wrong with it, and the doctor's table must not fail for it."""
    found = {}
    for path in sorted((root / "solutions").glob("[0-9][0-9]_*.py")):
        match = _HEADER.search(path.read_text(encoding="utf-8", errors="replace"))
        if match:
            needs = tuple(word.strip() for word in match["needs"].split(","))
            found[path.stem] = Header(needs, int(match["ranks"]), int(match["minutes"]))
    return found


def lacking(header: Header, report: dict) -> tuple[list[str], list[str]]:
    """Sentences on what is missing altogether, and on what has a lesser stand-in here."""
    missing = [sentence for need in header.needs if (sentence := _missing(need, header, report))]
    return missing, [sentence for need in header.needs if (sentence := _reduced(need, report))]


def judge(header: Header, report: dict) -> tuple[str, str]:
    """(RUNS, REDUCED or NEEDS; a sentence that says how or what)."""
    missing, reduced = lacking(header, report)
    if missing:
        return NEEDS, " ".join(missing)
    if reduced:
        return REDUCED, " ".join(reduced)
    cores = report["machine"]["cores"]
    gpus = len(report["gpu"]["devices"] or ())
    if header.ranks > cores:
        return (
            RUNS,
            f"{header.ranks} ranks share {cores} core{'s' * (cores != 1)}: right, but slower than apart.",
        )
    if gpus and ("torch" in header.needs or "horovod" in header.needs):
        return RUNS, f"On {gpus} GPU{'s' * (gpus != 1)}."
    return RUNS, f"On {cores} core{'s' * (cores != 1)}."


def _missing(need: str, header: Header, report: dict) -> str | None:
    frameworks = report["horovod"]["frameworks"] or []
    if need == "mpi" and not (report["mpi"]["version"] and report["mpi"]["launcher"]):
        return "An MPI with mpiexec: `make setup` installs MPICH; on a cluster load the site's module."
    if need == "mpi" and not report["versions"]["mpi4py"]:
        return "mpi4py: `make setup` installs it."
    if need == "horovod":
        wanted = [name for name in ("torch", "tensorflow") if name in header.needs and name not in frameworks]
        if not frameworks:
            return "Horovod: `make setup` builds it."
        if wanted:
            return f"Horovod for {' and '.join(wanted)}: `make setup` builds it where that is installed."
    if need in ("torch", "tensorflow") and report["threads"][need] is None:
        name = {"torch": "PyTorch", "tensorflow": "TensorFlow"}[need]
        installed = report["versions"][need]
        return f"A {name} that can be imported." if installed else f"{name}: `make setup` installs it."
    if need == "slurm" and not (report["slurm"]["job"] or report["slurm"]["controller"]):
        return "Slurm: a login node of a cluster, or a job on it."
    return None


def _reduced(need: str, report: dict) -> str | None:
    if need in ("gpu", "nccl") and not report["gpu"]["devices"]:
        return {
            "gpu": "No GPU: it runs on the processor.",
            "nccl": "No GPU: other collectives stand in for NCCL.",
        }[need]
    if need == "gpu" and not report["libraries"]["cuda_torch"]:
        return "There is a GPU, but this PyTorch was built for the processor."
    if need == "nccl" and not report["libraries"]["nccl"]:
        return "There is a GPU, but no NCCL: other collectives stand in for it."
    return None
