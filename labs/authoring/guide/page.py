"""The guide as one page: preparation, timetables, a page for each lab. It loads nothing from anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from authoring import offline
from authoring.guide import figures
from authoring.guide.cost import Cost
from authoring.guide.lesson import Lesson, first_sentences
from authoring.guide.results import Expected
from authoring.guide.timetable import Timetable
from authoring.wrong_answers import Wrong

_SHOWN = 4  # mistakes of an exercise that are seen at once; the others unfold


@dataclass(frozen=True)
class Sheet:
    """All that the guide knows of one lab. solved_seconds: of a tour at full size, or None."""

    lesson: Lesson
    mistakes: Sequence[Wrong]
    expected: Sequence[Expected]
    cost: Cost | None
    picture: str | None
    solved_seconds: float | None


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
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["prose"] = lambda text: _own_links(offline.to_html(text))
    environment.filters["line"] = _line
    by_number = {sheet.lesson.lab.header.number: sheet for sheet in sheets}
    page = environment.get_template("guide.html.j2").render(
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
        tasks.append({"task": task, "often": own[:_SHOWN], "others": own[_SHOWN:], "help_first": help_first})
    return {
        "sheet": sheet,
        "lesson": lesson,
        "head": lesson.lab.header,
        "stem": lesson.lab.stem,
        "tasks": tasks,
        "talk": [(_closed(idea.title), first_sentences(idea.text)) for idea in lesson.ideas],
        "figure_says": _figure_says(lesson),
        "must_do": next((task for task in lesson.tasks if task.number in lesson.must_do[:1]), None),
        "node_minutes": sheet.cost.node_minutes(learners) if sheet.cost else None,
    }


def _asked(title: str) -> str:
    """The question in a hint's title: "Hint 1: who does what?" """
    words = title.partition(": ")[2]
    return _closed(words[:1].upper() + words[1:], ":")


def _closed(words: str, mark: str = ".") -> str:
    """The words with a mark at their end, where they have none."""
    return words if not words or words.endswith(("?", ".", "!")) else words + mark


def _figure_says(lesson: Lesson) -> str:
    """What the lab says about its figure: the beginning of the Explain that follows it."""
    if lesson.figure is None:
        return ""
    after = [part for part in lesson.explains if part.cell > lesson.figure.cell]
    return first_sentences(after[0].text, 3) if after else ""


def _timetable(table: Timetable, sheets: Mapping[str, Sheet], learners: int) -> dict:
    needs: dict[str, None] = {}
    node_minutes = 0.0
    for number in table.worked():
        needs |= dict.fromkeys(sheets[number].lesson.lab.header.needs)
        cost = sheets[number].cost
        node_minutes += cost.node_minutes(learners) if cost else 0
    labs = sorted(set(table.beforehand).union(*(slot.labs for day in table.days for slot in day)))
    return {"table": table, "needs": list(needs), "node_minutes": node_minutes, "labs": labs}


def _line(text: str) -> str:
    """Prose of one line, without the paragraph around it."""
    return re.sub(r"^<p>(.*)</p>\s*$", r"\1", _own_links(offline.to_html(text)).strip(), flags=re.DOTALL)


def _own_links(page: str) -> str:
    """Links between labs lead to the guide's own pages; those to other files of the kit become words."""

    def lead(match: re.Match) -> str:
        target, words = match[1], match[2]
        lab = re.fullmatch(r"(?:\.\./\w+/)?(\d\d)_\w+\.(?:ipynb|py)(?:#.*)?", target)
        if lab:
            return f'<a href="#lab{lab[1]}">{words}</a>'
        return match[0] if re.match(r"https?://|#", target) else words

    return re.sub(r'<a href="([^"]*)"[^>]*>(.*?)</a>', lead, page, flags=re.DOTALL)


def picture_of(lesson: Lesson, report: Path | None) -> str | None:
    """The lesson's figure as a tour has drawn it (PNG, in base64), or None."""
    if report is None or lesson.figure is None:
        return None
    return figures.picture(report / "notebooks" / f"{lesson.lab.stem}.ipynb", lesson.figure.cell)
