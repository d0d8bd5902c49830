"""Processes of the fork server: they answer, they may die or hang, and none of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from labkit import launch

from tests.helpers import end_fork_server, lives, until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _no_server_is_left():
    yield
    end_fork_server()


def gone(pids: list[int]) -> bool:
    """Whether none of these lives any more, after a while at the latest."""
    return until(
        lambda: not any(psutil.pid_exists(pid) and lives(psutil.Process(pid)) for pid in pids)
    )


def test_each_process_answers_and_none_is_left():
    def work(pipe, way):  # a function that no module offers, as in a notebook
        print("begun", way)
        pipe.send((os.getpid(), os.environ["WAY"]))
        if way == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "raises":
            raise ValueError("no more")
        time.sleep(1000)

    env = {**os.environ, "WAY": "own"}
    with launch.processes([(work, way) for way in ("dies", "raises", "hangs")], env) as running:
        answers = [one.pipe.recv() for one in running]
        for one in running[:2]:
            with pytest.raises(EOFError):
                one.pipe.recv()
            one.process.join(30)
        assert [one.process.exitcode for one in running] == [-signal.SIGKILL, 1, None]
        logs = [one.log.read_text() for one in running]
    assert [way for _, way in answers] == ["own"] * 3
    assert logs[0] == "begun dies\n"
    assert "ValueError: no more" in logs[1]
    assert gone([pid for pid, _ in answers])
    assert "WAY" not in os.environ


def test_an_error_in_the_block_ends_all():
    def stand(pipe):
        pipe.send(os.getpid())
        time.sleep(1000)

    pids = []

    def fail():
        with launch.processes([(stand,)] * 2, dict(os.environ)) as running:
            pids.extend(one.pipe.recv() for one in running)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gone(pids)


# Two processes, one of which stands still, the other stopped. It prints their numbers, and waits.
SCRIPT = """
import os, signal, time
from labkit import launch

print("main", flush=True)  # once: a process does not run the script again


def stand(pipe, stopped):
    pipe.send(os.getpid())
    if stopped:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)


with launch.processes([(stand, False), (stand, True)], dict(os.environ)) as running:
    print(*(one.pipe.recv() for one in running), flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_script_that_is_killed_or_interrupted(number, tmp_path):
    """SIGINT goes to the whole group, as from a keyboard."""
    (tmp_path / "script.py").write_text(SCRIPT)
    script = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert script.stdout.readline() == "main\n"
    pids = [int(word) for word in script.stdout.readline().split()]
    below = [process.pid for process in psutil.Process(script.pid).children(recursive=True)]
    assert set(pids) < set(below)
    (os.killpg if number == signal.SIGINT else os.kill)(script.pid, number)
    rest, errors = script.communicate(timeout=60)
    assert rest == ""
    assert errors.count("Traceback") == (number == signal.SIGINT)
    assert gone(below)
