"""Which Python the set-up takes, and what it says of one that it cannot use."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from env.install import pythons
from tests.helpers import program, ran

ROOT = Path(__file__).resolve().parents[2]


def interpreter(folder: Path, name: str, answer: str) -> str:
    """A program that answers the set-up's question as a Python would; returns its path."""
    return str(program(folder / name, answer))


def test_pyproject_names_the_same_versions():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    least, beyond = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', text).groups()
    assert {f"python3.{minor}" for minor in range(int(least), int(beyond))} == set(pythons.NAMES)


@pytest.mark.parametrize(
    ("answer", "problem", "cure"),
    [
        ("echo CPython 3.14 0", "is Python 3.14", "Python 3.14 waits for TensorFlow 2.22"),
        ("echo CPython 3.9 0", "is Python 3.9", "Python 3.9 is too old"),
        ("echo CPython 3.13 1", "is Python 3.13, built without the global lock", "with its global"),
        ("echo PyPy 3.11 0", "is PyPy 3.11", "built here for CPython"),
        ("exit 127", "does not run, or is no Python", ""),
        ("echo hello", "does not run, or is no Python", ""),
    ],
)
def test_an_interpreter_that_cannot_be_used(tmp_path, answer, problem, cure):
    path = interpreter(tmp_path, "python", answer)
    with pytest.raises(pythons.NoPython, match=re.escape(f"PYTHON={path} {problem}")) as failure:
        pythons.find(path, tmp_path)
    assert cure in failure.value.args[1]
    assert "make setup PYTHON=/path/to/python3.13" in failure.value.args[1]


def test_which_one_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    venv = tmp_path / ".venv"
    # As pyenv's shim of a version that is not chosen.
    interpreter(tmp_path, "python3.11", "exit 127")
    first = interpreter(tmp_path, "python3.13", "echo CPython 3.13 0")
    other = interpreter(tmp_path, "python3.10", "echo CPython 3.10 0")
    assert pythons.find(None, venv) == first
    venv.mkdir()
    own = interpreter(venv / "bin", "python", "echo CPython 3.12 0")
    assert pythons.find(None, venv) == own
    assert pythons.find(other, venv) == other
    interpreter(venv / "bin", "python", "echo CPython 3.9 0")
    assert pythons.find(None, venv) == first


def test_only_a_python_of_tomorrow_is_here(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "python3", "echo CPython 3.14 0"))
    said = r"none of python3\.11.* was found \(python3 is Python 3\.14"
    with pytest.raises(pythons.NoPython, match=said) as failure:
        pythons.find(None, tmp_path)
    assert failure.value.args[1].startswith("Python 3.14 waits for TensorFlow 2.22")
    assert "Install Python" in failure.value.args[1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('[ "$1" = -c ] && echo CPython 3.13 0 || echo "goes on: $*"', "goes on: {} --tests"),
        ("echo CPython 3.14 0", "cure: Install Python 3.10, 3.11, 3.12 or 3.13"),
    ],
)
def test_an_old_python_hands_over_to_a_newer_one(checkout, tmp_path, answer, said):
    setup = checkout / "env" / "setup.py"
    interpreter(tmp_path, "python3.11", "exit 127")
    interpreter(tmp_path, "python3.13", answer)
    script = (
        f"import runpy, sys; sys.version_info = (3, 6); sys.argv = [{str(setup)!r}, '--tests']; "
        f"sys.executable = '/no/python3'; runpy.run_path({str(setup)!r}, run_name='__main__')"
    )
    done = ran(sys.executable, "-c", script, env={"PATH": str(tmp_path)})
    assert said.format(setup) in done.stdout + done.stderr


@pytest.mark.parametrize(
    "file", ["env/setup.py", "env/settings.py", "env/install/pythons.py", "labs/labkit/make.py"]
)
def test_an_old_python_can_read_what_begins(file):
    ast.parse((ROOT / file).read_text(encoding="utf-8"), feature_version=(3, 6))  # of RHEL 8


def test_make_begins_with_any_python_that_runs(tmp_path):
    interpreter(tmp_path, "python3.11", "exit 127")
    interpreter(tmp_path, "python3", 'echo "begins: $*"')
    command = ["make", "-f", ROOT / "Makefile", "setup", "PYTHON=/no/such/python"]
    done = ran(*command, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert "begins: labs/labkit/make.py setup" in done.stdout
