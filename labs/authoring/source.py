"""Read a lab's source (solutions/NN_name.py, jupytext percent); name by file and line what does not
fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from labkit.errors import LabError

from authoring import links, rules, tries
from authoring.cell import Cell

NEEDS = ("cpu", "mpi", "horovod", "torch", "tensorflow", "slurm", "gpu", "nccl")
STEM = re.compile(r"\d\d_[a-z0-9_]+")
_TITLE = re.compile(r"# (\d\d) (\S.*)")
LEVELS = ("beginner", "intermediate", "advanced")
_FACTS = re.compile(
    r"Needs: (?P<needs>.+?) · Ranks: (?P<ranks>[1-9]\d*) · Minutes: (?P<minutes>\d+)"
    rf" · Level: (?P<level>{'|'.join(LEVELS)}) · Before: (?P<before>-|\d\d(?:, \d\d)*)"
)
ABLE = re.compile(r"\*\*(?:After this lab you can|You will be able to)\*\*")
_MARKER = re.compile(r'# %%(?: \[markdown\]| tags=\["[^\]]*"\])?\s*')


@dataclass(frozen=True)
class Header:
    """What the first cell says of the lab.

    `summary` is the first sentence of its roadmap, the paragraph that begins with "In this lab",
    or, where there is none, the paragraph below the title.
    """

    number: str
    title: str
    summary: str
    needs: tuple[str, ...]
    ranks: int
    minutes: int
    level: str
    before: tuple[str, ...]


class Lab:
    """A lab's source: `.cells`, `.header`, `.exercises`, `.parameters`. Reading it checks its form.

    Raises LabError `solutions/NN_name.py:LINE: …` at the first thing that does not fit.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self.stem = Path(path).stem
        self.text = self.path.read_text(encoding="utf-8")
        self.cells = self._cells()
        self.header = self._header()
        self.exercises = rules.collect(self)
        self._check_code()
        tries.hold_to_lab(self, _bound)

    def wrong(self, line: int, sentence: str) -> LabError:
        """The error that says `sentence` of a line of this file."""
        return LabError(f"{self.path.parent.name}/{self.path.name}:{line}: {sentence}")

    def tree(self, cell: Cell) -> ast.Module:
        """The syntax tree of a code cell."""
        try:
            return ast.parse(cell.source)
        except SyntaxError as error:
            line = cell.line + (error.lineno or 1) - 1
            raise self.wrong(line, f"this cell is not plain Python: {error.msg}.") from None

    @cached_property
    def parameters(self) -> dict[str, object]:
        """Name and value of each knob in the cell tagged parameters."""
        cells = [cell for cell in self.cells if "parameters" in cell.tags]
        if len(cells) != 1:
            raise self.wrong(1, 'a lab has exactly one cell `# %% tags=["parameters"]`.')
        values = {}
        for node in self.tree(cells[0]).body:
            try:
                (target,) = node.targets
                values[target.id] = _literal(node.value)
            except (AttributeError, ValueError):
                line = cells[0].line + node.lineno - 1
                raise self.wrong(
                    line, "a parameter is one line `name = number, word or tuple`."
                ) from None
        return values

    def _cells(self) -> list[Cell]:
        import jupytext

        lines = self.text.splitlines()
        if not STEM.fullmatch(self.stem):
            raise self.wrong(
                1, "a lab is named by two digits, an underscore and lower-case words (40_horovod)."
            )
        starts = [number for number, line in enumerate(lines, 1) if re.match(r"# ?%%", line)]
        if not starts or starts[0] != 1:
            raise self.wrong(
                1, "a lab begins with the line `# %% [markdown]` and has no header above it."
            )
        read = jupytext.reads(self.text, fmt="py:percent").cells
        if len(read) != len(starts):
            raise self.wrong(
                1, f"{len(starts)} lines begin a cell, but jupytext sees {len(read)} cells."
            )
        cells = []
        for cell, start in zip(read, starts, strict=True):
            if not _MARKER.fullmatch(lines[start - 1]):
                raise self.wrong(
                    start,
                    'a cell begins with `# %%`, `# %% [markdown]` or `# %% tags=["parameters"]`.',
                )
            first = start
            while first < len(lines) and not lines[first].strip():
                first += 1
            cells.append(
                Cell(cell.cell_type, cell.source, first + 1, tuple(cell.metadata.get("tags", ())))
            )
        return cells

    def _header(self) -> Header:
        text = self.cells[0].source.strip()
        line = self.cells[0].line
        lines = text.splitlines()
        last = line + len(lines) - 1
        title = _TITLE.fullmatch(lines[0]) if lines and self.cells[0].kind == "markdown" else None
        if not title or title[1] != self.stem[:2]:
            raise self.wrong(
                line,
                f"the first cell begins with the title, `# {self.stem[:2]} Words in plain"
                " English`.",
            )
        facts = _FACTS.fullmatch(lines[-1].strip())
        if not facts:
            form = "Needs: mpi · Ranks: 4 · Minutes: 30 · Level: beginner · Before: 21, 22"
            raise self.wrong(
                last,
                f"the first cell ends with a line such as `{form}` (or `Before: -`); a level is one"
                f" of {', '.join(LEVELS)}.",
            )
        needs = tuple(word.strip() for word in facts["needs"].split(","))
        unknown = [word for word in needs if word not in NEEDS]
        if unknown:
            raise self.wrong(last, f"Needs: {unknown[0]!r} is not one of {', '.join(NEEDS)}.")
        before = tuple(re.findall(r"\d\d", facts["before"]))
        paragraphs = text.split("\n\n")
        if not ABLE.search(text) or len(paragraphs) < 4:
            raise self.wrong(
                line,
                "the first cell has a title, a paragraph of what and why, `**After this lab you"
                " can** (1) …`.",
            )
        return Header(
            number=title[1],
            title=title[2].strip(),
            summary=_summary(paragraphs[1:]),
            needs=needs,
            ranks=int(facts["ranks"]),
            minutes=int(facts["minutes"]),
            level=facts["level"],
            before=before,
        )

    def _check_code(self) -> None:
        if f'lab.start("{self.stem}")' not in (self.cells[1].source if len(self.cells) > 1 else ""):
            raise self.wrong(
                self.cells[0].line,
                f'the second cell holds the imports and `lab.start("{self.stem}")`.',
            )
        if self.exercises and "hint" not in _imported(self.tree(self.cells[1])):
            raise self.wrong(
                self.cells[1].line,
                "a failed check recommends hint(…): import it, `from labkit import hint`.",
            )
        self.parameters  # noqa: B018 - raises when one is not a literal
        for cell in self.cells:
            if cell.kind == "code":
                self._check_cell(cell)

    def _check_cell(self, cell: Cell) -> None:
        for node in ast.walk(self.tree(cell)):
            line = cell.line + getattr(node, "lineno", 1) - 1
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "input"
            ):
                raise self.wrong(line, "input() would stop a batch job; use a parameter.")
            if isinstance(node, ast.Name) and node.id == "__name__":
                raise self.wrong(line, "a lab runs from top to bottom, without `if __name__`.")
        if "parameters" in cell.tags:
            return
        for name, number in _bound(self.tree(cell)):
            if name in self.parameters:
                line = cell.line + number - 1
                raise self.wrong(
                    line,
                    f"{name!r} is a parameter, which the cells below read: use another name here.",
                )


def _summary(paragraphs: list[str]) -> str:
    told = [" ".join(paragraph.split()) for paragraph in paragraphs]
    roadmaps = [paragraph for paragraph in told if paragraph.startswith("In this lab")]
    if not roadmaps:
        return links.plain(told[0])
    return re.split(r"(?<=[.?!])\s+(?=[A-Z])", links.plain(roadmaps[0]))[0]


def _imported(tree: ast.Module) -> set[str]:
    """The names that a cell's imports bring."""
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line) of what a cell binds for the cells below; what functions bind inside is left
    out."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    scopes += (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name, node.lineno
        if not isinstance(node, scopes):
            yield from _bound(node)


def _literal(node: ast.expr) -> object:
    """The value of a literal; arithmetic of numbers, such as 1 << 20, counts as one. Else
    ValueError."""
    allowed = (
        ast.Constant,
        ast.Tuple,
        ast.List,
        ast.UnaryOp,
        ast.BinOp,
        ast.operator,
        ast.unaryop,
        ast.Load,
    )
    if not all(isinstance(part, allowed) for part in ast.walk(node)):
        raise ValueError("not a literal")
    return eval(compile(ast.Expression(node), "<parameter>", "eval"))
