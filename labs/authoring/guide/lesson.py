"""What the guide tells of one lab: all of it is read from the lab, its wrong answers, its records
and, where there was one, from its run in a tour.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from labkit.errors import LabError

from authoring import batch, links
from authoring.guide import expected, mistakes
from authoring.source import ABLE, LEVELS, Lab
from authoring.wrong_answers import Wrong

TAKE_AWAY = "What you take away"
_NO_IDEAS = ("Exercise ", "Predict", "Measure", "Hint", "Set-up", "Going further", "Further read")
_EXPLAIN = "**Explain.**"
_HEADING = re.compile(r"^#{2,3} ", re.MULTILINE)
_NUMBERED = re.compile(r"^#+ +(?:\d+\. )?")  # "### 1. Sums"
_DETAILS = re.compile(r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_LEVEL = re.compile(r"\*\((" + "|".join(LEVELS) + r")\)\*")
# "(1) add, (2, for those who have time) scale, and (3) stop" becomes a list.
_ABLE = re.compile(r"[,;]?(?: and)? \((\d+)(?:, ([^)]*))?\) ")
_CAPTIONED = re.compile(
    r"!\[(?P<alt>[^\]]*)\]\((?P<name>\d\d_\w+\.svg)\)\s+\*(?P<caption>[^*].*?)\*$",
    re.DOTALL | re.MULTILINE,
)


class Section(NamedTuple):
    """A heading of a lab and all prose below it, up to the next one. cell: where it begins."""

    title: str
    text: str
    cell: int


class Question(NamedTuple):
    """A question of the lab, and the answer that the lab folds away below it."""

    where: str
    question: str
    answer: str


class Figure(NamedTuple):
    """A picture as a data: address, and what is said below it."""

    address: str
    alt: str
    caption: str


class Task(NamedTuple):
    """One exercise: its text without hints, its hints (title, text), the cells of its answer."""

    number: str
    title: str
    level: str
    text: str
    hints: list[tuple[str, str]]
    answers: list[str]
    mistakes: list[Wrong]


@dataclass(frozen=True)
class Lesson:
    """A lab as an instructor sees it.

    why: the paragraphs above objectives, which are a list in Markdown. must_do: the exercise to do
    when there is time for one, then the others whose answers it needs. plot: of a tour's run.
    """

    lab: Lab
    why: str
    objectives: str
    concepts: list[Figure]
    ideas: list[Section]
    tasks: list[Task]
    explains: list[tuple[str, str]]
    questions: list[Question]
    taken_away: str
    must_do: list[str]
    plot: Figure | None
    expected: list[expected.Expected]
    job: batch.Job | None

    @property
    def name(self) -> str:
        """ "40 Horovod in PyTorch"."""
        return f"{self.lab.header.number} {self.lab.header.title}"

    def node_minutes(self, learners: int) -> int:
        """At most so many for a class in which everybody submits the job once."""
        return self.job.nodes * self.job.minutes * learners if self.job else 0


def read(lab: Lab, content: Mapping, report: Path) -> Lesson:
    """The lesson in a lab.

    content: of timetables.yaml. report: a tour's folder, which need not be there. Raises LabError
    where the lab lacks the exercise or the plot that timetables.yaml names.
    """
    root = lab.path.parents[1]
    number = lab.header.number
    must_do = exercises(content["must_do"].get(number, [each.number for each in lab.exercises[:1]]))
    missing = set(must_do) - {exercise.number for exercise in lab.exercises}
    if missing:
        raise LabError(f"Lab {lab.stem} has no exercise {min(missing)!r} to be the one to do.")
    sections = _sections(lab)
    end = next((part.cell for part in sections if part.title == TAKE_AWAY), len(lab.cells))
    head = lab.cells[0].source.split("\n\n")
    able = next(place for place, part in enumerate(head) if ABLE.search(part))
    wrong = mistakes.read(root, lab.stem)
    return Lesson(
        lab=lab,
        why=plain("\n\n".join(head[1:able])),
        objectives=_ABLE.sub(r"\n\1. \2 ", plain(" ".join(head[able].split()))),
        concepts=list(_concepts(lab, root)),
        ideas=[part for part in sections if part.cell < end and _is_idea(part)],
        tasks=[_task(lab, exercise, wrong) for exercise in lab.exercises],
        explains=[
            (part.title, plain(text)) for part in sections for text in part.text.split(_EXPLAIN)[1:]
        ],
        questions=list(_questions(sections)),
        taken_away=next((plain(part.text) for part in sections if part.title == TAKE_AWAY), ""),
        must_do=must_do,
        plot=_plot(lab, report / "notebooks", content["figures"].get(number, ""), end),
        expected=expected.read(root, lab.stem),
        job=batch.job(lab.header),
    )


def exercises(numbers: object) -> list[str]:
    """What timetables.yaml names as exercises. LabError unless it is a list of texts: YAML reads
    40.1 without quotes as a number."""
    if not isinstance(numbers, list) or not all(isinstance(number, str) for number in numbers):
        raise LabError(
            f'exercises are a list, each in quotes, such as ["40.1", "40.2"]; this is {numbers}.'
        )
    return numbers


def first_sentences(text: str, count: int = 3) -> str:
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
    for position, cell in enumerate(lab.cells[1:], 1):
        if cell.kind != "markdown":
            continue
        above, *rest = re.split(rf"(?={_HEADING.pattern})", cell.source, flags=re.MULTILINE)
        if parts and above.strip():
            parts[-1][1] += f"\n\n{above.strip()}"
        for piece in rest:
            title, _, text = piece.partition("\n")
            parts.append([_NUMBERED.sub("", title).strip(), text.strip(), position])
    return [Section(*part) for part in parts]


def _concepts(lab: Lab, root: Path) -> Iterator[Figure]:
    """The figures that are drawn for the lab, with their captions."""
    for cell in lab.cells:
        for found in _CAPTIONED.finditer(cell.source if cell.kind == "markdown" else ""):
            picture = base64.b64encode((root / links.FIGURES / found["name"]).read_bytes())
            address = f"data:image/svg+xml;base64,{picture.decode()}"
            yield Figure(address, found["alt"], links.plain(found["caption"]))


def _plot(lab: Lab, notebooks: Path, words: str, end: int) -> Figure | None:
    """The plot to show, as a tour has drawn it, and what the lab says of it.

    It is that of the cell with these words; without words, the last one above cell `end`: labs end
    with the measurement that they were made for.
    """
    chosen = [place for place, cell in enumerate(lab.cells) if words in cell.source]
    if words and not chosen:
        raise LabError(f"Lab {lab.stem} has no figure {words!r}: no cell has these words.")
    try:
        cells = json.loads((notebooks / f"{lab.stem}.ipynb").read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return None
    by_id = {cell["id"]: cell.get("outputs", []) for cell in cells}
    for place in chosen if words else reversed(chosen[:end]):
        outputs = [output.get("data", {}) for output in by_id.get(f"cell-{place + 1:02d}", [])]
        drawn = ["".join(data["image/png"]) for data in outputs if "image/png" in data]
        if drawn:
            address = f"data:image/png;base64,{drawn[-1]}".replace("\n", "")
            said = [cell.source.partition(_EXPLAIN)[2] for cell in lab.cells[place:]]
            first = _HEADING.split(next(filter(None, said), ""))[0]
            title = _TITLE.search(lab.cells[place].source)
            return Figure(address, title[1] if title else "Plot", plain(first))
    return None


def _is_idea(part: Section) -> bool:
    told = first_sentences(part.text)
    return bool(told) and not part.title.startswith(_NO_IDEAS) and not told.startswith(_EXPLAIN)


def _task(lab: Lab, exercise, wrong: list[Wrong]) -> Task:
    text = lab.cells[exercise.cell].source
    _, _, below = text.partition(f"### Exercise {exercise.number} · {exercise.title}")
    task = plain(_HEADING.split(below)[0])
    level = _LEVEL.search(task)
    return Task(
        number=exercise.number,
        title=exercise.title,
        level=level[1] if level else "",
        text=_LEVEL.sub("", task).strip(),
        hints=exercise.hints,
        answers=[lab.cells[position].source for position in exercise.answers],
        mistakes=[answer for answer in wrong if answer.exercise == exercise.number],
    )


def _questions(sections: list[Section]) -> Iterator[Question]:
    """Every folded answer, and the paragraph above it that asks."""
    for part in sections:
        for fold in _DETAILS.finditer(part.text):
            title = fold[1].strip()
            is_answer = title.startswith("Answer")
            if title.startswith("Hint ") or not (is_answer or title.endswith("?")):
                continue
            above = plain(part.text[: fold.start()]).split("\n\n")[-1]
            asked = above.replace(_EXPLAIN, "").strip() if is_answer else title
            yield Question(part.title, links.plain(asked), links.plain(fold[2]).strip())
