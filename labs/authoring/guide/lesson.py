"""What a lab's own text tells an instructor: aim, ideas, exercises, questions with answers, what stays.

Nothing is written down twice: all of it is read from the lab's source.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from authoring import tries
from authoring.guide import figures
from authoring.guide.figures import Figure
from authoring.source import LEVELS, Lab

TAKE_AWAY = "What you take away"
_HEADING = re.compile(r"^(#{2,3}) +(.+)$", re.MULTILINE)
_DETAILS = re.compile(r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
_LEVEL = re.compile(r"\*\((" + "|".join(LEVELS) + r")\)\*")
_ABLE = re.compile(r"\(\d+(?:, ([^)]*))?\)\s*")  # (2), or (2, for those who have time)
# The lab's own sentence: in the track "PPoPP hands-on, 90 minutes", exercise 40.3 is the one to do.
_SAID = re.compile(r"exercise (\d\d\.\d+) is the one to do|exercise to do here is (\d\d\.\d+)")


@dataclass(frozen=True)
class Section:
    """A heading of a lab and all prose below it, up to the next one. cell: where it begins."""

    title: str
    text: str
    cell: int


@dataclass(frozen=True)
class Question:
    """A question of the lab, and the answer that the lab folds away below it."""

    where: str
    question: str
    answer: str


@dataclass(frozen=True)
class Task:
    """One exercise: its task without hints, its level, its hints (title, text)."""

    number: str
    title: str
    level: str
    text: str
    hints: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]  # the solved cells


@dataclass(frozen=True)
class MustDo:
    """The exercise to do when there is time for one, why it is this one, and which answers it needs."""

    number: str
    why: str
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Lesson:
    """A lab as an instructor sees it."""

    lab: Lab
    objectives: tuple[str, ...]
    ideas: tuple[Section, ...]
    tasks: tuple[Task, ...]
    explains: tuple[Section, ...]
    questions: tuple[Question, ...]
    taken_away: str
    figure: Figure | None
    must_do: MustDo | None
    levels: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """ "40 Horovod in PyTorch"."""
        return f"{self.lab.header.number} {self.lab.header.title}"


def read(lab: Lab, figure_title: str | None = None) -> Lesson:
    """The lesson in a lab. figure_title: the beginning of that of the figure to show, else it is chosen."""
    sections = _sections(lab)
    end = next((part.cell for part in sections if part.title == TAKE_AWAY), len(lab.cells))
    tasks = tuple(_task(lab, exercise) for exercise in lab.exercises)
    levels = {level: sum(task.level == level for task in tasks) for level in LEVELS}
    return Lesson(
        lab=lab,
        objectives=_objectives(lab),
        ideas=tuple(part for part in sections if part.cell < end and _is_idea(part)),
        tasks=tasks,
        explains=tuple(_explains(lab)),
        questions=tuple(_questions(sections)),
        taken_away=next((plain(part.text) for part in sections if part.title == TAKE_AWAY), ""),
        figure=figures.choose(lab, end, figure_title),
        must_do=_must_do(lab, end),
        levels=levels,
    )


def first_sentences(text: str, count: int = 2) -> str:
    """The first sentences of the first paragraph of prose; "" where there is none."""
    for paragraph in plain(text).split("\n\n"):
        joined = " ".join(paragraph.split())
        if joined and not joined.startswith(("|", "-", "*", "1.", "<", "$$", "!", "```", "#")):
            sentences = re.split(r"(?<=[.?!:])\s+(?=[A-Z`*$])", joined)[:count]
            # A sentence that leads to a table or to code says nothing without it.
            if len(sentences) > 1 and sentences[-1].endswith(":"):
                sentences.pop()
            return " ".join(sentences)
    return ""


def plain(text: str) -> str:
    """The prose without what is folded."""
    return _DETAILS.sub("", text).strip()


def _sections(lab: Lab) -> list[Section]:
    """The prose by its headings; what stands above the first one belongs to none."""
    parts: list[list] = []
    for position, cell in enumerate(lab.cells):
        if cell.kind != "markdown" or position == 0:
            continue
        headings = list(_HEADING.finditer(cell.source))
        before = cell.source[: headings[0].start()] if headings else cell.source
        if parts and before.strip():
            parts[-1][1] += "\n\n" + before.strip()
        ends = [*(heading.start() for heading in headings), len(cell.source)][1:]
        for heading, end in zip(headings, ends, strict=True):
            parts.append([heading[2].strip(), cell.source[heading.end() : end].strip(), position])
    return [Section(*part) for part in parts]


def _objectives(lab: Lab) -> tuple[str, ...]:
    paragraph = next(part for part in lab.cells[0].source.split("\n\n") if "**You will be able to**" in part)
    text = " ".join(paragraph.split()).replace("**You will be able to**", "")
    _, *parts = _ABLE.split(text)
    points = []
    for remark, words in zip(parts[::2], parts[1::2], strict=True):
        point = re.sub(r",? and$", "", words.strip().rstrip(",.;"))
        points.append(f"{point} ({remark})" if remark else point)
    return tuple(points)


def _is_idea(part: Section) -> bool:
    told = first_sentences(part.text)
    kept_out = ("Exercise ", "Predict", "Measure", "Hint", "For those who have time", "Set-up")
    return bool(told) and not part.title.startswith(kept_out) and not told.startswith("**Explain")


def _task(lab: Lab, exercise) -> Task:
    text = lab.cells[exercise.cell].source
    _, _, below = text.partition(f"### Exercise {exercise.number} · {exercise.title}")
    task = plain(_HEADING.split(below)[0])
    level = _LEVEL.search(task)
    answers = tuple(lab.cells[position].source for position in exercise.answers)
    return Task(
        number=exercise.number,
        title=exercise.title,
        level=level[1] if level else "",
        text=_LEVEL.sub("", task).strip(),
        hints=tuple(exercise.hints),
        answers=answers,
    )


def _explains(lab: Lab) -> list[Section]:
    """Each Explain, up to the next heading, by the heading above it."""
    explains = []
    heading = lab.header.title
    for position, cell in enumerate(lab.cells):
        if cell.kind != "markdown":
            continue
        for piece in re.split(r"(?m)^(?=#{2,3} )", cell.source):
            title = _HEADING.match(piece)
            heading = title[2].strip() if title else heading
            for text in piece.split("**Explain.**")[1:]:
                explains.append(Section(heading, plain(text), position))
    return explains


def _questions(sections: list[Section]) -> list[Question]:
    """Every folded answer, and the paragraph above it that asks."""
    questions = []
    for part in sections:
        for fold in _DETAILS.finditer(part.text):
            title = fold[1].strip()
            if title.startswith("Hint "):
                continue
            is_answer = title.startswith("Answer")
            if not is_answer and not title.endswith("?"):
                continue
            above = plain(part.text[: fold.start()]).split("\n\n")
            asked = above[-1].strip() if is_answer else title
            asked = asked.replace("**Explain.**", "").strip()
            questions.append(Question(part.title, asked, fold[2].strip()))
    return questions


def _must_do(lab: Lab, end: int) -> MustDo | None:
    if not lab.exercises:
        return None
    uses = _Uses(lab, end)
    for cell in lab.cells:
        said = _SAID.search(" ".join(cell.source.split())) if cell.kind == "markdown" else None
        if said:
            number = said[1] or said[2]
            return MustDo(number, "the lab names it for the PPoPP hands-on", uses.needed_by(number))
    counts = {exercise.number: uses.cells_after(exercise.number) for exercise in lab.exercises}
    number = max(counts, key=lambda candidate: counts[candidate])
    if not counts[number]:
        number = lab.exercises[0].number
        return MustDo(number, "it comes first, and no other one stands on it", ())
    cells = "cell" if counts[number] == 1 else "cells"
    return MustDo(
        number,
        f"{counts[number]} later {cells} of the lab use what it builds, more than for any other",
        uses.needed_by(number),
    )


class _Uses:
    """Which cell uses what another one defines, directly or by way of a third."""

    def __init__(self, lab: Lab, end: int):
        self.lab = lab
        self.end = end
        self.owner: dict[str, int] = {}  # the last cell so far that defines a name
        self.needs: dict[int, set[int]] = {}
        for position, cell in enumerate(lab.cells):
            if cell.kind != "code":
                continue
            # The solved text: what an answer calls it needs, too.
            tree = ast.parse(lab.cells[position].source)
            names = _read_names(tree)
            for exercise in lab.exercises:
                if exercise.check == position:  # what the function that tries the answer takes by name
                    names |= set(tries.parameters(lab).get(exercise.number, ()))
            direct = {self.owner[name] for name in names if name in self.owner}
            self.needs[position] = direct.union(*(self.needs[other] for other in direct))
            self.owner |= dict.fromkeys(_bound_names(tree), position)

    def cells_after(self, number: str) -> int:
        """How many cells between the exercise's check and the lab's end need its answer."""
        exercise = self._exercise(number)
        later = range(exercise.check + 1, self.end)
        return sum(bool(set(exercise.answers) & self.needs.get(position, set())) for position in later)

    def needed_by(self, number: str) -> tuple[str, ...]:
        """The other exercises whose answers this one and its check need."""
        exercise = self._exercise(number)
        positions = [*exercise.answers, exercise.check]
        needed = set().union(*(self.needs[position] for position in positions))
        return tuple(
            other.number
            for other in self.lab.exercises
            if other.number != number and needed & set(other.answers)
        )

    def _exercise(self, number: str):
        return next(exercise for exercise in self.lab.exercises if exercise.number == number)


def _read_names(tree: ast.AST) -> set[str]:
    return {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _bound_names(tree: ast.Module) -> set[str]:
    """The names that stand at the top level of a cell."""
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)
            }
    return names
