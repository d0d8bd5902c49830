"""For all tests: a learner's folder of their own, no window, and no process left behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
from authoring import generate
from labkit import lab, paths, world
from labkit.launch import forks

from tests import helpers
from tests.authoring import tiny_lab
from tests.checkout import Checkout

# Set before any test starts a process, so that what a test leaves behind can be told from other
# processes.
os.environ["LABKIT_TEST_RUN"] = helpers.RUN
os.environ["MPLBACKEND"] = "Agg"
# Where it is set, print writes a line and its end apart, and lines of two ranks run into one
# another.
os.environ.pop("PYTHONUNBUFFERED", None)
# Where it is set, each kernel, rank and job would compile all of the kit anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
PYTHON3 = shutil.which("python3")
if PYTHON3 and Path(PYTHON3).read_bytes().startswith(b"#!"):
    # Pyenv's is a slow shell script, and make asks for python3 several times for each goal.
    os.environ["PATH"] = os.pathsep.join([os.path.join(sys.base_prefix, "bin"), os.environ["PATH"]])
os.environ["JUPYTER_PREFER_ENV_PATH"] = (
    "1"  # the kernel of this environment, not one of the user's own
)

TESTS = Path(__file__).parent
LEFT = pytest.StashKey[list[str]]()
# They wait for Slurm's daemons more than they compute, and take long: they begin first.
TABLETOP = (
    "slurm/test_tabletop.py",
    "slurm/test_jobs.py",
    "slurm/test_site_doctor.py",
    "slurm/test_hub.py",
    "slurm/test_hub_survives.py",
    "slurm/test_hub_users.py",
    "labs/test_lab42_on_a_tabletop.py",
    "labs/test_lab70_on_a_tabletop.py",
)
# The first looks whether the machine's mounts stay the same, the other mounts a small disk.
MOUNTS = ("slurm/test_tabletop.py", "slurm/test_hub_survives.py")


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """Progress, records and plots of a test go to a folder of its own, and no lab is current."""
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path_factory.mktemp("home")))
    lab.reset_for_tests()
    yield
    lab.reset_for_tests()


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Checkout:
    """An empty checkout; in this process paths.root() is its folder."""
    made = Checkout(tmp_path / "checkout")
    monkeypatch.setattr(paths, "root", lambda: made.root)
    return made


@pytest.fixture
def built(checkout) -> Checkout:
    """A checkout with the tiny lab, its wrong answers, and its generated files."""
    tiny_lab.put(checkout)
    assert generate.write_all() == tiny_lab.WRITTEN
    return checkout


def pytest_configure(config):
    config.stash[LEFT] = []
    _hear_interrupts(config)


def _hear_interrupts(config) -> None:
    """A time limit ends the run with SIGTERM. As at Ctrl-C, fixtures then stop the servers that
    they started.

    A shell lets what it starts in the background ignore Ctrl-C, and so would all that tests start.
    """
    handler = _interrupt_once if hasattr(config, "workerinput") else _interrupt
    signal.signal(signal.SIGTERM, partial(handler, config))
    signal.signal(signal.SIGINT, partial(handler, config))


def _interrupt(config, *_) -> None:
    """End the run; its workers at once, for ten seconds later they would be killed, whatever they
    do."""
    if _has_workers(config):
        for worker in psutil.Process().children():
            worker.terminate()
    raise KeyboardInterrupt


def _interrupt_once(_, *__) -> None:
    """In a worker: its own machinery interrupts it again after five seconds, while fixtures clear
    up."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_generate_tests(metafunc):
    """REPEAT=10 runs each test ten times."""
    rounds = int(os.environ.get("REPEAT", "1"))
    if rounds > 1:
        metafunc.fixturenames.append("round_number")
        metafunc.parametrize("round_number", range(1, rounds + 1))


def pytest_collection_modifyitems(items):
    """The tests that take longest come first, so that all workers end at about the same time."""
    items.sort(key=_turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Which tests stay together. (With pytest 9.2, loadgroup of pytest-xdist 3.8 groups
    nothing.)"""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _group(nodeid)

    return ByGroup(config, log)


def _group(nodeid: str) -> str:
    """Those that share what their file sets up; those of MOUNTS; and each lab alone."""
    file = nodeid.split("::")[0].removeprefix("tests/")
    if file in MOUNTS:
        return "mounts"
    return nodeid if file == "labs/test_labs.py" else file


def pytest_runtest_setup(item):
    _hear_interrupts(item.config)  # a test may have interrupted itself, and been content with that
    if item.get_closest_marker("gpu") and world.device() == "cpu":
        pytest.skip("this machine has no GPU")


def _turn(item) -> int:
    if str(item.path.relative_to(TESTS)) in TABLETOP:
        return 0
    return 1 if item.get_closest_marker("slow") else 2


@pytest.hookimpl(trylast=True)  # an interrupted test's fixtures are ended by then
def pytest_sessionfinish(session):
    config = session.config
    forks.end_all()
    # Where there are workers, each has looked for itself.
    left = config.stash[LEFT] if _has_workers(config) else helpers.left_behind()
    if hasattr(config, "workeroutput"):  # this is a worker
        config.workeroutput["left"] = left
    elif left:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line("")
        for line in left:
            reporter.write_line(f"LEFT BEHIND by the tests: {line}", red=True)
        session.exitstatus = 1


def _has_workers(config) -> bool:
    return config.pluginmanager.has_plugin("dsession")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """A worker has ended: what it found counts here."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[LEFT].extend(output.get("left", []))
