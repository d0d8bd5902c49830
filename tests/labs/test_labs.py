"""Every lab, by stem: its files are fresh, its prose leads somewhere, it runs solved, it fails unsolved."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from authoring import generate
from authoring.source import STEM
from labkit import labfile, paths

ROOT = paths.root()
STEMS = labfile.stems()
SECONDS = 900  # to end a run that hangs; no speed is asserted
RUNNING: set[subprocess.Popen] = set()
pytestmark = pytest.mark.timeout(SECONDS + 60)
every_lab = pytest.mark.parametrize("stem", STEMS)


def own_modules() -> list[str]:
    """The modules whose warnings are errors: the lab itself, labkit and support."""
    labs = ROOT / "labs"
    files = [path for name in ("labkit", "support") for path in sorted((labs / name).rglob("*.py"))]
    names = [".".join(path.relative_to(labs).with_suffix("").parts) for path in files]
    return ["__main__", *(name.removesuffix(".__init__") for name in names)]


OURS = own_modules()


def small(stem: str) -> dict[str, object]:
    """The parameters of the tests' runs."""
    return import_module(f"tests.labs.wrong_answers.{stem}").SMALL


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    """Run a command, with warnings from the lab, labkit and support as errors; it writes into folder.

    It is ended after SECONDS.
    """
    env = {
        **os.environ,
        "LABKIT_HOME": str(folder),
        "PYTHONWARNINGS": ",".join(f"error:::{name}" for name in OURS),
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True, **pipes)
    RUNNING.add(process)
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate()
        pytest.fail(f"not finished after {SECONDS} s: {' '.join(command)}\n{out[-2000:]}\n{err[-2000:]}")
    finally:
        RUNNING.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def end_all() -> None:
    """End what `run` has not ended: the tests are over before their time."""
    for process in list(RUNNING):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def papermill(notebook: Path, folder: Path, parameters: dict[str, object]) -> list[str]:
    """The command that executes a notebook with other parameters, as `make tour` does, into folder."""
    options = [
        "--parameters_yaml",
        json.dumps(parameters),
        "--execution-timeout",
        str(SECONDS),
        "--no-progress-bar",
    ]
    files = [str(notebook), str(folder / "out.ipynb"), "--cwd", str(notebook.parent)]
    return [sys.executable, "-m", "papermill", *files, *options]


def printed(notebook: Path) -> tuple[str, str]:
    """What an executed notebook printed, and the text of its errors."""
    outputs = [
        output for cell in nbformat.read(notebook, as_version=4).cells for output in cell.get("outputs", [])
    ]
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    return text, "\n".join("\n".join(output.traceback) for output in outputs if output.output_type == "error")


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
    return "\n\n".join(cell.source for cell in generate.load(stem).cells if cell.kind == "markdown")


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
        name for line in re.findall(r"^([a-z][a-z -]*):", makefile, re.MULTILINE) for name in line.split()
    }
    text = (ROOT / "solutions" / f"{stem}.py").read_text(encoding="utf-8")
    for verb, rest in re.findall(r"`make ([a-z-]+)([^`]*)`", text):
        assert verb in targets, f"`make {verb}` in {stem}: the Makefile has no such target"
        lab = re.search(r"\bLAB=(\w+)", rest)
        assert not lab or labfile.find(lab[1]), rest


@every_lab
def test_earlier_labs_exist(stem):
    missing = set(generate.load(stem).header.before) - {known[:2] for known in STEMS}
    assert not missing, f"Before: names labs that are not there: {missing}"


