"""The learner's verbs, run as a user runs them; tests.test_bad_inputs has what they refuse."""

import os
import signal
import subprocess
import sys
import time

import pytest
from labkit import cli, copies, journal, launch, paths
from labkit.journal import log

from tests.helpers import marked, until


def test_run_solved_keeps_its_progress_apart(built):
    settings = ("--set", "length=7", "--set", "name=ä")
    ended = built.python("-m", "labkit", "run", "90", "--solved", *settings)
    assert ended.returncode == 0, ended.stderr
    assert '✓ 90.1  Add "them" up' in ended.stdout
    assert "length is 7 ä" in ended.stdout
    assert journal.progress() == {}
    assert not list((paths.home() / "solved").glob("run-*")), "the copy with parameters is gone"


@pytest.mark.slow
def test_run_of_a_solved_learners_script_is_progress(built):
    assert built.python("-m", "authoring", "solve", "90", "90.1").returncode == 0
    ended = built.python("-m", "labkit", "run", "90", "--set", "length=7")
    assert ended.returncode == 1
    assert '✓ 90.1  Add "them" up' in ended.stdout
    assert ended.stderr.startswith("✗ 90.2  not solved yet.")
    told = [(line["event"], line.get("exercise", line.get("lab"))) for line in log.read()]
    assert told == [("start", "90_tiny"), ("passed", "90.1"), ("failed", "90.2")]
    assert not list(paths.home().glob("run-*"))


@pytest.mark.slow
def test_run_on_several_ranks(built):
    ended = built.python("-m", "labkit", "run", "90", "--np", "3", "--solved")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("✓ 90.1") == 1
    assert "rank 0 of 3 under mpiexec" in ended.stdout


def test_root_may_run_several_ranks_on_open_mpi(built, monkeypatch, capfd):
    launcher = built.root / "mpiexec"
    launcher.write_text("#!/bin/sh\n[ $1 = --version ] && echo Open MPI || env\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(launch, "mpiexec", lambda mpi=None: str(launcher))
    assert cli.main(["run", "90", "--np", "2", "--solved"]) == 0
    may = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
    assert may <= set(capfd.readouterr().out.splitlines())


@pytest.mark.parametrize("ranks", [(), pytest.param(("--np", "3"), marks=pytest.mark.slow)])
def test_run_unsolved_fails_with_the_sentence_alone(built, ranks):
    ended = built.python("-m", "labkit", "run", "90", *ranks)
    assert ended.returncode != 0
    assert ended.stderr.startswith("✗ 90.1  not solved yet.")
    assert "Traceback" not in ended.stderr


def test_run_runs_the_cells_of_a_newer_notebook(built):
    copies.bring(built.root)
    book = built.root / "work/90_tiny.ipynb"
    text = book.read_text(encoding="utf-8")
    book.write_text(text.replace("length is", "the length is"), encoding="utf-8")
    os.utime(book, (time.time() + 60, time.time() + 60))
    ended = built.python("-m", "labkit", "run", "90")
    assert "work/90_tiny.ipynb is newer than work/90_tiny.py and wins" in ended.stderr
    assert "the length is" in (built.root / "work/90_tiny.py").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["1", "2"])
def test_the_ranks_of_a_run_get_no_secrets(built, monkeypatch, ranks):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "x")
    monkeypatch.setenv("A_VARIABLE", "x")
    names = "('A_VARIABLE', 'JUPYTERHUB_API_TOKEN')"
    source = built.root / "work/90_tiny.py"
    source.parent.mkdir()
    source.write_text(f"import os\nprint(*(name for name in {names} if name in os.environ))\n")
    ended = built.python("-m", "labkit", "run", "90", "--np", ranks)
    assert ended.stdout.split() == ["A_VARIABLE"] * int(ranks), ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_nothing(built, number):
    source = built.root / "work/90_tiny.py"
    source.parent.mkdir()
    source.write_text("import os, time\nos.write(1, b'begun\\n')\ntime.sleep(300)\n")
    env = {**os.environ, "PYTHONPATH": str(built.root / "labs"), "LABKIT_MARK": str(built.root)}
    command = [sys.executable, "-m", "labkit", "run", "90", "--np", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=built.root, env=env, start_new_session=True, **pipes)
    for _ in range(2):
        assert process.stdout.readline() == b"begun\n"
    if number == signal.SIGINT:  # Ctrl-C reaches the whole group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(30) != 0
    process.stdout.close()
    assert until(lambda: not marked(f"LABKIT_MARK={built.root}"), 10)
