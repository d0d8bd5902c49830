"""Ranks that are forks of a process with the libraries are ranks like any other, and leave nothing
behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from labkit import launch
from labkit.launch import forks

from tests.helpers import ran, until
from tests.labkit.launch.leftovers import failed

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def forked(cold, monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_FORKS", "1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(forks, "_modules", lambda: ("numpy", "labkit.launch"))
    forks.end_all()  # other tests' servers
    yield
    forks.end_all()
    assert until(lambda: not servers(psutil.Process()))
    assert not list(tmp_path.glob("forks-*"))


def servers(starter: psutil.Process) -> list[psutil.Process]:
    """The servers that a process has started, and all their forks."""
    found = []
    for process in starter.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "fork_server.py" in str(process.cmdline()):
                found.append(process)
    return found


def look_around(comm):
    import numpy as np

    cores = len(os.sched_getaffinity(0))
    process = os.getpid(), np.random.rand()
    return comm.allgather(comm.rank), os.environ["MINE"], started_by(), cores, process


def started_by() -> str:
    return str(psutil.Process().parent().parent().cmdline())


def test_they_are_real_ranks_with_the_variables_of_their_run():
    for mine in ("first", "second"):
        results = launch.run(look_around, ranks=3, env={"MINE": mine}, echo=False)
        numbers, variables, starters, cores, processes = zip(*results, strict=True)
        assert numbers == ([0, 1, 2],) * 3
        assert variables == (mine,) * 3
        assert all("fork_server.py" in one for one in starters)
        assert set(cores) == {len(os.sched_getaffinity(0))}
        for different in zip(*processes, strict=True):
            assert len(set(different)) == 3


def test_ranks_of_other_controllers_are_forks_too():
    def number():
        return os.environ["RANK"], "fork_server.py" in started_by()

    numbers = launch.run(number, ranks=2, controller="torch", echo=False)
    assert numbers == [("0", True), ("1", True)]


def test_nothing_of_a_run_is_left_in_the_next():
    def leave_a_mark():
        import numpy

        found = hasattr(numpy, "mark"), "MARK" in os.environ
        numpy.mark = os.environ["MARK"] = "here"
        return found

    for _ in range(2):
        assert launch.run(leave_a_mark, ranks=2, echo=False) == [(False, False)] * 2


def test_children_of_ranks_end_with_the_run():
    def leave_a_child():
        return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid

    for child in launch.run(leave_a_child, ranks=2, echo=False):
        assert not psutil.pid_exists(child)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("os.kill(os.getpid(), 9)", "rank 1 died: its process was ended by signal 9 (SIGKILL)"),
        ("os._exit(7)", "rank 1 died: its process ended with exit status 7"),
        ("1 / 0", "rank 1 failed: ZeroDivisionError"),
        ("comm.Recv(bytearray(1))", "after 2 s without an end: rank 1 waits in"),
    ],
)
def test_bad_ends_are_named_as_ever_and_nothing_is_left(how, says):
    def end_badly(comm):
        if comm.rank == 1:
            exec(how, {"os": os, "comm": comm})

    assert says in str(failed(end_badly, ranks=2, timeout=2, echo=False))
    assert until(lambda: len(servers(psutil.Process())) == 1)  # the server, and no fork of it


def test_a_server_that_has_ended_is_started_again():
    for _ in range(2):
        assert launch.run(os.getpid, ranks=1, echo=False)
        (server,) = servers(psutil.Process())
        server.kill()


def test_runs_of_several_threads_share_a_server(monkeypatch):
    launch.run(os.getpid, ranks=1, echo=False)
    (server,) = servers(psutil.Process())
    monkeypatch.setattr(forks, "_PATIENCE", 10)
    server.suspend()  # until all have asked it
    with ThreadPoolExecutor(4) as pool:
        started = [pool.submit(launch.run, os.getpid, ranks=1, echo=False) for _ in range(4)]
        time.sleep(0.5)
        server.resume()
    assert len({run.result()[0] for run in started}) == 4
    assert until(lambda: servers(psutil.Process()) == [server])


def test_what_cannot_be_imported_leaves_ranks_cold(monkeypatch):
    monkeypatch.setattr(forks, "_modules", lambda: ("no_such_module",))
    assert launch.run(lambda: "cold", ranks=1, echo=False) == ["cold"]
    assert servers(psutil.Process()) == []


KILLED = """
import numpy, time
from labkit import launch

def endless():
    print("started", flush=True)
    time.sleep(1000)

launch.run(endless, ranks=2, timeout=1000)
"""


def test_a_killed_notebook_leaves_nothing(tmp_path):
    env = os.environ | {"TMPDIR": str(tmp_path)}
    notebook = subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=env
    )
    assert "started" in notebook.stdout.readline()
    starter = psutil.Process(notebook.pid)
    # The server; of each rank its guard and itself.
    assert until(lambda: len(servers(starter)) == 5)
    alive = servers(starter)
    notebook.send_signal(signal.SIGKILL)
    notebook.communicate()
    assert psutil.wait_procs(alive, timeout=20)[1] == []
    assert until(lambda: not list(tmp_path.glob("forks-*")))


FORKING = """
import numpy, os, sys
from labkit import launch

launch.run(len, "x", ranks=1)
if os.fork() == 0:
    sys.exit()
os.wait()
print(launch.run(len, "x", ranks=1))
"""


def test_a_fork_of_the_notebook_leaves_the_server_alone():
    done = ran(sys.executable, "-c", FORKING)
    assert done.stdout == "[1]\n", done.stderr


IMPATIENT = """
import json, sys
from labkit.launch import fork_server
fork_server.LOOK = fork_server.IDLE = 0.1
fork_server.main(sys.argv[1], json.dumps(sys.path), "json")
"""


def test_a_server_that_nobody_asks_ends(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, str(folder / "socket")], stdin=subprocess.PIPE
    )
    assert server.wait(60) == 0
    assert not folder.exists()
    server.stdin.close()
