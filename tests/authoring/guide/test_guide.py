"""The guide and the slides: all is in them, they load nothing, and they are the same each time."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from authoring import generate
from authoring.guide import expected, lesson, mistakes, timetable
from authoring.guide import main as guide
from labkit import labfile, paths
from labkit.errors import LabError

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
IN_THE_GUIDE = (
    "version 9.9.9",
    '<td class="n">10:00</td><td class="n">30 min</td>',
    "<p>Why one does it.",
    "In short.",
    "<b>30</b> minutes stated",
    '<img alt="Two numbers become one sum" src="data:image/svg+xml;base64,',
    "A sum, as <code>add</code> does it.",
    "Add them up, as lab 90 does.",
    "If there is time for one exercise of this lab: <b>91.2</b>.",
    "<code>make solve LAB=91 EX=91.1</code>",
    "<p>Type <code>make hub</code>.</p>",
    "takes &lt;away&gt;",
    "expected 3, got -1",
    "(Hint 1: what is a sum?)",
    "One <em>after</em> the other.",
    "return a + b",
    "Is it long for more numbers?",
    "Yes: it grows.",
    "make tour LABS=91",
    "A CPU, 2 cores",
    "revision aaaabbbbcccc",
    "at most <b>360 node-minutes</b>",
    'class="math"',
    "Sums add.",
)


@pytest.fixture
def guided(checkout):
    guide_lab.put(checkout)
    return checkout


def read(content=EMPTY, report=Path("none")) -> lesson.Lesson:
    return lesson.read(generate.load(STEM), content, report)


@pytest.mark.slow
def test_a_guide_holds_what_the_kit_knows_and_loads_nothing(guided):
    def made() -> dict[Path, bytes]:
        ended = guided.python("-m", "authoring", "guide", "--learners", "12", "--track", "short")
        assert ended.returncode == 0, ended.stderr
        assert "guide/index.html: 1 labs, 1 timetables, 0 plots;" in ended.stdout
        assert "`make tour` draws them" in ended.stdout
        return {path: path.read_bytes() for path in guided.root.glob("guide/**/*.html")}

    first = made()
    text = (guided.root / "guide/index.html").read_text()
    for part in IN_THE_GUIDE:
        assert part in text, part
    assert "<script" not in text
    deck = (guided.root / f"guide/slides/{STEM}.slides.html").read_text()
    assert LOADS.findall(text) == LOADS.findall(deck) == []
    assert first == made()
    ended = guided.python("-m", "authoring", "guide", "--track", "long")
    assert ended.stderr == "There is no timetable 'long'. There are short.\n"


BAR = "You should see one bar. It is short.\n\nIs it long for more numbers?"
PLOTS = [  # words of its title, cells further down, what the cell put out, the picture, its caption
    ("", 0, {"data": {"image/png": PNG}}, PNG, BAR),
    ("Sums of", 0, {"data": {"image/png": [PNG, "\n"]}}, PNG, BAR),
    ("", 0, {"text": "no picture"}, None, ""),
    ("", 3, {"data": {"image/png": PNG}}, None, ""),  # it is optional
    ("A last one", 3, {"data": {"image/png": PNG}}, PNG, ""),
]


@pytest.mark.parametrize(("words", "further", "output", "address", "caption"), PLOTS)
def test_a_tour_gives_the_plot(guided, tmp_path, words, further, output, address, caption):
    cells = generate.load(STEM).cells
    drawing = next(place for place, cell in enumerate(cells) if "plots.bars" in cell.source)
    shown = {"id": f"cell-{drawing + further + 1:02d}", "outputs": [output]}
    (tmp_path / "notebooks").mkdir()
    book = json.dumps({"cells": [{"id": "injected"}, shown]})
    (tmp_path / f"notebooks/{STEM}.ipynb").write_text(book)
    plot = read({"figures": {"91": words} if words else {}, "must_do": {}}, tmp_path).plot
    if address is None:
        assert plot is None
    else:
        assert (plot.address, plot.caption) == (f"data:image/png;base64,{address}", caption)


def test_what_timetables_yaml_names_is_in_the_lab(guided):
    assert read().must_do == ["91.1"]
    with pytest.raises(LabError, match="Lab 91_guided has no exercise '91.9'"):
        read({"figures": {}, "must_do": {"91": ["91.9"]}})
    with pytest.raises(LabError, match=r'such as \["40.1", "40.2"\]; this is \[91.1\]'):
        read({"figures": {}, "must_do": {"91": [91.1]}})
    with pytest.raises(LabError, match="no figure 'None of them'"):
        read({"figures": {"91": "None of them"}, "must_do": {}})


def test_mistakes_come_from_the_wrong_answers(guided):
    found = mistakes.read(guided.root, STEM)
    assert [mistake.exercise for mistake in found] == ["91.1", "91.1", "91.1", "91.2"]
    assert [mistake.says for mistake in found[1:]] == [
        "expected 3, got 1",
        "without an end",
        "It is got 6 in …, not less.",  # the whole sentence, where the lab holds it
    ]
    assert mistakes.read(guided.root, "92_none") == []


def test_results_by_machine(guided):
    one, other = expected.read(guided.root, STEM)
    assert (one.machine, one.revision) == ("A CPU, 2 cores", "aaaabbbbcccc")
    ((title, table),) = one.tables
    assert title == "sum, s"
    assert re.findall("<t[dh]>(.*)</t[dh]>", table) == ["seconds", "0.5", "0.25"]
    assert other.machine == "Another, 2 cores, cuda:0"
    assert expected.read(guided.root, "92_none") == []


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """The guide of all labs."""
    out = tmp_path_factory.mktemp("guide")
    report = tmp_path_factory.mktemp("report")  # of a tour that has drawn nothing
    (report / "tour.json").write_text("{}")
    assert guide(["--out", str(out), "--report", str(report)]) == 0
    return out


@pytest.mark.slow
def test_every_lab_has_its_page(real):
    text = (real / "index.html").read_text()
    assert LOADS.findall(text) == []
    content = timetable.read()
    for stem in labfile.stems():
        told = lesson.read(generate.load(stem), content, real)
        assert f'id="lab{stem[:2]}"' in text
        for part in ("why", "objectives", "concepts", "taken_away"):
            assert getattr(told, part), (stem, part)
        assert all(task.mistakes and task.text for task in told.tasks), stem
        folded = re.findall(r"<summary>Answer", told.lab.text)
        answers = [asked for asked in told.questions if asked.answer and asked.question]
        assert len(answers) >= len(folded), stem


@pytest.mark.slow
def test_a_browser_shows_guide_and_slides_and_loads_the_files_alone(real):
    files = [real / "index.html", real / "slides/21_collectives.slides.html"]
    requests, errors = [], []
    with browser.started() as chromium:
        window = chromium.new_page()
        window.on("request", lambda request: requests.append(request.url.split("#")[0]))
        window.on("pageerror", lambda error: errors.append(str(error)))
        for file in files:
            window.goto(f"file://{file}")
        shown = window.locator("section:visible")
        assert "21 Collectives" in shown.inner_text()
        with window.expect_popup() as notes:
            window.keyboard.press("s")
        assert "S: these notes" in notes.value.inner_text("body")
        for key in ("ArrowRight", "PageDown", "ArrowLeft"):
            window.keyboard.press(key)
            assert shown.count() == 1
        assert window.url.endswith("#2")
        assert "Objectives" in shown.inner_text()
        window.keyboard.press("End")
        assert "What you take away" in shown.inner_text()
        window.keyboard.press("ArrowLeft")
        answer = shown.locator(".answer")
        assert answer.is_visible()
        assert answer.inner_text() in notes.value.inner_text("body")
        window.keyboard.press("ArrowLeft")
        assert not answer.is_visible()
    fetched = [url for url in requests if not url.startswith("data:")]
    assert fetched == [f"file://{file}" for file in files]
    assert errors == []


# --- docs/TEACHING.md, which the guide shows


def test_each_command_is_a_goal_of_the_makefile():
    makefile = (paths.root() / "Makefile").read_text()
    goals = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    assert {command.split()[0] for command in commands()} == {"make"}
    assert {command.split()[1] for command in commands()} <= goals


def test_the_tour_is_that_of_the_first_timetable():
    half_day = timetable.read()["timetables"]["half_day"]
    labs = set(half_day["beforehand"])
    for slot in half_day["days"][0]["slots"]:
        labs |= {slot["lab"]} if "lab" in slot else set(slot.get("tells", ()))
    assert f"make tour LABS={','.join(sorted(labs))}" in commands()
