"""run_to_end: a command's status, signals, patience, and that nothing of it is left."""

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

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
POLITE = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    time.sleep(60)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def later(number: int, seconds: float = 1.0) -> None:
    """This process gets the signal after so many seconds."""
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()


@pytest.mark.parametrize(("code", "status"), [("pass", 0), ("raise SystemExit(3)", 3)])
def test_the_commands_own_status(code, status):
    assert launch.run_to_end(python(code)) == (status, "")


def test_a_signal_that_ends_it_is_told_as_a_shell_does():
    assert launch.run_to_end(python("import os; os.kill(os.getpid(), 9)")) == (128 + 9, "")


def test_sigterm_is_passed_on():
    later(signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    assert launch.run_to_end(python(POLITE)) == (7, "SIGTERM")
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interrupt_reaches_a_command_in_a_session_of_its_own():
    later(signal.SIGINT)
    code = (
        "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    raise SystemExit(5)"
    )
    assert launch.run_to_end(python(code), start_new_session=True) == (5, "SIGINT")


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
    ended = launch.run_to_end(
        python("import sys; print('a\\nb', file=sys.stderr)"), hear=lines.append
    )
    assert ended == (0, "")
    assert lines == [b"a\n", b"b\n"]


@pytest.fixture
def launchers(tmp_path):
    """Programs of these names: Open MPI's tells who it is."""

    def path(name: str, says: str = "HYDRA build details") -> str:
        file = tmp_path / says.split()[0] / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\necho {says}\n")
        file.chmod(0o755)
        return str(file)

    return path


def test_one_table_of_launchers_options(launchers):
    hydra = launchers("mpiexec")
    openmpi = launchers("mpiexec", "mpiexec (Open MPI) 5.0".replace("(", "'('").replace(")", "')'"))
    rsh = launchers("mpirun_rsh")
    assert [launch.flavor(name) for name in (hydra, openmpi, rsh)] == [
        "hydra",
        "openmpi",
        "mpirun_rsh",
    ]
    options = launch.launcher_options
    assert options(hydra, "plain", ranks=2) == ["-n", "2"]
    assert options(rsh, "plain", ranks=2) == ["-export-all", "-np", "2", "localhost", "localhost"]
    assert options(openmpi, "local", ranks=2)[-2:] == ["--host", "localhost:2"]
    sizes = {"ranks": 4, "nodes": 2, "each": 2, "hostfile": "a folder/hosts"}
    sizes["variables"] = {"A": "1", "B": "with a space"}
    assert options(rsh, "job", **sizes) == ["-np", "4", "-hostfile", "a folder/hosts", "A=1"]
    assert options(openmpi, "job", **sizes)[-4:] == ["-x", "A", "-x", "B"]
    assert options(hydra, "job", **sizes) == ["-n", "4", "-ppn", "2"]
    assert options("ibrun", "job", **sizes) == []
    of_file = ["-n", "4", "-machinefile", "a folder/hosts"]
    assert options(hydra, "uneven", **sizes) == of_file, "-ppn would fill the first nodes"
    assert options(openmpi, "uneven", **sizes)[:4] == ["-n", "4", "--map-by", "slot"]
    for launcher in (rsh, "srun"):
        assert options(launcher, "uneven", **sizes) == options(launcher, "job", **sizes)
