"""However a run ends, nothing of it stays: no process, no temporary folder, no shared memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from labkit.launch import runs

from tests.helpers import command_of, until
from tests.labkit.launch.leftovers import failed, marked

pytestmark = pytest.mark.usefixtures("nothing_left")
JOB = str(Path(__file__).with_name("endless_job.py"))


@pytest.fixture
def running():
    """Starts the endless job with both ranks up; gives its process."""
    started = []

    def start(*arguments: str) -> subprocess.Popen:
        job = subprocess.Popen([sys.executable, JOB, *arguments], stdout=subprocess.PIPE, text=True)
        started.append(job)
        assert sorted(job.stdout.readline() for _ in range(2)) == ["[0] up\n", "[1] up\n"]
        return job

    yield start
    for job in started:
        job.kill()
        job.wait()
        job.stdout.close()


def below(process: subprocess.Popen, name: str) -> list[psutil.Process]:
    """The descendants of `process` with `name` in their command lines."""
    family = psutil.Process(process.pid).children(recursive=True)
    return [one for one in family if name in command_of(one)]


@pytest.mark.parametrize(
    ("controller", "how"),
    [
        ("mpi", signal.SIGKILL),
        ("mpi", signal.SIGTERM),
        ("mpi", signal.SIGINT),
        ("mpi", signal.SIGHUP),
        ("torch", signal.SIGKILL),
    ],
)
def test_the_starter_is_killed(running, nothing_left, controller, how):
    job = running(controller)
    # Two ranks, their watchers and children, the supervisor; mpiexec.
    assert len(marked(nothing_left)) >= 7 + (controller == "mpi")
    job.send_signal(how)
    assert job.wait(30) != 0
    assert until(lambda: not marked(nothing_left))


@pytest.mark.parametrize("victim", ["supervisor.py", "mpiexec", "hydra_pmi_proxy"])
def test_a_process_between_is_killed(running, nothing_left, victim):
    job = running()
    below(job, victim)[0].kill()
    assert job.wait(60) == 1  # the starter itself says what happened
    assert until(lambda: not marked(nothing_left))


@pytest.mark.parametrize(("controller", "stays"), [("torch", None), ("mpi", "sleep 1000")])
def test_starter_and_supervisor_are_killed_at_once(running, nothing_left, controller, stays):
    """Two lines of defense are gone. The third: the system tells each rank's watcher that its
    parent died.

    With MPI the system ends mpiexec, and hydra's proxy kills ranks and watchers: only daemons of
    ranks could be left.
    """
    job = running(controller)
    daemons = below(job, "sleep 1000")
    (supervisor,) = below(job, "supervisor.py")
    folder = supervisor.cmdline()[-1]
    job.send_signal(signal.SIGSTOP)  # else it may see the other's end, and clear up, before its own
    supervisor.kill()
    job.kill()
    shutil.rmtree(folder)  # of those who would have removed it nobody is left
    assert until(lambda: all(stays and stays in command for command in marked(nothing_left)))
    for daemon in daemons:
        if daemon.is_running():
            daemon.kill()


FORKING = """
import os, threading
from labkit import launch
from tests.labkit.launch.endless_job import endless

def fork():
    os.read(0, 1)  # when the ranks are up
    if os.fork() == 0:
        os.write(1, b"forked\\n")
        os.read(0, 1)  # until the test closes it
        os._exit(0)

threading.Thread(target=fork).start()
launch.run(endless, ranks=2)
"""


@pytest.mark.slow
def test_a_forked_child_of_the_starter_holds_the_pipe_open(nothing_left):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen([sys.executable, "-c", FORKING], **pipes) as job:
        assert sorted(job.stdout.readline() for _ in range(2)) == [b"[0] up\n", b"[1] up\n"]
        job.stdin.write(b"1")
        assert job.stdout.readline() == b"forked\n"
        job.kill()
        job.wait()
        forked = f"{sys.executable} -c"
        assert until(lambda: all(command.startswith(forked) for command in marked(nothing_left)))
        assert marked(nothing_left)


def leave_children(ending: str):
    import subprocess
    import time

    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if ending == "raise":
        raise ValueError("enough")
    if ending == "hang":
        time.sleep(1000)


@pytest.mark.parametrize(
    ("run", "ending"), [(runs.run, "return"), (failed, "raise"), (failed, "hang")]
)
def test_children_of_ranks_end_with_the_run(nothing_left, run, ending):
    run(leave_children, ending, ranks=2, timeout=1 if ending == "hang" else 60)
    assert marked(nothing_left) == []  # at once, not after a while


@pytest.mark.slow
def test_an_interrupt_in_the_middle_of_a_run(nothing_left):
    def endless(comm):
        comm.recv()

    parent = os.getpid()
    subprocess.Popen(["sh", "-c", f"sleep 2; kill -INT {parent}"]).returncode = 0
    with pytest.raises(KeyboardInterrupt):
        runs.run(endless, ranks=2, timeout=60)
    left = marked(nothing_left)
    assert not [command for command in left if "python" in command or "mpiexec" in command]


def hang_on_a_communicator(comm, folder):
    maps = Path("/proc/self/maps").read_text().splitlines()
    shared = {line.split()[-1] for line in maps if "/dev/shm/mpich" in line}
    (folder / str(comm.rank)).write_text("\n".join(shared))
    time.sleep(1000)


def hang_on_mpi_of_its_own(folder):
    from mpi4py import MPI

    MPI.COMM_WORLD.Barrier()
    hang_on_a_communicator(MPI.COMM_WORLD, folder)


@pytest.mark.slow
@pytest.mark.parametrize("hang", [hang_on_a_communicator, hang_on_mpi_of_its_own])
def test_shared_memory_of_a_killed_run(tmp_path, hang):
    failed(hang, tmp_path, ranks=2, timeout=1)
    names = [(tmp_path / rank).read_text().split() for rank in "01"]
    assert not [name for name in sum(names, []) if os.path.exists(name)]
