"""The guide as one page: preparation, timetables, a page for each lab. It loads nothing from
anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from authoring import offline
from authoring.batch import Job
from authoring.guide.lesson import Lesson, first_sentences
from authoring.guide.results import Expected
from authoring.guide.timetable import Timetable
from authoring.wrong_answers import Wrong

_SHOWN = 4  # mistakes of an exercise that are seen at once; the others unfold


@dataclass(frozen=True)
class Sheet:
    """All that the guide knows of one lab.

    job: of its batch script. picture: of its figure, PNG in base64. solved_seconds: of a tour at
    full size.
    """

    lesson: Lesson
    mistakes: Sequence[Wrong]
    expected: Sequence[Expected]
    job: Job | None
    picture: str | None
    solved_seconds: float | None

    def node_minutes(self, learners: int) -> int:
        """At most so many for a class in which everybody submits the job once."""
        return self.job.nodes * self.job.minutes * learners if self.job else 0


def write(
    file: Path,
    sheets: Sequence[Sheet],
    tables: Sequence[Timetable],
    preparation: str,
    *,
    learners: int,
    version: str,
    small: bool,
) -> None:
    """Write the guide.

    preparation: what to do before the class and after it, in Markdown. learners: of the class that
    node-minutes are computed for. small: of small runs.
    """
    by_number = {sheet.lesson.lab.header.number: sheet for sheet in sheets}
    template = offline.template(
        file=Path(__file__).with_name("guide.html.j2"), prose=_prose, line=_line
    )
    page = template.render(
        sheets=[_sheet(sheet, learners) for sheet in sheets],
        timetables=[_timetable(table, by_number, learners) for table in tables],
        preparation=preparation,
        learners=learners,
        version=version,
        small=small,
    )
    file.write_text(page, encoding="utf-8")


def _sheet(sheet: Sheet, learners: int) -> dict:
    lesson = sheet.lesson
    tasks = []
    for task in lesson.tasks:
        own = [mistake for mistake in sheet.mistakes if mistake.exercise == task.number]
        first = task.hints[0] if task.hints else ("", "")
        help_first = f"{_asked(first[0])} {first[1]}".strip()
        tasks.append(
            {"task": task, "often": own[:_SHOWN], "others": own[_SHOWN:], "help_first": help_first}
        )
    return {
        "sheet": sheet,
        "lesson": lesson,
        "head": lesson.lab.header,
        "stem": lesson.lab.stem,
        "tasks": tasks,
        "talk": [(_closed(idea.title), first_sentences(idea.text)) for idea in lesson.ideas],
        "figure_says": lesson.figure_says(3),
        "must_do": next((task for task in lesson.tasks if task.number in lesson.must_do[:1]), None),
        "node_minutes": sheet.node_minutes(learners),
    }


def _asked(title: str) -> str:
    """The question in a hint's title: "Hint 1: who does what?" """
    words = title.partition(": ")[2]
    return _closed(words[:1].upper() + words[1:], ":")


def _closed(words: str, mark: str = ".") -> str:
    """The words with a mark at their end, where they have none."""
    return words if not words or words.endswith(("?", ".", "!")) else words + mark


def _timetable(table: Timetable, sheets: Mapping[str, Sheet], learners: int) -> dict:
    worked = [sheets[number] for number in table.worked()]
    needs = dict.fromkeys(need for sheet in worked for need in sheet.lesson.lab.header.needs)
    labs = sorted(set(table.beforehand).union(*(slot.labs for day in table.days for slot in day)))
    node_minutes = sum(sheet.node_minutes(learners) for sheet in worked)
    return {"table": table, "needs": list(needs), "node_minutes": node_minutes, "labs": labs}


def _line(text: str) -> str:
    """Prose of one line, without the paragraph around it."""
    return re.sub(r"^<p>(.*)</p>\s*$", r"\1", _prose(text).strip(), flags=re.DOTALL)


def _prose(text: str) -> str:
    """Prose. Links between labs lead to the guide's own pages; those to other files become
    words."""

    def lead(match: re.Match) -> str:
        target, words = match[1], match[2]
        lab = re.fullmatch(r"(?:\.\./\w+/)?(\d\d)_\w+\.(?:ipynb|py)(?:#.*)?", target)
        if lab:
            return f'<a href="#lab{lab[1]}">{words}</a>'
        return match[0] if re.match(r"https?://|#", target) else words

    return re.sub(r'<a href="([^"]*)"[^>]*>(.*?)</a>', lead, offline.to_html(text), flags=re.DOTALL)
