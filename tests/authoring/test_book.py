"""The web book in a real browser: all labs' text, links, search, folded answers, dark theme."""

import json
import subprocess
import sys
from urllib.parse import unquote, urlsplit

import pytest
from authoring import book, generate, links, skeleton
from labkit import labfile, paths

from tests import browser

ROOT = paths.root()
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg=="
OUTPUTS = [
    {"output_type": "stream", "name": "stdout", "text": "it was printed\n"},
    {"output_type": "display_data", "metadata": {}, "data": {"image/png": PIXEL}},
]


def _report(folder, stems, outputs=(), root=ROOT):
    """What a tour leaves of these labs: solved notebooks; the outputs stand below an answer."""
    notebooks = folder / "notebooks"
    notebooks.mkdir(parents=True)
    for stem in stems:
        notebook = json.loads(generate.solved_notebook(generate.load(stem, root)))
        cells = [(cell, cell["metadata"].get("tags", ())) for cell in notebook["cells"]]
        answer = next(cell for cell, tags in cells if "hide-input" in tags)
        answer["outputs"] = list(outputs)
        (notebooks / f"{stem}.ipynb").write_text(json.dumps(notebook))
    return folder


def _make(report, out):
    words = [sys.executable, "-m", "authoring", "book", f"--report={report}", f"--out={out}"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    report = _report(folder / "report", labfile.stems(ROOT), OUTPUTS)
    out = folder / "book"
    _make(report, out)
    return out


@pytest.mark.slow
def test_every_page_opens_and_every_link_leads_somewhere(pages):
    files = sorted(pages.glob("*.html"))
    assert {path.stem for path in files} >= {*labfile.stems(ROOT), "index", "glossary", "formulas"}
    errors = []
    requested = []
    links = {}
    anchors = {}
    with browser.started() as chromium:
        page = chromium.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.on("requestfailed", lambda request: errors.append(request.url))
        every = page.eval_on_selector_all
        for path in files:
            page.goto(path.as_uri())
            anchors[path.name] = every("[id]", "all => all.map(x => x.id)")
            links[path.name] = every("a[href]", "all => all.map(x => x.getAttribute('href'))")
    assert errors == []
    assert all(url.startswith(("file:", "data:")) for url in requested)
    for name, targets in links.items():
        for target in targets:
            parts = urlsplit(target)
            if not parts.scheme:
                file, anchor = parts.path or name, unquote(parts.fragment)
                assert (pages / file).exists(), f"{name}: {target}"
                assert not anchor or anchor in anchors[file], f"{name}: {target}"


@pytest.mark.slow
def test_a_reader_searches_opens_an_answer_and_has_a_dark_screen(pages):
    with browser.started() as chromium:
        page = chromium.new_context(color_scheme="dark").new_page()
        page.goto((pages / "index.html").as_uri())
        dark = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        assert max(page.evaluate(dark)) < 60
        page.get_by_placeholder("Search").fill("allreduce")
        page.keyboard.press("Enter")
        page.locator("ul.search a", has_text="23 Ring allreduce").click()
        page.wait_for_url("**/23_ring_allreduce.html*")
        assert "it was printed" in page.inner_text("main, article")
        answer = page.locator(".cell_input").filter(has_text="Sendrecv").first
        assert not answer.is_visible()
        page.get_by_text("Show the answer").first.click()
        answer.wait_for(state="visible")
        assert page.locator(".cell_output img").count() == 1


@pytest.mark.slow
def test_a_book_of_one_lab_has_no_link_to_the_others(tmp_path):
    report = _report(tmp_path / "report", ["23_ring_allreduce"])
    said = _make(report, tmp_path / "book")
    assert "Not in this tour, so not in the book: 00_check" in said
    assert "21_collectives" not in (tmp_path / "book/23_ring_allreduce.html").read_text()


@pytest.mark.slow
def test_a_new_lab_is_in_the_book_and_a_broken_notebook_leaves_the_book_as_it_was(built, capsys):
    root = built.root
    (root / links.FIGURES).mkdir(parents=True)
    for page in book.PAGES.values():
        (root / page).parent.mkdir(exist_ok=True)
        (root / page).write_text("# A page\n", encoding="utf-8")
    skeleton.new("82_other")
    report = _report(root / "report", ["82_other"], root=root)
    assert book.main([]) == 0, capsys.readouterr().err
    assert "Further labs" in (root / "book/index.html").read_text(encoding="utf-8")
    before = sorted((root / "book").rglob("*"))
    notebook = report / "notebooks/82_other.ipynb"
    notebook.write_text(notebook.read_text(encoding="utf-8")[:500], encoding="utf-8")
    assert book.main([]) == 1
    assert "report/notebooks/82_other.ipynb is no whole notebook" in capsys.readouterr().err
    assert sorted((root / "book").rglob("*")) == before


def test_without_a_tour_it_says_what_to_do(tmp_path, capsys):
    assert book.main([f"--report={tmp_path}"]) == 1
    assert "make tour SMALL=1" in capsys.readouterr().err
