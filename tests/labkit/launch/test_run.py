"""launch.run on local ranks: results, output, errors in words, hangs, deaths, controllers, cost."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from labkit import errors, lab, launch, world
from labkit.launch import plans

from tests.labkit.launch.leftovers import nothing_left  # noqa: F401 - a fixture

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
    back = launch.run(lambda data: data[::-1] * (1 + world.rank()), sent, ranks=2)
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
    for rank in (0, 1):
        mine = [line for line in out if line.startswith(f"[{rank}] ")]
        texts = [
            "from Python " + str(rank),
            "to stderr",
            "from C",
            "from a child",
            "100 %",
            "x" * 100_000,
        ]
        assert mine == [f"[{rank}] {text}" for text in [*texts, "no newline"]]
    assert len(out) == 14


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


def test_without_an_mpi_launcher(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MPI_HOME", raising=False)
    with pytest.raises(errors.NotHere, match="make setup"):
        launch.run(lambda: None)


def test_other_mpis_get_their_own_options(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("MPI_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin/mpiexec"
    launcher.write_text("#!/bin/sh\necho 'mpiexec (Open MPI) 5.0.11'\n")
    launcher.chmod(0o700)
    ((command, env),) = plans.mpi_plan(3, "folder", {})
    assert command[:6] == [str(launcher), "-n", "3", "--oversubscribe", "--host", "localhost:3"]
    assert env["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    launcher.rename(tmp_path / "bin/mpirun_rsh")
    ((command, _),) = plans.mpi_plan(2, "folder", {})
    assert command[1:6] == ["-export-all", "-np", "2", "localhost", "localhost"]


def test_a_slurm_allocation_around_the_notebook_is_not_used(monkeypatch):
    around = {
        "SLURM_JOB_ID": "7",
        "SLURM_NODELIST": "nowhere[1-2]",
        "SLURM_JOB_NODELIST": "nowhere[1-2]",
    }
    around |= {
        "SLURM_NTASKS": "8",
        "SLURM_NNODES": "2",
        "SLURM_TASKS_PER_NODE": "4(x2)",
        "SLURM_PROCID": "0",
    }
    around |= {"SLURM_JOB_NUM_NODES": "2", "PMI_FD": "77", "HYDRA_LAUNCHER": "slurm"}
    for name, value in around.items():
        monkeypatch.setenv(name, value)

    def look(comm):
        return comm.size, [name for name in os.environ if name.startswith("SLURM")]

    assert launch.run(look, ranks=2) == [(2, []), (2, [])]


def test_threads_env_and_lab_reach_the_ranks(monkeypatch):
    monkeypatch.setenv("LABKIT_LAB", "00_check_environment")

    def look():
        return [os.environ[name] for name in (*plans.THREAD_VARIABLES, "SECRET")], lab.current()

    assert launch.run(look, ranks=1, threads=3, env={"SECRET": "x"}) == [
        (["3"] * 5 + ["x"], "00_check_environment")
    ]
    (first, *_), _ = launch.run(look, ranks=1, env={"SECRET": ""}, controller="torch")[0]
    assert first == str(world.cores())


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
    assert [run.communicate(timeout=120)[0] for run in runs] == [
        "[['a', 'a'], ['a', 'a']]\n",
        "[['b', 'b'], ['b', 'b']]\n",
    ]


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
    done = {
        f"{what}.{rank}"
        for what in ("thread", "pool", "function", "finalized")
        for rank in range(2)
    }
    assert {file.name for file in left.iterdir()} == done
    assert capsys.readouterr().out.count("half a line of rank") == 2
