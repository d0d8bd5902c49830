"""Warm ranks, on which wrong answers are tried, are ranks like any other, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from labkit import launch
from labkit.errors import RankFailed
from labkit.launch import plans

from tests.labs.wrong_answers import warm

# The server imports what pytest has imported by now, TensorFlow included. Alone, as it looks for any rank.
pytestmark = [pytest.mark.slow, pytest.mark.alone]


def test_the_end_of_the_block_ends_the_servers():
    plan = plans.plan
    before = servers()
    with warm.ranks():
        assert launch.run(os.getpid, ranks=2, echo=False)
        assert servers() - before
    assert plans.plan is plan
    gone(lambda: servers() - before)


KILLED = """
import time, os
from labkit import launch
from tests.labs.wrong_answers import warm

def endless():
    print("started", flush=True)
    time.sleep(1000)

with warm.ranks():
    launch.run(endless, ranks=2, timeout=1000)
"""


def test_a_killed_runner_leaves_nothing():
    before = servers()
    runner = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert "started" in runner.stdout.readline()
    assert servers() - before
    runner.send_signal(signal.SIGKILL)
    runner.communicate()
    gone(lambda: servers() - before)


@pytest.fixture(scope="module")
def warm_ranks():
    with warm.ranks():
        yield


def look_around(comm):
    import numpy as np

    started_by = psutil.Process().parent().parent().cmdline()
    return comm.allgather(comm.rank), np.random.rand(), os.environ["MINE"], " ".join(started_by), os.getpid()


def test_they_are_real_ranks_with_the_variables_of_their_run(warm_ranks):
    for mine in ("first", "second"):
        results = launch.run(look_around, ranks=3, env={"MINE": mine}, echo=False)
        numbers, drawn, variables, started_by, processes = zip(*results, strict=True)
        assert numbers == ([0, 1, 2],) * 3
        assert len(set(drawn)) == len(set(processes)) == 3
        assert variables == (mine,) * 3
        assert all("warm/server.py" in one for one in started_by)


def test_gloos_ranks_are_warm_too(warm_ranks):
    def numbers():
        return os.environ["RANK"], psutil.Process().parent().parent().cmdline()[1].rpartition("/")[2]

    got = launch.run(numbers, ranks=2, controller="torch", echo=False)
    assert got == [("0", "server.py"), ("1", "server.py")]


def test_nothing_of_a_run_is_left_in_the_next(warm_ranks):
    def leave_a_mark():
        import numpy

        found = hasattr(numpy, "mark"), "MARK" in os.environ
        numpy.mark = os.environ["MARK"] = "here"
        return found

    for _ in range(2):
        assert launch.run(leave_a_mark, ranks=2, echo=False) == [(False, False)] * 2


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("os.kill(os.getpid(), 9)", "rank 1 died: its process was ended by signal 9 (SIGKILL)"),
        ("os._exit(7)", "rank 1 died: its process ended with exit status 7"),
        ("1 / 0", "rank 1 failed: ZeroDivisionError"),
        ("comm.Recv(bytearray(1))", "after 2 s without an end: rank 1 waits in"),
    ],
)
def test_bad_ends_are_named_as_ever_and_nothing_is_left(warm_ranks, how, says):
    def end_badly(comm):
        if comm.rank == 1:
            exec(how, {"os": os, "comm": comm})

    with pytest.raises(RankFailed) as caught:
        launch.run(end_badly, ranks=2, timeout=2, echo=False)
    assert says in str(caught.value)
    gone(lambda: [one for one in psutil.process_iter() if is_a_rank(one)])


def servers() -> set[int]:
    """The process numbers of the servers and of all their forks."""
    return {
        one.pid for one in psutil.process_iter(["cmdline"]) if "warm/server.py" in str(one.info["cmdline"])
    }


def is_a_rank(process: psutil.Process) -> bool:
    try:
        return process.pid in servers() and process.ppid() in servers()
    except psutil.Error:
        return False


def gone(look) -> None:
    """Wait until look() finds nothing."""
    end = time.monotonic() + 20
    while found := look():
        assert time.monotonic() < end, found
        time.sleep(0.1)
