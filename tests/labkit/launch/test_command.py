"""A command in the foreground: its status, signals, patience, and that nothing of it is left; and
what a launcher is told."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
import time

import psutil
import pytest
from labkit import launch
from labkit.errors import NotHere
from labkit.launch import plans

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
POLITE = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    time.sleep(60)
"""
INTERRUPTED = """
    import time
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        raise SystemExit(5)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


@pytest.mark.parametrize(
    ("code", "status"),
    [("pass", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 128 + 9)],
)
def test_the_commands_own_status_as_a_shell_tells_it(code, status):
    assert launch.run_to_end(python(code)) == (status, "")


@pytest.mark.parametrize(
    ("number", "code", "ended", "options"),
    [
        (signal.SIGTERM, POLITE, (7, "SIGTERM"), {}),
        (signal.SIGINT, INTERRUPTED, (5, "SIGINT"), {"start_new_session": True}),
    ],
)
def test_a_signal_is_passed_on(number, code, ended, options):
    before = signal.getsignal(number)
    threading.Timer(1.0, os.kill, (os.getpid(), number)).start()
    assert launch.run_to_end(python(code), **options) == ended
    assert signal.getsignal(number) is before


@pytest.mark.slow
def test_what_does_not_end_is_killed_with_all_below_it():
    child = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STUBBORN!r}]); " + STUBBORN
    )
    before = set(psutil.Process().children(recursive=True))  # other tests' servers
    seen: set[psutil.Process] = set()
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(time.monotonic())
        seen.update(set(psutil.Process().children(recursive=True)) - before)

    ended = launch.run_to_end(python(child), timeout=1.5, patience=0.5, tick=tick)
    assert ended.cause == "timeout"
    assert len(ticks) > 2
    gone, alive = psutil.wait_procs(seen, timeout=5)
    assert len(gone) >= 2
    assert alive == []


def test_stderr_is_heard_line_by_line():
    lines: list[bytes] = []
    code = "import sys; print('a\\nb', file=sys.stderr)"
    assert launch.run_to_end(python(code), hear=lines.append) == (0, "")
    assert lines == [b"a\n", b"b\n"]


@pytest.fixture
def launchers(tmp_path, monkeypatch):
    """Folders with launchers, of which those of MPICH and Open MPI tell who they are."""
    for path, says in (
        ("hydra/bin/mpiexec", "HYDRA build details"),
        ("openmpi/bin/mpiexec", "mpiexec (Open MPI) 5.0.11"),
        ("rsh/bin/mpirun_rsh", ""),
        ("slurm/bin/mpiexec", "slurm 23.11.4"),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(f"#!/bin/sh\necho '{says}'\n")
        file.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MPI_HOME", raising=False)
    return tmp_path


JOB = {"ranks": 4, "nodes": 2, "each": 2, "hostfile": "a folder/hosts"}
VARIABLES = {"A": "1", "B": "with a space"}


@pytest.mark.parametrize(
    ("launcher", "where", "options"),
    [  # the ranks of a job on nodes of different sizes: -ppn would fill the first nodes
        ("hydra/bin/mpiexec", "plain", "-n 4"),
        ("hydra/bin/mpiexec", "job", "-n 4 -ppn 2"),
        ("hydra/bin/mpiexec", "uneven", "-n 4 -machinefile HOSTS"),
        ("openmpi/bin/mpiexec", "local", "-n 4 --oversubscribe --host localhost:4 -x A -x B"),
        ("openmpi/bin/mpiexec", "job", "-n 4 --map-by ppr:2:node -x A -x B"),
        ("openmpi/bin/mpiexec", "uneven", "-n 4 --map-by slot -x A -x B"),
        ("rsh/bin/mpirun_rsh", "plain", f"-export-all -np 4 {'localhost ' * 4}A=1"),
        ("rsh/bin/mpirun_rsh", "job", "-np 4 -hostfile HOSTS A=1"),
        ("rsh/bin/mpirun_rsh", "uneven", "-np 4 -hostfile HOSTS A=1"),
        ("slurm/bin/mpiexec", "plain", "--ntasks 4 --kill-on-bad-exit=1"),
        ("srun", "uneven", "--nodes 2 --ntasks 4 --distribution=block --kill-on-bad-exit=1"),
        ("ibrun", "job", ""),
    ],
)
def test_what_a_launcher_is_told(launchers, launcher, where, options):
    command = str(launchers / launcher)
    words = launch.launcher_options(command, where, variables=VARIABLES, **JOB)
    assert words == [{"HOSTS": "a folder/hosts"}.get(word, word) for word in options.split()]


def test_srun_starts_ranks_in_a_job_alone(launchers):
    with pytest.raises(NotHere, match="only in a batch job. `make submit"):
        launch.launcher_options(str(launchers / "slurm/bin/mpiexec"), "local", ranks=2)


def test_ranks_start_with_the_launcher_that_is_there(launchers, monkeypatch):
    with pytest.raises(NotHere, match="make setup"):
        launch.run(lambda: None)
    for name, begin, variables in (
        ("openmpi", "bin/mpiexec -n 2 --oversubscribe --host localhost:2", True),
        ("rsh", "bin/mpirun_rsh -export-all -np 2 localhost localhost", False),
    ):
        monkeypatch.setenv("MPI_HOME", str(launchers / name))
        ((command, env),) = plans.mpi_plan(2, "folder", {})
        assert " ".join(command).startswith(f"{launchers / name}/{begin} {sys.executable}")
        assert ("OMPI_ALLOW_RUN_AS_ROOT" in env) == variables
