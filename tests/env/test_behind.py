"""JupyterLab opens while Horovod is compiled; what compiles ends with it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess

import psutil
import pytest

from env.install import behind
from tests import helpers

ROOT = Path(__file__).resolve().parents[2]
# A set-up that comes to where Horovod is compiled: its compiler sleeps.
SET_UP = """\
import sys
from pathlib import Path
from env.horovod import build
from env.install import behind, steps

venv = Path(sys.argv[1])
with (venv / "setup.lock").open("w") as lock:
    build.wait_for(lock, "set-up")
    step = steps.Step(6, 7, "Horovod", venv / "setup-logs" / "06-horovod.log")
    behind.go_on(step, venv)
    print("goes on", flush=True)
    step.run(["sleep", "4711"])
"""


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout with the kit's make.py; its Python and its JupyterLab do nothing but live for a
    moment."""
    (tmp_path / "labs" / "labkit").mkdir(parents=True)
    shutil.copy(ROOT / "labs" / "labkit" / "make.py", tmp_path / "labs" / "labkit")
    (tmp_path / ".venv" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    for name, seconds in (("python", 0), ("jupyter", 1)):
        helpers.program(tmp_path / ".venv" / "bin" / name, f"exec sleep {seconds}")
    return tmp_path


def run(*words: str, **more) -> CompletedProcess:
    """This Python with these words, in the kit's folder."""
    return helpers.ran(sys.executable, *words, cwd=ROOT, timeout=60, **more)


def set_up(root: Path) -> psutil.Process:
    """What compiles behind JupyterLab, once the set-up itself has ended."""
    done = run("-c", SET_UP, str(root / ".venv"), "--lab-first")
    assert done.returncode == 0, done.stderr
    assert "is compiled while you work" in done.stdout
    return psutil.Process(int((root / ".venv" / behind.PID).read_text()))


def is_free(lock: Path) -> bool:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def test_a_lab_says_how_far_horovod_is_and_what_compiles_ends_with_jupyterlab(checkout):
    compiling = set_up(checkout)
    assert not is_free(checkout / ".venv" / "setup.lock"), "every other goal of make waits"
    site = behind.stand_in(checkout / ".venv").parent
    venv = str(checkout / ".venv")
    program = f"import sys; sys.prefix = {venv!r}; sys.path.insert(0, {str(site)!r})"
    needs = run("-c", f"{program}; import horovod.torch")
    assert "Horovod is not here yet" in needs.stderr
    assert "behind.log is: goes on. Run this cell again" in needs.stderr
    make = str(checkout / "labs" / "labkit" / "make.py")
    lab = run(make, "lab", env=os.environ | {"MAKEFLAGS": ""})
    assert lab.returncode == 0, lab.stderr
    assert "The set-up of Horovod ends here" in lab.stdout
    assert not helpers.lives(compiling)
    assert is_free(checkout / ".venv" / "setup.lock")
    assert not [one for one in psutil.process_iter() if helpers.command_of(one) == "sleep 4711"]
