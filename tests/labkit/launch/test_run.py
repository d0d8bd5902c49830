"""launch.run on local ranks: results, output, variables, and what a rank does at its end."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from labkit import lab, launch, world
from labkit.launch import plans
from labkit.launch.session import Session

pytestmark = pytest.mark.usefixtures("nothing_left")
FORTY = 40  # a name of this module that a function below refers to


def test_results_come_back_by_rank():
    def place(comm, shift, factor=1):
        return comm.rank * factor + shift + FORTY, comm.size, world.rank(), world.launcher()

    results = launch.run(place, 2, ranks=3, factor=10)
    assert results == [(42, 3, 0, "labkit"), (52, 3, 1, "labkit"), (62, 3, 2, "labkit")]


def test_a_function_without_comm_a_partial_and_a_class_made_here():
    class Box:
        def __init__(self, value):
            self.value = value

    def fill(value):
        return Box(value + world.rank())

    boxes = launch.run(functools.partial(fill, 5), ranks=2)
    assert [box.value for box in boxes] == [5, 6]
    # The very class, so that isinstance works in a notebook.
    assert all(type(box) is Box for box in boxes)


def test_large_arrays_travel_both_ways():
    import numpy as np

    sent = np.arange(4_000_000, dtype=np.float64)
    both = np.arange(4)[2]  # a number of NumPy's
    back = launch.run(lambda data: data[::-1] * (1 + world.rank()), sent, ranks=both, threads=both)
    assert np.array_equal(back[1], 2 * sent[::-1])


def test_output_is_prefixed_and_complete(capfd):
    def speak(comm):
        print("from Python", comm.rank)
        print("to stderr", file=sys.stderr)
        os.write(1, b"from C\n")
        subprocess.run(["echo", "from a child"], check=True)
        print("1 %\r50 %\r100 %")
        print("x" * 100_000)
        print("no newline", end="")

    launch.run(speak, ranks=2)
    out = capfd.readouterr().out.splitlines()
    texts = ["to stderr", "from C", "from a child", "100 %", "x" * 100_000, "no newline"]
    for rank in (0, 1):
        mine = [line for line in out if line.startswith(f"[{rank}] ")]
        assert mine == [f"[{rank}] {text}" for text in [f"from Python {rank}", *texts]]
    assert len(out) == 14


def seconds_of_a_line(pieces: int) -> float:
    """Processor time of a line that comes in so many pieces."""
    shown = []
    begin = time.process_time()
    with Session(1, shown.append) as session:
        for _ in range(pieces):
            session._take_output(0, b"x" * 100)
        session._take_output(0, b"\nlast\n")
    assert shown == ["[0] " + "x" * 100 * pieces, "[0] last"]
    return time.process_time() - begin


def test_a_line_that_comes_in_many_pieces():
    """Each piece costs the same. Where it costs as much as the line so far, the ratio is 64."""
    fewer, more = (min(seconds_of_a_line(pieces) for _ in range(3)) for pieces in (5000, 40_000))
    assert more < 24 * fewer


def test_output_streams_while_ranks_run(monkeypatch):
    seen = {}

    class Screen(io.StringIO):
        def write(self, text):
            seen.setdefault(text, time.monotonic())
            return len(text)

    monkeypatch.setattr(sys, "stdout", Screen())

    def slow():
        print("first")
        time.sleep(1)
        print("last")

    launch.run(slow, ranks=1)
    assert seen["[0] last"] - seen["[0] first"] > 0.7


def test_echo_off_shows_nothing(capfd):
    assert launch.run(lambda: print("quiet " * 50_000), ranks=2, echo=False) == [None, None]
    assert capfd.readouterr().out == ""


def test_a_slurm_allocation_around_the_notebook_is_not_used(monkeypatch):
    words = "JOB_ID=7 NODELIST=no[1-2] JOB_NODELIST=no[1-2] NTASKS=8 NNODES=2 PROCID=0"
    words += " TASKS_PER_NODE=4(x2) JOB_NUM_NODES=2"
    for word in words.split():
        monkeypatch.setenv(*f"SLURM_{word}".split("="))
    monkeypatch.setenv("PMI_FD", "77")
    monkeypatch.setenv("HYDRA_LAUNCHER", "slurm")

    def look(comm):
        return comm.size, [name for name in os.environ if name.startswith("SLURM")]

    assert launch.run(look, ranks=2) == [(2, []), (2, [])]


def test_threads_env_and_lab_reach_the_ranks(monkeypatch):
    monkeypatch.setenv("LABKIT_LAB", "00_check_environment")

    def look():
        return [os.environ[name] for name in (*plans.THREAD_VARIABLES, "SECRET")], lab.current()

    three = launch.run(look, ranks=1, threads=3, env={"SECRET": "x"})
    assert three == [(["3"] * 5 + ["x"], "00_check_environment")]
    (first, *_), _ = launch.run(look, ranks=1, env={"SECRET": ""}, controller="torch")[0]
    assert first == str(world.cores())


@pytest.mark.parametrize(
    ("ranks", "own", "expected"), [(2, None, None), (3, None, "1"), (3, "0", "0")]
)
def test_ranks_that_share_cores_sleep_while_they_wait(ranks, own, expected, monkeypatch):
    name = "MPIR_CVAR_CH4_PROGRESS_THROTTLE"
    monkeypatch.setattr(world, "cores", lambda: 2)
    if own:
        monkeypatch.setenv(name, own)
    assert launch.run(lambda: os.environ.get(name), ranks=ranks) == [expected] * ranks


def test_neither_ranks_nor_their_launcher_are_given_secrets(monkeypatch):
    """Hydra hands its environment to whoever comes to its control port first."""
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "x")
    monkeypatch.setenv("A_VARIABLE", "x")

    def given() -> set[str]:
        import psutil

        names: set[str] = set()
        for process in (psutil.Process(), *psutil.Process().parents()):
            if any(word.endswith("supervisor.py") for word in process.cmdline()):
                return names
            names |= process.environ().keys()
        raise LookupError("the supervisor is not among the processes above")

    for names in launch.run(given, ranks=2):
        assert "A_VARIABLE" in names
        assert "JUPYTERHUB_API_TOKEN" not in names


def test_two_runs_at_once_do_not_meet():
    code = "import sys; from labkit import launch\n"
    code += "def who(comm, name): return comm.allgather(name)\n"
    code += "print(launch.run(who, sys.argv[1], ranks=2))"
    runs = [
        subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    for name, run in zip("ab", runs, strict=True):
        assert run.communicate(timeout=120)[0] == f"{[[name] * 2] * 2}\n"


def leave_things_to_do(comm, folder: str) -> None:
    """For the end: a thread, a pool of threads, a function, a delete callback of MPI's, half a
    line."""
    import atexit
    import threading
    from concurrent.futures import ThreadPoolExecutor

    from mpi4py import MPI

    def leave(name: str, delay: float = 0) -> None:
        time.sleep(delay)
        Path(folder, f"{name}.{comm.rank}").touch()

    threading.Thread(target=leave, args=("thread", 0.2)).start()
    ThreadPoolExecutor().submit(leave, "pool", 0.2)
    atexit.register(leave, "function")
    key = MPI.Comm.Create_keyval(delete_fn=lambda *_: leave("finalized"))
    MPI.COMM_SELF.Set_attr(key, "deleted at the beginning of MPI_Finalize")
    print(f"half a line of rank {comm.rank}", end="")


def test_a_rank_does_at_its_end_what_a_program_does(tmp_path, capsys):
    left = tmp_path / "left"
    left.mkdir()
    launch.run(leave_things_to_do, str(left), ranks=2)
    assert sorted(file.name for file in left.iterdir()) == [
        f"{what}.{rank}" for what in ("finalized", "function", "pool", "thread") for rank in (0, 1)
    ]
    assert capsys.readouterr().out.count("half a line of rank") == 2
