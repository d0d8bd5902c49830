"""The commands behind the Makefile, run as a user runs them."""

from __future__ import annotations

import pytest
from authoring import __main__ as verbs
from authoring import skeleton
from labkit import journal
from labkit.errors import LabError


def test_labs_and_labs_check(built, capsys):
    assert verbs.main(["labs", "--check"]) == 0
    (built.root / "labs/90_tiny.py").write_text("mine\n")
    assert verbs.main(["labs", "--check"]) == 1
    assert "labs/90_tiny.py. `make labs`" in capsys.readouterr().err
    assert verbs.main(["labs", "90"]) == 0
    assert "1 labs; written: labs/90_tiny.py" in capsys.readouterr().out
    assert verbs.main(["labs", "91"]) == 1
    assert capsys.readouterr().err == "There is no lab '91'. These exist: 90_tiny.\n"


@pytest.mark.slow
def test_reset_and_progress(built):
    ended = built.python("-m", "labkit", "reset", "91")
    assert (ended.returncode, ended.stderr) == (1, "There is no lab '91'. These exist: 90_tiny.\n")
    built.python("-m", "labkit", "bring")
    with open(built.root / "work/90_tiny.py", "a") as file:
        file.write("# mine\n")
    ended = built.python("-m", "labkit", "reset", "90")
    assert ended.returncode == 0
    assert ended.stdout.startswith("Set aside: work/90_tiny.py -> ")
    journal.note("passed", exercise="90.2")
    ended = built.python("-m", "labkit", "progress")
    assert ended.returncode == 0
    assert "1 of 2 exercises solved." in ended.stdout
    assert "✓90.2" in ended.stdout
    assert "·90.1" in ended.stdout


def test_a_new_lab_is_written_whole_or_not_at_all(built):
    (built.root / "labs/support/lab82.py").touch()
    with pytest.raises(LabError, match=r"labs/support/lab82\.py exists already"):
        skeleton.new("82_other")
    assert not (built.root / "solutions/82_other.py").exists()


@pytest.mark.slow
def test_new_lab_is_complete(built):
    ended = built.python("-m", "authoring", "new", "66_my_topic")
    assert ended.returncode == 0, ended.stderr
    for folder in ("solutions", "labs", "tests/labs/wrong_answers"):
        assert f"{folder}/66_my_topic.py" in ended.stdout
        assert (built.root / folder / "66_my_topic.py").exists()
    assert verbs.main(["labs", "--check"]) == 1, "the README's table wants its line"
    assert verbs.main(["labs"]) == 0
    assert verbs.main(["labs", "--check"]) == 0
    assert "[66 My topic]" in (built.root / "README.md").read_text(encoding="utf-8")
    with pytest.raises(LabError, match="taken"):
        skeleton.new("66_again")
    ended = built.python("-m", "labkit", "run", "66", "--solved", "--set", "length=10")
    assert ended.returncode == 0, ended.stderr
    ended = built.python("-m", "tests.labs.visit", "66_my_topic")
    assert ended.returncode == 0, ended.stderr
    assert "3 wrong answers and 1 right ones in other forms tried, 0 problems" in ended.stdout
