"""The guide and the slides: all is in them, they load nothing, and they are the same each time."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from pathlib import Path

import pytest
from authoring import generate
from authoring.guide import command, page, reveal, slides, timetable
from labkit import labfile, paths

from tests import browser
from tests.authoring.guide import guide_lab
from tests.authoring.guide.guide_lab import STEM
from tests.figures.preparation import commands

EMPTY = {"figures": {}, "must_do": {}}
PNG = base64.b64encode(b"a picture").decode()
# What a browser would fetch; a link that somebody may follow is none of it.
LOADS = re.compile(
    r"""<(?!a )\w+ [^>]*(?:src|href)=["'](?!data:)[^"']*|@import[^;]*|url\(["']?http[^)]*"""
)


@pytest.fixture
def guided(checkout):
    guide_lab.put(checkout)
    return checkout


@pytest.fixture
def package(tmp_path) -> Path:
    """A package as the pinned one, with very little in it."""
    wheel = tmp_path / "sphinx_revealjs-3.2.1-py3-none-any.whl"
    texts = {
        "dist/reset.css": "a {}",
        "dist/reveal.css": ".reveal {}",
        "dist/theme/white.css": "@import url(./fonts/f.css);\nb {}",
        "dist/reveal.js": "var Reveal = {initialize() {}};",
        "plugin/notes/notes.js": "var RevealNotes = {};",
        "LICENSE": "Copyright (C) somebody",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in texts.items():
            archive.writestr(f"sphinx_revealjs/_static/revealjs/{name}", text)
    return wheel


def run(guided, *arguments: str):
    """The guide of the small checkout, with its own timetables."""
    ended = guided.python("-m", "authoring", "guide", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.mark.slow
def test_a_guide_holds_what_the_kit_knows_and_loads_nothing(guided, package):
    ended = run(guided, "--learners", "12", "--reveal", str(package))
    assert "guide/index.html: 1 labs, 1 timetables, 0 figures." in ended.stdout
    assert "`make tour` draws them" in ended.stdout
    text = (guided.root / "guide/index.html").read_text()
    for part in (
        "version 9.9.9",
        '<td class="n">10:00</td><td class="n">30 min</td>',
        "Why one does it.",
        "<b>30</b> minutes stated",
        "91.1 Add",
        "<code>make solve LAB=91 EX=91.1</code>",
        "<p>Type <code>make hub</code>.</p>",
        "takes &lt;away&gt;",
        "expected 3, got -1",
        "What is a sum? One <em>after</em> the other.",
        "return a + b",
        "Is it long for more numbers?",
        "Yes: it grows.",
        "Sums of … grow",
        "make tour LABS=91",
        "A CPU, 2 cores",
        "revision aaaabbbbcccc",
        "at most <b>360 node-minutes</b>",
        'class="math"',
        "Sums add.",
    ):
        assert part in text, part
    assert "<script" not in text
    assert LOADS.findall(text) == []
    deck = (guided.root / f"guide/slides/{STEM}.slides.html").read_text()
    assert LOADS.findall(deck) == []
    assert "@import" not in deck
    assert "var Reveal = {" in deck
    assert "Copyright (C) somebody" in deck
    first = {path: path.read_bytes() for path in guided.root.glob("guide/**/*.html")}
    run(guided, "--learners", "12", "--reveal", str(package))
    assert first == {path: path.read_bytes() for path in guided.root.glob("guide/**/*.html")}


@pytest.mark.parametrize(
    ("small", "outputs", "picture"),
    [
        (False, [{"data": {"image/png": PNG}}], PNG),
        (True, [{"data": {"image/png": [PNG, "\n"]}}], PNG),
        (False, [{"text": "no picture"}], None),
    ],
)
def test_a_tour_gives_figures_and_seconds(guided, tmp_path, small, outputs, picture):
    (tmp_path / "notebooks").mkdir()
    ran = {"small": small, "labs": [{"stem": STEM, "status": "ran", "seconds": 12.5}]}
    (tmp_path / "tour.json").write_text(json.dumps(ran))
    (before,) = command.read_sheets(guided.root, EMPTY, tmp_path)
    cells = [
        {"id": f"cell-{before.lesson.figure.cell + place:02d}", "outputs": outputs}
        for place in (1, 9)
    ]
    (tmp_path / f"notebooks/{STEM}.ipynb").write_text(json.dumps({"cells": cells}))
    (known,) = command.read_sheets(guided.root, EMPTY, tmp_path)
    assert (before.picture, known.picture) == (None, picture)
    assert known.solved_seconds == (None if small else 12.5), "a small run tells no time"


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> tuple[list[page.Sheet], Path]:
    """The sheets of all labs, and a folder with their guide and the slides of lab 21."""
    out = tmp_path_factory.mktemp("guide")
    root = paths.root()
    content = timetable.read()
    sheets = command.read_sheets(root, content, out)
    lessons = {sheet.lesson.lab.header.number: sheet.lesson for sheet in sheets}
    page.write(
        out / "index.html",
        sheets,
        timetable.plan(content, lessons),
        command.preparation(root),
        learners=40,
        version="1",
        small=False,
    )
    package = reveal.package(root)
    lab_21 = next(sheet for sheet in sheets if sheet.lesson.lab.header.number == "21")
    slides.write(out / "21.slides.html", lab_21, reveal.read(package) if package else None)
    return sheets, out


@pytest.mark.slow
def test_every_lab_has_its_page(real):
    sheets, out = real
    text = (out / "index.html").read_text()
    assert [sheet.lesson.lab.stem for sheet in sheets] == labfile.stems()
    assert LOADS.findall(text) == []
    for sheet in sheets:
        stem = sheet.lesson.lab.stem
        assert f'id="lab{stem[:2]}"' in text
        assert sheet.lesson.objectives, stem
        assert sheet.lesson.taken_away, stem
        if sheet.lesson.tasks:
            assert sheet.lesson.must_do, stem
            assert {mistake.exercise for mistake in sheet.mistakes} == {
                task.number for task in sheet.lesson.tasks
            }
        folded = re.findall(r"<summary>Answer", generate.load(stem).text)
        answers = [asked for asked in sheet.lesson.questions if asked.answer and asked.question]
        assert len(answers) >= len(folded), stem


@pytest.mark.slow
def test_a_browser_loads_the_files_alone(real):
    _, out = real
    requests: list[str] = []
    errors: list[str] = []
    with browser.started() as chromium:
        window = chromium.new_page()
        window.on("request", lambda request: requests.append(request.url.split("#")[0]))
        window.on("pageerror", lambda error: errors.append(str(error)))
        for name in ("index.html", "21.slides.html"):
            window.goto(f"file://{out / name}")
        if "Reveal.initialize" in (out / "21.slides.html").read_text():
            assert window.evaluate("Reveal.getTotalSlides()") > 10
            window.keyboard.press("ArrowRight")
            assert window.evaluate("Reveal.getIndices().h") == 1
    loaded = [url for url in requests if not url.startswith("data:")]
    assert loaded == [f"file://{out / name}" for name in ("index.html", "21.slides.html")]
    assert errors == []


# --- docs/TEACHING.md, which the guide shows


def test_each_command_is_a_goal_of_the_makefile():
    goals = set(
        re.findall(r"^([a-z0-9-]+):", (paths.root() / "Makefile").read_text(), re.MULTILINE)
    )
    assert {command.split()[0] for command in commands()} == {"make"}
    assert {command.split()[1] for command in commands()} <= goals


def test_the_tour_is_that_of_the_first_timetable():
    half_day = timetable.read()["timetables"]["half_day"]
    labs = set(half_day["beforehand"])
    for slot in half_day["days"][0]["slots"]:
        labs |= {slot["lab"]} if "lab" in slot else set(slot.get("tells", ()))
    assert f"make tour LABS={','.join(sorted(labs))}" in commands()
