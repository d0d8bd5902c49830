"""The board of a class whose files real checks have written: in a process, in notebooks, in many at once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from authoring import generate
from authoring.cells import learner_cells, solved_cells
from labkit import board, check, expect, journal, labfile
from labkit.errors import CheckFailed

from tests import browser
from tests.labkit.board import school
from tests.labkit.board.school import STEM, Desk, School
from tests.labkit.checks.tried import tried

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _no_class(monkeypatch):
    monkeypatch.delenv("LABKIT_CLASS", raising=False)


@pytest.fixture(scope="module")
def forty(tmp_path_factory) -> School:
    """Forty learners at lab 23, now."""
    made = School(tmp_path_factory.mktemp("school"), time.time() - 20 * 60)
    school.forty(made, Desk(made))
    return made


def test_forty_at_lab_23_and_where_half_of_them_are_stuck(forty):
    classroom = board.look(forty.shared, now=forty.now)
    assert re.match(
        r"2\d of 36 are stuck: 1\d at 23\.1, Reduce-scatter round a ring; \d at 23\.2", classroom.headline
    )
    first = classroom.places[0]
    assert (first.number, first.half, first.here) == ("23.1", True, 22)
    assert first.told > first.here / 2
    assert "chunk rank + 1 is wrong" in first.said
    assert len(classroom.learners) == 38
    assert classroom.count("away") == len(school.AWAY)
    assert classroom.notes == []
    shown = [someone.name for someone in classroom.learners]
    assert len(set(shown)) == 38
    assert sum(bool(journal.PSEUDONYM.fullmatch(name)) for name in shown) == 6
    assert not {"mona", "nils"} & set(shown), "two did not agree"
    hidden = board.as_page(board.look(forty.shared, hide_names=True, now=forty.now))
    assert not re.search("|".join(rf"\b{name}\b" for name in school.NAMES), hidden)
    assert max(file.stat().st_size for file in forty.shared.iterdir()) < 10_000


def test_in_a_browser_the_page_asks_for_nothing_else(forty, tmp_path):
    asked = []
    file = tmp_path / "board.html"
    assert board.main([str(forty.shared), "--html", str(file), "--refresh", "1"]) == 0
    with browser.started() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)  # on a busy machine
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        assert "are stuck: " in page.locator("h1").inner_text()
        box = page.locator(".half .said").first.bounding_box()
        assert box["y"] + box["height"] < 900, "what is said most stands on the first screen"
        assert page.locator(".people tbody tr").count() == 38
        page.screenshot(path=tmp_path / "board.png")
        forty.now += 1
        with forty.learner("mona"):
            journal.share(named=True)
            journal.note("start", lab=STEM)
        board.main([str(forty.shared), "--html", str(file)])
        page.locator(".name", has_text="mona").wait_for()
    with forty.learner("mona"):
        journal.unshare()
    assert set(asked) == {file.as_uri()}


def notebook(folder: Path, solved: bool) -> Path:
    """Lab 23 as a notebook, up to the check of its first exercise: with the stub, or with the answer."""
    lab = generate.load(STEM)
    end = lab.exercises[0].check + 1
    cells = (solved_cells if solved else learner_cells)(lab)[:end]
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(cell.source) for cell in cells if cell.kind == "code"]
    file = folder / "notebooks" / f"{STEM}.ipynb"
    file.parent.mkdir(parents=True)
    nbformat.write(book, file)
    return file


def test_two_real_notebooks_at_once(tmp_path):
    made = School(tmp_path, time.time())
    kernels = []
    for name, solved in (("ada", True), ("bob", False)):
        made.share(name)
        command = [sys.executable, "-m", "jupyter", "execute", "--allow-errors", "--inplace"]
        command.append(str(notebook(made.homes / name, solved)))
        env = {**os.environ, **made.variables(name)}
        kernels.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    for kernel in kernels:
        errors = kernel.communicate(timeout=240)[1]
        assert kernel.returncode == 0, errors.decode()[-2000:]
    learners = {someone.name: someone for someone in board.look(made.shared).learners}
    assert (learners["ada"].exercise, learners["ada"].solved) == ("23.2", 1)
    assert (learners["bob"].exercise, learners["bob"].here.tries) == ("23.1", 1)
    assert learners["bob"].said.startswith("not solved yet. Write your code")


WORK = """
import sys
from labkit import expect, lab
from labkit.errors import CheckFailed
from tests.labkit.checks.tried import tried
lab.start("23_ring_allreduce")
for count in range(int(sys.argv[1])):
    try:
        tried("23.1", lambda: expect(False, f"Chunk {count} is wrong."))
    except CheckFailed:
        pass
"""


def test_the_board_reads_while_many_write_and_one_is_killed(tmp_path):
    made = School(tmp_path, time.time())
    work = []
    for name, count in (("ada", 25), ("ada", 25), ("bob", 25), ("bob", 10**9)):
        made.share(name)
        env = {**os.environ, **made.variables(name)}
        command = [sys.executable, "-c", WORK, str(count)]
        work.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL))
    *whole, killed = work
    looks = 0
    while any(process.poll() is None for process in whole) or looks < 3:
        classroom = board.look(made.shared)
        assert not [note for note in classroom.notes if "could not be read" in note], "a line is there or not"
        looks += 1
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert [process.returncode for process in whole] == [0, 0, 0]
    learners = {someone.name: someone for someone in board.look(made.shared).learners}
    ada = learners["ada"].here
    assert (ada.tries, ada.failures) == (50, 50), "two notebooks of one learner lose nothing"
    assert learners["bob"].here.tries >= 25
    assert learners["bob"].state == "stuck"


def test_forty_learners_with_all_labs_behind_them(tmp_path):
    made = School(tmp_path, time.time() - 3600)
    made.share("ada")
    with made.learner("ada"):
        for stem in labfile.stems():
            journal.note("start", lab=stem)
            text = (labfile.folder() / f"{stem}.py").read_text(encoding="utf-8")
            for exercise in labfile.exercises_in(text):
                for tries in range(1, 6):
                    said = f"With {tries} ranks the sum is wrong: expected 3, got 2."
                    journal.note("failed", exercise=exercise.number, tries=tries, said=said)
                tried(exercise.number, lambda: expect(True, ""))
    (file,) = made.shared.iterdir()
    text = file.read_text()
    for place, name in enumerate(school.NAMES):
        head, rest = text.split("\n", 1)
        first = {**json.loads(head), "pseudonym": f"Calm Fox {10 + place}"}
        (made.shared / f"{name}.jsonl").write_text(json.dumps(first) + "\n" + rest)
    file.unlink()
    classroom = board.look(made.shared, now=made.now)
    assert len(classroom.learners) == 40
    assert len(classroom.labs) == len(labfile.stems())
    assert classroom.notes == []
    assert classroom.count("finished") == 40
    assert len(board.as_page(classroom)) < 200_000
    assert board.as_text(classroom)


def test_what_a_wrong_answer_is_told_is_what_the_board_shows(forty):
    desk = Desk(forty)
    wrong = desk.mistakes("23.1")[1]
    told = desk.attempt("nils", "23.1", wrong, 1)
    with forty.learner("nils"):
        journal.share(named=True)
    nils = next(
        someone for someone in board.look(forty.shared, now=forty.now).learners if someone.name == "nils"
    )
    assert nils.said
    assert nils.said[:100] in told
    with forty.learner("nils"):
        journal.unshare()
        with pytest.raises(CheckFailed), check("23.1"):
            expect(False, "After.")
    assert "nils" not in board.as_page(board.look(forty.shared, now=forty.now))
