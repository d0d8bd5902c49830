"""Slides of a lab by nbconvert's exporter for reveal.js, with all that they need inside the page.

What an instructor says stands in the speaker notes (the key S shows them).
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from authoring import offline
from authoring.guide.lesson import first_sentences, plain
from authoring.guide.page import Sheet
from authoring.guide.reveal import Reveal

_ROOM = 620  # characters of prose that fit on a slide, beside its heading
_TEMPLATE = """\
{%- extends 'reveal/index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block notebook_css -%}{%- endblock -%}
{%- block html_head_css -%}
<!-- STYLES -->
{%- endblock -%}
{%- block footer_js -%}
<!-- SCRIPTS -->
{%- endblock -%}
"""
_LOOK = """
html, body, main { width: 100%; height: 100%; margin: 0; } a.anchor-link { display: none; }
.reveal { font-family: system-ui, "Liberation Sans", sans-serif; font-size: 30px; color: #22303c; }
.reveal .slides { text-align: left; }
.reveal h1, .reveal h2, .reveal h3 { color: #0b5f94; text-transform: none; line-height: 1.2; margin: 0 0 .6em;
  font-family: inherit; letter-spacing: 0; }
.reveal h1 { font-size: 1.9em; } .reveal h2 { font-size: 1.35em; } .reveal h3 { font-size: 1.1em; }
.reveal .slides .jp-Cell, .reveal .slides .jp-RenderedMarkdown { padding: 0; font-size: 1em; color: inherit;
  font-family: inherit; background: none; }
.reveal .slides p, .reveal .slides li { font-size: 1em; line-height: 1.4; margin: 0 0 .55em; }
.reveal .slides ol, .reveal .slides ul { display: block; margin: 0 0 0 1.2em; padding: 0; }
.reveal .slides table { font-size: .68em; margin: .3em auto .8em; }
.reveal .slides pre { font-size: .62em; width: 100%; margin: .3em 0; }
.reveal .slides code { font-size: .88em; } .reveal .slides pre code { font-size: 1em; }
.reveal .slides img.shown { display: block; max-height: 520px; max-width: 100%; margin: 0 auto; }
.reveal .slides .note { color: #667885; font-size: .75em; } .jp-InputPrompt { display: none; }
.reveal .slides .jp-Cell-inputWrapper, .reveal .slides .jp-InputArea { display: block; }
.jp-Collapser { display: none; }
"""
# Without reveal.js: a slide fills the window, and Page Down leads to the next one.
_PLAIN = """
html { scroll-snap-type: y proximity; } body { margin: 0; background: #e6ebef; }
.slides > section > section { background: #fff; box-sizing: border-box; min-height: 96vh; padding: 3rem 4rem;
  margin: 2vh auto; max-width: 60rem; scroll-snap-align: start; font-size: 26px; overflow-x: auto; }
aside.notes { display: none; }
"""
_START = """
Reveal.initialize({controls: true, progress: true, hash: true, slideNumber: "c/t", transition: "none",
  width: 1120, height: 700, margin: 0.06, center: false, plugins: [RevealNotes]});
const fit = (slide) => {
  for (let size = 100; slide.scrollHeight > 690 && size > 50; size -= 5) slide.style.fontSize = size + "%";
};
for (const event of ["ready", "slidechanged"]) Reveal.on(event, (moment) => fit(moment.currentSlide));
"""


def write(file: Path, sheet: Sheet, reveal: Reveal | None) -> None:
    """Write the slides of a lab. reveal: None where reveal.js could not be had; the slides then need none."""
    from jinja2 import DictLoader

    exporter = offline.exporter(
        "slides",
        extra_loaders=[DictLoader({"offline.html.j2": _TEMPLATE})],
        template_file="offline.html.j2",
        # The exporter links to these; the links are taken out below.
        reveal_url_prefix="reveal",
        reveal_theme="white",
    )
    text, _ = exporter.from_notebook_node(notebook(sheet))
    text = offline.without_comments(re.sub(r'<link [^>]*href="reveal/[^>]*>', "", text))
    # A lab's prose may hold any text, so these are put in last, and by no pattern.
    styles = f"<style>{reveal.styles}{_LOOK}</style>" if reveal else f"<style>{_LOOK}{_PLAIN}</style>"
    scripts = ""
    if reveal:
        parts = (reveal.script, reveal.notes, _START)
        scripts = f"<!--\nreveal.js\n{reveal.licence.strip()}\n-->\n"
        scripts += "\n".join(f"<script>{part}</script>" for part in parts)
    text = text.replace("<!-- STYLES -->", styles, 1).replace("<!-- SCRIPTS -->", scripts, 1)
    file.write_text(text, encoding="utf-8")


def notebook(sheet: Sheet):
    """The slides as a notebook: one cell each, and one for each slide's speaker notes."""
    from nbformat import v4

    deck = _Deck()
    lesson = sheet.lesson
    head = lesson.lab.header
    facts = f"{head.minutes} minutes · ranks: {head.ranks} · needs {', '.join(head.needs)}"
    before = f" · before: {', '.join(head.before)}" if head.before else ""
    deck.add(f"# {lesson.name}\n\n{head.summary}\n\n<p class='note'>{facts}{before}</p>", "")
    points = "\n".join(f"{number}. {point}" for number, point in enumerate(lesson.objectives, 1))
    deck.add(f"## You will be able to\n\n{points}", "")
    for idea in lesson.ideas:
        shown, rest = _fitting(idea.text)
        deck.add(f"## {_bare(idea.title)}\n\n{shown}", rest)
    _add_figure(deck, sheet)
    for task in lesson.tasks:
        shown, rest = _fitting(task.text)
        level = f"\n\n<p class='note'>{task.level}</p>" if task.level else ""
        must = " · the one to do" if task.number in lesson.must_do[:1] else ""
        mistakes = [mistake for mistake in sheet.mistakes if mistake.exercise == task.number][:4]
        often = "\n".join(f"- {html.escape(mistake.mistake)}" for mistake in mistakes)
        notes = f"{rest}\n\nMistakes to expect:\n\n{often}" if often else rest
        deck.add(f"## {task.number} {task.title}{must}\n\n{shown}{level}", notes)
    for number, asked in enumerate(lesson.questions, 1):
        deck.add(f"## Question {number}\n\n{asked.question}", f"{asked.answer}")
        deck.add_fragment(asked.answer)
    deck.add(f"## What you take away\n\n{lesson.taken_away}", "")
    made = v4.new_notebook(cells=deck.cells)
    made.metadata["title"] = lesson.name
    return made


def _add_figure(deck: _Deck, sheet: Sheet) -> None:
    lesson = sheet.lesson
    if lesson.figure is None:
        return
    title = lesson.figure.title or lesson.figure.heading
    after = [part.text for part in lesson.explains if part.cell > lesson.figure.cell]
    notes = first_sentences(after[0], 4) if after else ""
    number = lesson.lab.header.number
    if sheet.picture:
        data = f"data:image/png;base64,{sheet.picture}"
        deck.add(f'<img class="shown" alt="{html.escape(title)}" src="{data}">', notes)
    else:
        todo = f"Not drawn here yet: `make tour LABS={number}`, then `make guide`."
        deck.add(f"## {title}\n\n<p class='note'>{offline.to_html(todo)}</p>", notes)


class _Deck:
    """Cells with the metadata that nbconvert's exporter reads."""

    def __init__(self):
        self.cells = []

    def add(self, text: str, notes: str) -> None:
        """A slide, and what is said to it."""
        self._cell(text, "slide")
        if notes.strip():
            self._cell(notes, "notes")

    def add_fragment(self, text: str) -> None:
        """What the next key press shows, on the last slide."""
        self._cell(text, "fragment")

    def _cell(self, text: str, kind: str) -> None:
        from nbformat import v4

        number = f"slide-{len(self.cells) + 1:03d}"
        self.cells.append(v4.new_markdown_cell(text, id=number, metadata={"slideshow": {"slide_type": kind}}))


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


def _bare(title: str) -> str:
    """A heading without its number: "2. Who was late?" """
    return re.sub(r"^\d+\. ", "", title)
