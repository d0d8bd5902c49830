"""The commands behind the Makefile, run as a user runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from authoring import generate, skeleton
from labkit import checks, cli, paths
from labkit.errors import LabError

from tests.authoring import tiny_lab


@pytest.fixture
def built(checkout):
    """A checkout with the tiny lab generated."""
    (checkout.root / "solutions" / "90_tiny.py").write_text(tiny_lab.LAB, encoding="utf-8")
    (checkout.root / "tests/labs/wrong_answers/90_tiny.py").write_text(tiny_lab.WRONG, encoding="utf-8")
    generate.write_all()
    return checkout


def test_labs_and_labs_check(built, capsys):
    assert cli.main(["labs", "--check"]) == 0
    (built.root / "labs/90_tiny.py").write_text("mine\n")
    assert cli.main(["labs", "--check"]) == 1
    assert "labs/90_tiny.py. `make labs`" in capsys.readouterr().err
    assert cli.main(["labs", "90"]) == 0
    assert "1 labs; written: labs/90_tiny.py" in capsys.readouterr().out
    assert cli.main(["labs", "91"]) == 1
    assert capsys.readouterr().err == "There is no lab '91'. These exist: 90_tiny.\n"


def test_a_mistake_is_a_sentence_and_status_1(built):
    for arguments, says in (
        (["run", "91"], "There is no lab '91'. These exist: 90_tiny."),
        (["run", "90", "--np", "0"], "NP=0 makes no sense"),
        (["run", "90", "--set", "epochs"], "set as NAME=VALUE"),
        (["run", "90", "--set", "epochs=1"], "no parameter 'epochs'. The parameters are length, name, sizes"),
        (["solve", "90", "90.9"], "it has 90.1, 90.2"),
        (["new", "90_other"], "number 90 is taken by 90_tiny"),
        (["new", "Other"], "two digits, an underscore"),
    ):
        ended = built.python("-m", "labkit", *arguments)
        assert ended.returncode == 1, ended
        assert says in ended.stderr
        assert "Traceback" not in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    assert built.python("-m", "labkit").returncode == 2
    assert built.python("-m", "labkit", "nothing").returncode == 2


def test_run_unsolved_fails_with_the_sentence_alone(built):
    ended = built.python("-m", "labkit", "run", "90")
    assert ended.returncode == 1
    assert ended.stderr.startswith("✗ 90.1  not solved yet.")
    assert "Traceback" not in ended.stderr


def test_run_solved_keeps_its_progress_apart(built):
    ended = built.python("-m", "labkit", "run", "90", "--solved", "--set", "length=7", "--set", "name=ä")
    assert ended.returncode == 0, ended.stderr
    assert '✓ 90.1  Add "them" up' in ended.stdout
    assert "length is 7 ä" in ended.stdout
    assert checks.read() == {}
    assert not list((paths.home() / "solved").glob("run-*")), "the copy with other parameters is gone"


def test_run_of_a_solved_learners_script_is_progress(built):
    assert built.python("-m", "authoring", "solve", "90", "90.1").returncode == 0
    ended = built.python("-m", "labkit", "run", "90", "--set", "length=7")
    assert ended.returncode == 1
    assert '✓ 90.1  Add "them" up' in ended.stdout
    assert ended.stderr.startswith("✗ 90.2  not solved yet.")
    assert checks.entry("90.1")["passed"]
    assert not checks.entry("90.2")["passed"]
    assert not list(paths.home().glob("run-*"))


@pytest.mark.slow
def test_run_on_several_ranks(built):
    ended = built.python("-m", "labkit", "run", "90", "--np", "3", "--solved")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("✓ 90.1") == 1
    assert "rank 0 of 3 under mpiexec" in ended.stdout
    ended = built.python("-m", "labkit", "run", "90", "--np", "3")
    assert ended.returncode != 0
    assert ended.stderr.startswith("✗ 90.1  not solved yet.")
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_nothing(built, number):
    source = built.root / "labs/90_tiny.py"
    source.write_text("import os, time\nos.write(1, b'begun\\n')\ntime.sleep(300)\n")
    env = {**os.environ, "PYTHONPATH": str(built.root / "labs"), "LABKIT_MARK": str(built.root)}
    command = [sys.executable, "-m", "labkit", "run", "90", "--np", "2"]
    process = subprocess.Popen(
        command,
        cwd=built.root,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(2):
        assert process.stdout.readline() == b"begun\n"
    if number == signal.SIGINT:  # Ctrl-C reaches the whole group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(30) != 0
    process.stdout.close()
    end = time.monotonic() + 10
    while time.monotonic() < end and (left := _marked(f"LABKIT_MARK={built.root}")):
        time.sleep(0.1)
    assert not left


def _marked(mark: str) -> list[int]:
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            with open(f"/proc/{process.pid}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(process.pid)
        except OSError:
            continue
    return found


def test_reset_and_progress(built):
    with open(built.root / "labs/90_tiny.py", "a") as file:
        file.write("# mine\n")
    ended = built.python("-m", "authoring", "reset", "90")
    assert ended.returncode == 0
    assert ended.stdout.startswith("Set aside: labs/90_tiny.py -> ")
    assert cli.main(["labs", "--check"]) == 0
    checks.update("90.2", lambda entry: entry.update(passed="now", hints=2))
    ended = built.python("-m", "labkit", "progress")
    assert ended.returncode == 0
    assert "1 of 2 exercises solved." in ended.stdout
    assert "✓90.2" in ended.stdout
    assert "·90.1" in ended.stdout


@pytest.mark.slow
def test_new_lab_is_complete(built):
    ended = built.python("-m", "authoring", "new", "66_my_topic")
    assert ended.returncode == 0, ended.stderr
    for name in (
        "solutions/66_my_topic.py",
        "labs/66_my_topic.py",
        "tests/labs/wrong_answers/66_my_topic.py",
    ):
        assert name in ended.stdout
        assert (built.root / name).exists()
    assert cli.main(["labs", "--check"]) == 1, "the README's table wants its line"
    assert cli.main(["labs"]) == 0
    assert cli.main(["labs", "--check"]) == 0
    assert "[66 My topic]" in (built.root / "README.md").read_text(encoding="utf-8")
    with pytest.raises(LabError, match="taken"):
        skeleton.new("66_again")
    assert built.python("-m", "labkit", "run", "66", "--solved", "--set", "length=10").returncode == 0
    ended = built.python("-m", "tests.labs.wrong_answers.runner", "66_my_topic")
    assert ended.returncode == 0, ended.stderr
    assert "3 of 3 wrong answers rejected" in ended.stdout


def test_settings_are_literals_or_words():
    assert cli.read_setting("a=1e-3") == ("a", 1e-3)
    assert cli.read_setting("a=(1, 2)") == ("a", (1, 2))
    assert cli.read_setting("a=mpi") == ("a", "mpi")
    assert cli.read_setting("a=x=y") == ("a", "x=y")
