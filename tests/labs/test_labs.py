"""Every lab, by stem: its files are fresh, its prose leads somewhere, it runs solved, it fails
unsolved."""

from __future__ import annotations

import re
from functools import cache

import pytest
from authoring import generate
from authoring.cells import learner_cells
from authoring.source import STEM
from labkit import labfile, paths

from tests.labs import solved_runs, visit

ROOT = paths.root()
STEMS = labfile.stems()
pytestmark = pytest.mark.timeout(solved_runs.SECONDS + 60)
load = cache(generate.load)
every_lab = pytest.mark.parametrize("stem", STEMS)


# Labs with ranks run as batch jobs in tests/slurm/test_jobs.py, in CI all of them, and under
# mpiexec in tests/emulated_gpu. Of those without ranks run here one that saves its plots, one with
# TensorFlow, and one that starts processes.
SCRIPTS = ("10_train_on_one_device", "11_same_net_in_tensorflow", "72_hangs_and_failures")


@pytest.mark.slow  # `make lint` asks it before
def test_all_files_are_fresh_and_none_is_an_orphan():
    assert generate.write_all(check=True) == [], "`make labs` writes them"


@pytest.mark.parametrize(
    "pattern", ["tests/labs/wrong_answers/[0-9]*", "slurm/[0-9]*", "solutions/results/[0-9]*"]
)
def test_no_file_without_its_lab(pattern):
    orphans = [str(path.relative_to(ROOT)) for path in ROOT.glob(pattern) if path.stem not in STEMS]
    assert orphans == []


def test_numbers_are_given_once():
    numbers = [stem[:2] for stem in STEMS]
    assert sorted(set(numbers)) == numbers
    assert all(STEM.fullmatch(stem) for stem in STEMS)


def prose(stem: str) -> str:
    cells = learner_cells(load(stem))
    return "\n\n".join(cell.source for cell in cells if cell.kind == "markdown")


@every_lab
def test_links_lead_somewhere(stem):
    for target in re.findall(r"\]\(([^)\s]+)", prose(stem)):
        if re.match(r"https?://|#", target):
            continue
        # The same prose stands in notebooks/ and in solutions/, one folder below the checkout both.
        file = target.partition("#")[0]
        assert (ROOT / "notebooks" / file).exists(), f"{stem} links to {target}, which is not there"


@every_lab
def test_commands_in_prose_exist(stem):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        name
        for line in re.findall(r"^([a-z][a-z0-9 -]*):", makefile, re.MULTILINE)
        for name in line.split()
    }
    text = (ROOT / "solutions" / f"{stem}.py").read_text(encoding="utf-8")
    for verb, rest in re.findall(r"`make ([a-z0-9-]+)([^`]*)`", text):
        assert verb in targets, f"`make {verb}` in {stem}: the Makefile has no such target"
        lab = re.search(r"\bLAB=(\w+)", rest)
        assert not lab or labfile.find(lab[1]), rest


@every_lab
def test_earlier_labs_exist(stem):
    missing = set(load(stem).header.before) - {known[:2] for known in STEMS}
    assert not missing, f"Before: names labs that are not there: {missing}"


@pytest.mark.slow
@every_lab
def test_a_learner_comes_through(stem, monkeypatch):
    """Stubs and wrong answers are refused, hints shown, right answers taken, and figures can be
    read."""
    monkeypatch.setenv("PYTHONWARNINGS", solved_runs.own_warnings_are_errors())
    way = visit.Visit(stem)
    way.execute()
    assert not way.problems, "\n".join(way.problems)


@every_lab
def test_names_in_hints_exist_in_the_answer(stem):
    lab = load(stem)
    code = "\n".join(cell.source for cell in lab.cells if cell.kind == "code")
    for exercise in lab.exercises:
        for title, hint in exercise.hints:
            for name in re.findall(r"(?<!`)`([A-Za-z_]\w+)", f"{title}\n{hint}"):
                assert re.search(rf"\b{name}\b", code), f"{exercise.number} hints at `{name}`"


@pytest.mark.slow
@pytest.mark.parametrize("stem", SCRIPTS)
def test_solved_script_runs_on_its_ranks(stem, tmp_path):
    solved_runs.assert_solved(stem, tmp_path)


@pytest.mark.slow
def test_papermill_runs_a_lab_with_other_parameters(tmp_path):
    import papermill

    solved, executed = tmp_path / "solved.ipynb", tmp_path / "executed.ipynb"
    solved.write_text(generate.solved_notebook(load("02_why_parallel")), encoding="utf-8")
    book = papermill.execute_notebook(
        solved,
        executed,
        solved_runs.small("02_why_parallel"),
        cwd=ROOT / "notebooks",
        kernel_name="python3",
        progress_bar=False,
    )
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    solved_runs.assert_each_check_passed_once("02_why_parallel", visit.printed(cells))
