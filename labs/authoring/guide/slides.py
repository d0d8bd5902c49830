"""Slides of a lab for reveal.js, with all that they need inside the page.

What an instructor says stands in the speaker notes (the key S shows them).
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import NamedTuple

from authoring import offline
from authoring.guide.lesson import plain
from authoring.guide.page import Sheet
from authoring.guide.reveal import Reveal

_ROOM = 620  # characters of prose that fit on a slide, beside its heading
_NOTED = 4  # sentences about the figure, and mistakes of an exercise, in the notes


class Slide(NamedTuple):
    """A slide in Markdown: what it shows, what is said to it, and what the next key press shows."""

    shown: str
    notes: str = ""
    answer: str = ""


def write(file: Path, sheet: Sheet, reveal: Reveal | None) -> None:
    """Write the slides of a lab. reveal: None where reveal.js could not be had; the slides then
    need none."""
    template = offline.template(Path(__file__).with_name("slides.html.j2"))
    text = template.render(title=sheet.lesson.name, slides=slides(sheet), reveal=reveal)
    file.write_text(text, encoding="utf-8")


def slides(sheet: Sheet) -> list[Slide]:
    """The slides of a lab, in order."""
    lesson = sheet.lesson
    head = lesson.lab.header
    facts = f"{head.minutes} minutes · ranks: {head.ranks} · needs {', '.join(head.needs)}"
    before = f" · before: {', '.join(head.before)}" if head.before else ""
    points = "\n".join(f"{number}. {point}" for number, point in enumerate(lesson.objectives, 1))
    deck = [
        Slide(f"# {lesson.name}\n\n{head.summary}\n\n<p class='note'>{facts}{before}</p>"),
        Slide(f"## You will be able to\n\n{points}"),
    ]
    for idea in lesson.ideas:
        shown, rest = _fitting(idea.text)
        deck.append(Slide(f"## {re.sub(r'^[0-9]+. ', '', idea.title)}\n\n{shown}", rest))
    if lesson.figure:
        deck.append(_figure(sheet))
    deck += [_task(sheet, task) for task in lesson.tasks]
    for number, asked in enumerate(lesson.questions, 1):
        deck.append(Slide(f"## Question {number}\n\n{asked.question}", asked.answer, asked.answer))
    return [*deck, Slide(f"## What you take away\n\n{lesson.taken_away}")]


def _figure(sheet: Sheet) -> Slide:
    figure = sheet.lesson.figure
    title = figure.title or figure.heading
    if sheet.picture:
        data = f"data:image/png;base64,{sheet.picture}"
        shown = f'<img class="shown" alt="{html.escape(title)}" src="{data}">'
        return Slide(shown, sheet.lesson.figure_says(_NOTED))
    todo = (
        f"Not drawn here yet: `make tour LABS={sheet.lesson.lab.header.number}`, then `make guide`."
    )
    return Slide(f"## {title}\n\n<p class='note'>{offline.to_html(todo)}</p>")


def _task(sheet: Sheet, task) -> Slide:
    shown, rest = _fitting(task.text)
    level = f"\n\n<p class='note'>{task.level}</p>" if task.level else ""
    must = " · the one to do" if task.number in sheet.lesson.must_do[:1] else ""
    mistakes = [mistake for mistake in sheet.mistakes if mistake.exercise == task.number][:_NOTED]
    often = "\n".join(f"- {html.escape(mistake.mistake)}" for mistake in mistakes)
    notes = f"{rest}\n\nMistakes to expect:\n\n{often}" if often else rest
    return Slide(f"## {task.number} {task.title}{must}\n\n{shown}{level}", notes.strip())


def _fitting(text: str) -> tuple[str, str]:
    """(the first paragraphs, as far as a slide has room; the others, for the notes)."""
    paragraphs = [part for part in plain(text).split("\n\n") if part.strip()]
    paragraphs = [part for part in paragraphs if not part.lstrip().startswith("**Explain.**")]
    shown: list[str] = []
    for paragraph in paragraphs:
        if shown and sum(map(len, shown)) + len(paragraph) > _ROOM:
            break
        shown.append(paragraph)
    return "\n\n".join(shown), "\n\n".join(paragraphs[len(shown) :])