@pytest.fixture(scope="module")
def ended(request, tmp_path_factory):
    """A function(command's name, stem) -> how that run ended, and its folder. All runs of the module are
    started in the order of their tests, two at a time: most of a run is waiting for one process.
    """
    folder, runs = tmp_path_factory.mktemp("runs"), {}
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for test in request.session.items:
            command = COMMANDS.get(getattr(test, "originalname", ""))
            if command and test.module is request.module:
                stem = test.callspec.params["stem"]
                own = folder / f"{command.__name__}-{stem}"
                own.mkdir()
                # The command is made here: in Python 3.11 ast.parse fails when two threads are in it.
                runs[own.name] = pool.submit(run, command(stem, own), own)

        def result(command: Callable, stem: str) -> tuple[subprocess.CompletedProcess, Path]:
            name = f"{command.__name__}-{stem}"
            return runs[name].result(), folder / name

        yield result
        pool.shutdown(wait=False, cancel_futures=True)
        end_all()


def solved_notebook(stem: str, folder: Path) -> list[str]:
    return papermill(ROOT / "solutions" / f"{stem}.ipynb", folder, small(stem))


def solved_script(stem: str, folder: Path) -> list[str]:
    values = [f"{name}={value!r}" for name, value in small(stem).items()]
    ranks = str(generate.load(stem).header.ranks)
    command = [sys.executable, "-m", "labkit", "run", stem, "--solved", "--np", ranks]
    return [*command, "--set", *values] if values else command


def learner(stem: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "tests.labs.learner", stem, str(folder)]


def wrong_answers(stem: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "tests.labs.wrong_answers.runner", stem, "--json", str(folder / "json")]


@pytest.mark.slow
@every_lab
def test_solved_notebook_runs(stem, ended):
    how, folder = ended(solved_notebook, stem)
    text, errors = printed(folder / "out.ipynb")
    assert errors == ""
    assert how.returncode == 0, how.stderr[-3000:]
    for exercise in generate.load(stem).exercises:
        assert f"✓ {exercise.number}  {exercise.title}\n" in text
    assert "Traceback" not in text


@pytest.mark.slow
@every_lab
def test_solved_script_runs_on_its_ranks(stem, ended):
    how, _ = ended(solved_script, stem)
    assert how.returncode == 0, how.stdout[-2000:] + how.stderr[-3000:]
    for exercise in generate.load(stem).exercises:
        assert how.stdout.count(f"✓ {exercise.number}  ") == 1, "each check passes, and rank 0 alone says so"
    assert "Traceback" not in how.stdout + how.stderr


@pytest.mark.slow
@every_lab
def test_a_learner_fails_at_the_first_check_and_gets_the_hint_that_it_recommends(stem, ended):
    exercises = generate.load(stem).exercises
    how, folder = ended(learner, stem)
    assert how.returncode == 0, how.stderr[-3000:]
    text, errors = printed(folder / "out.ipynb")
    assert "✓" not in text
    if not exercises:
        assert errors == ""
        return
    first = exercises[0]
    assert errors.startswith(f"✗ {first.number}  not solved yet."), errors
    assert f'hint("{first.number}") shows the next hint' in errors
    asked = nbformat.read(folder / "out.ipynb", as_version=4).cells[-1]
    assert asked.source == f'hint("{first.number}")'
    (shown,) = asked.outputs
    assert shown.output_type == "display_data", shown
    assert shown.data["text/markdown"].startswith(f"**{first.hints[0][0]}**")


@pytest.mark.slow
@every_lab
def test_each_wrong_answer_is_rejected(stem, ended, tally):
    how, folder = ended(wrong_answers, stem)
    assert (folder / "json").exists(), how.stdout[-2000:] + how.stderr[-3000:]
    counts = json.loads((folder / "json").read_text(encoding="utf-8"))
    tally[stem] = [counts["seeded"], counts["rejected"]]
    assert counts["problems"] == [], how.stdout[-2000:]
    assert how.returncode == 0
    assert counts["rejected"] == counts["seeded"]


COMMANDS = {
    "test_solved_notebook_runs": solved_notebook,
    "test_solved_script_runs_on_its_ranks": solved_script,
    "test_a_learner_fails_at_the_first_check_and_gets_the_hint_that_it_recommends": learner,
    "test_each_wrong_answer_is_rejected": wrong_answers,
}
