"""What a lab's own text tells an instructor: aim, ideas, exercises, questions with answers, what
stays.

Nothing is written down twice: all of it is read from the lab's source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.errors import LabError

from authoring import links
from authoring.guide import figures
from authoring.guide.figures import Figure
from authoring.source import ABLE, LEVELS, Lab

TAKE_AWAY = "What you take away"
_HEADING = re.compile(r"^(#{2,3}) +(.+)$", re.MULTILINE)
_DETAILS = re.compile(r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
_LEVEL = re.compile(r"\*\((" + "|".join(LEVELS) + r")\)\*")
_ABLE = re.compile(r"\(\d+(?:, ([^)]*))?\)\s*")  # (2), or (2, for those who have time)


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
class Lesson:
    """A lab as an instructor sees it.

    must_do: the exercise to do when there is time for one, then the others whose answers it needs.
    """

    lab: Lab
    objectives: tuple[str, ...]
    ideas: tuple[Section, ...]
    tasks: tuple[Task, ...]
    explains: tuple[Section, ...]
    questions: tuple[Question, ...]
    taken_away: str
    figure: Figure | None
    must_do: tuple[str, ...]
    levels: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """ "40 Horovod in PyTorch"."""
        return f"{self.lab.header.number} {self.lab.header.title}"

    def figure_says(self, sentences: int) -> str:
        """What the lab says about its figure: the beginning of the Explain that follows it."""
        after = [
            part.text for part in self.explains if self.figure and part.cell > self.figure.cell
        ]
        return first_sentences(after[0], sentences) if after else ""


def read(lab: Lab, figure_words: str = "", must_do: Sequence[str] = ()) -> Lesson:
    """The lesson in a lab.

    figure_words: of the call that draws the figure to show, else it is chosen. must_do: the
    exercise to do when there is time for one, else the first one, and those that it needs. Raises
    LabError where the lab has none of these.
    """
    known = [exercise.number for exercise in lab.exercises]
    for number in must_do:
        if number not in known:
            raise LabError(f"Lab {lab.stem} has no exercise {number!r} to be the one to do.")
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
        figure=figures.choose(lab, end, figure_words),
        must_do=tuple(must_do or known[:1]),
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
    """The prose without what is folded, links and figures."""
    return links.plain(_DETAILS.sub("", text)).strip()


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
    paragraph = next(part for part in lab.cells[0].source.split("\n\n") if ABLE.search(part))
    text = ABLE.sub("", links.plain(" ".join(paragraph.split())))
    _, *parts = _ABLE.split(text)
    points = []
    for remark, words in zip(parts[::2], parts[1::2], strict=True):
        point = re.sub(r",? and$", "", words.strip().rstrip(",.;"))
        points.append(f"{point} ({remark})" if remark else point)
    return tuple(points)


def _is_idea(part: Section) -> bool:
    told = first_sentences(part.text)
    kept_out = ("Exercise ", "Predict", "Measure", "Hint", "Set-up")
    kept_out += ("Going further", "Further reading")
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
            answer = links.plain(fold[2]).strip()
            questions.append(Question(part.title, links.plain(asked), answer))
    return questions
