"""The tests' own guard: a process that a test leaves behind is named and fails the run."""

from __future__ import annotations

import os
import re
import shutil
import signal

import labkit
import pytest

LEAKY = """\
import subprocess, sys

def test_leaves_a_process():
    command = [sys.executable, "-c", "import time; time.sleep(300)"]
    subprocess.Popen(command, start_new_session=True).returncode = 0  # Python need not warn of it
"""


STOPPED = """\
import os, signal, subprocess, time
from pathlib import Path
import pytest

@pytest.fixture
def server():
    with subprocess.Popen(["sleep", "300"]) as process:
        yield
        process.kill()
    Path("stopped").touch()

def test_is_told_to_end(server, request):
    worker = hasattr(request.config, "workerinput")
    os.kill(os.getppid() if worker else os.getpid(), signal.SIGTERM)
    time.sleep(300)
"""


def bring_conftest(checkout) -> None:
    """Give a small checkout the settings and fixtures of this one's tests."""
    real = labkit.__file__.split("/labs/labkit/")[0]
    helpers = (
        "tests/conftest.py",
        "tests/checkout.py",
        "tests/left_behind.py",
        "tests/authoring/tiny_lab.py",
    )
    for name in ("pyproject.toml", *helpers):
        (checkout.root / name).parent.mkdir(exist_ok=True)
        shutil.copy(f"{real}/{name}", checkout.root / name)


@pytest.mark.slow
def test_a_process_left_behind_fails_the_run(checkout):
    bring_conftest(checkout)
    (checkout.root / "tests/test_leaky.py").write_text(LEAKY)
    ended = checkout.python("-m", "pytest", "-q", "tests/test_leaky.py")
    found = re.search(r"LEFT BEHIND by the tests: (\d+) .*time.sleep\(300\)", ended.stdout)
    assert found, ended.stdout + ended.stderr
    os.kill(int(found[1]), signal.SIGKILL)
    assert "1 passed" in ended.stdout
    assert ended.returncode == 1

    (checkout.root / "tests/test_leaky.py").write_text("def test_nothing():\n    pass\n")
    ended = checkout.python("-m", "pytest", "-q", "tests/test_leaky.py")
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_fixtures_are_ended_when_the_run_is_told_to_end(checkout, workers):
    bring_conftest(checkout)
    (checkout.root / "tests/test_stopped.py").write_text(STOPPED)
    ended = checkout.python("-m", "pytest", "-q", *workers, "tests/test_stopped.py")
    assert ended.returncode == pytest.ExitCode.INTERRUPTED, ended.stdout
    assert (checkout.root / "stopped").exists()
    assert "LEFT BEHIND" not in ended.stdout
