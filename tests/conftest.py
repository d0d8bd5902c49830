"""For all tests: a learner's folder of their own, no window, and no process left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from labkit import lab, paths

RUN = uuid.uuid4().hex
# Set before any test starts a process, so that what a test leaves behind can be told from other processes.
os.environ["LABKIT_TEST_RUN"] = RUN
os.environ["MPLBACKEND"] = "Agg"
# Where it is set, print writes a line and its end apart, and lines of two ranks run into one another.
os.environ.pop("PYTHONUNBUFFERED", None)
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # the kernel of this environment, not one of the user's own

TALLY = pytest.StashKey[dict[str, list[int]]]()


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """Progress, records and plots of a test go to a folder of its own, and no lab is current."""
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path_factory.mktemp("home")))
    lab.reset_for_tests()
    yield
    lab.reset_for_tests()


class Checkout:
    """A small checkout of its own, with labkit in it, to generate labs in and to run commands in."""

    def __init__(self, root: Path):
        self.root = root
        for name in ("solutions", "labs", "notebooks", "tests/labs/wrong_answers"):
            (root / name).mkdir(parents=True)
        real = paths.root()
        shutil.copytree(
            real / "labs/labkit", root / "labs/labkit", ignore=shutil.ignore_patterns("__pycache__")
        )
        for file in (real / "tests/__init__.py", *(real / "tests/labs/wrong_answers").glob("[!0-9]*.py")):
            shutil.copy(file, root / file.relative_to(real))
        (root / "README.md").write_text(
            "# Labs\n\n<!-- labs:begin -->\n<!-- labs:end -->\n", encoding="utf-8"
        )

    def python(self, *arguments: str, timeout: float = 120, **more) -> subprocess.CompletedProcess:
        """Run this Python in the checkout, with the checkout's labkit."""
        env = {**os.environ, "PYTHONPATH": str(self.root / "labs"), **more.pop("env", {})}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **more,
        )


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Checkout:
    """An empty checkout; in this process paths.root() is its folder."""
    made = Checkout(tmp_path / "checkout")
    monkeypatch.setattr(paths, "root", lambda: made.root)
    return made


def pytest_configure(config):
    config.stash[TALLY] = {}
    # A time limit ends the run with SIGTERM. As at Ctrl-C, fixtures then stop the servers that they started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell lets what it starts in the background ignore Ctrl-C, and so would all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tally(request) -> dict[str, list[int]]:
    """Stem -> [wrong answers seeded, rejected], for the summary."""
    return request.config.stash[TALLY]


def pytest_terminal_summary(terminalreporter, config):
    counts = list(config.stash[TALLY].values())
    if counts:
        seeded, rejected = (sum(column) for column in zip(*counts, strict=True))
        terminalreporter.write_line(
            f"Wrong answers: {seeded} seeded in {len(counts)} labs, {rejected} rejected."
        )


def pytest_sessionfinish(session):
    left = _left_behind()
    if left:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line("")
        for line in left:
            reporter.write_line(f"LEFT BEHIND by the tests: {line}", red=True)
        session.exitstatus = 1


def _left_behind(patience: float = 5.0) -> list[str]:
    """Processes of this run that are still there after a moment."""
    end = time.monotonic() + patience
    while True:
        left = [line for process in psutil.process_iter() if (line := _ours(process))]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.2)


def _ours(process: psutil.Process) -> str | None:
    """One line on the process if it belongs to this test run and should have ended."""
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return None
        marked = f"LABKIT_TEST_RUN={RUN}".encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
        command = " ".join(process.cmdline())
        # A child that was forked without a new program shows the environment that pytest was started with.
        child = any(parent.pid == os.getpid() for parent in process.parents())
        if not (marked or child) or "resource_tracker" in command:  # Python's own, it ends with pytest
            return None
        return f"{process.pid} {command[:150]}"
    except (psutil.Error, OSError):
        return None
