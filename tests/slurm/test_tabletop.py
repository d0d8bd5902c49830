"""The tabletop cluster on real daemons: commands, links, failures, and that nothing is left
behind."""

from __future__ import annotations

import contextlib
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from labkit import paths
from labkit.errors import LabError

from slurm import tabletop
from slurm.tabletop import config, holder, needs
from slurm.tabletop.settings import spell_rate
from tests.helpers import awaited, command_of, lives, ran
from tests.slurm import link
from tests.slurm.own_machine import OwnMachine, command_line, needs_root, needs_slurm
from tests.slurm.traces import Traces, machine, name

pytestmark = [needs_slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tabletop")


@pytest.fixture(scope="module")
def table(home):
    """One cluster for the tests that leave it whole."""
    with tabletop.up("whole", nodes=2, bandwidth="200mbit", home=home) as made:
        yield made


def states(table, job: str) -> str:
    return table.run(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]).stdout.strip()


def submit(table, work: str, *options: str) -> str:
    """The number of a new job."""
    command = ["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", work]
    return table.run(command).stdout.strip()


def test_each_node_is_a_machine_of_its_own(table):
    script = (
        "hostname; cat /sys/class/net/eth0/address; stat -c %d /dev/shm; readlink /proc/self/ns/pid"
    )
    first, second = (
        table.run(["tabletop-node", n, "bash", "-c", script]).stdout.split() for n in ("1", "node2")
    )
    assert (first[0], second[0]) == ("node1", "node2")
    assert all(here != there for here, there in zip(first, second, strict=True))
    echo = ["bash", "-c", "echo $(hostname) $CUDA_VISIBLE_DEVICES"]
    devices = table.run(["srun", "-N2", "--gpus-per-node=2", *echo])
    assert sorted(devices.stdout.splitlines()) == ["node1 0,1", "node2 0,1"]
    hosts = ["getent", "hosts", "node2", "10.77.0.11"]
    names = table.run(["tabletop-node", "1", *hosts]).stdout.split()
    assert names == ["10.77.0.12", "node2", "10.77.0.11", "node1"]
    assert "is not running" in table.run(["tabletop-node", "7", "true"]).stderr


# As another user: the owners of all processes that are seen.
LOOK = "setpriv --reuid=1234 --regid=1234 --clear-groups bash -c 'stat --format=%u /proc/[0-9]*'"


@pytest.mark.parametrize("place", ["tabletop-enter", "tabletop-node 1"])
def test_a_user_sees_no_processes_of_others(table, place):
    """A command line may hold a secret."""
    seen = table.run([*place.split(), *shlex.split(LOOK)])
    assert set(seen.stdout.split()) == {"1234"}, seen.stderr


LEAVES = (
    "bash -c 'sleep 3001 & disown; setsid nohup sleep 3001 & (setsid sleep 3001 &) ; sleep 0.5'"
)
STAYS = "bash -c '(setsid sleep 3002 &) ; sleep 3002'"


def sleeping(state: Path, seconds: int) -> int:
    """How many processes of a cluster sleep for so long."""
    everyone = psutil.Process(holder.alive(state)).children(recursive=True)
    return sum(command_of(process) == f"sleep {seconds}" for process in everyone)


@pytest.mark.parametrize("user", [os.geteuid(), 65534])
def test_what_a_job_leaves_running_ends_with_it(table, user):
    """And nothing else: another job of the same user on that node goes on, with what it has
    left."""
    if user and os.geteuid():
        pytest.skip("only root runs jobs of several users")
    run = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    run += [needs.program("sbatch"), "--parsable", "--chdir=/", "--output=/dev/null"]
    run += ["--nodelist=node1", "--wrap"]
    other = table.inside([*run, STAYS]).stdout.strip()
    awaited(lambda: sleeping(table.state, 3002) == 2)
    left = table.inside([*run, LEAVES]).stdout.strip()
    awaited(lambda: sleeping(table.state, 3001) == 3)
    awaited(lambda: states(table, left) == "COMPLETED")
    assert (sleeping(table.state, 3001), sleeping(table.state, 3002)) == (0, 2)
    table.run(["scancel", other])
    awaited(lambda: states(table, other) == "CANCELLED")
    assert sleeping(table.state, 3002) == 0


def test_commands_keep_folder_environment_stdin_and_status(table, tmp_path):
    place = tmp_path / "a folder with spaces"
    place.mkdir()
    script = 'pwd; echo "$WORD"; cat; exit 7'
    env = os.environ | {"WORD": "two words"}
    done = table.run(["srun", "bash", "-c", script], cwd=place, env=env, input="typed\n")
    assert done.stdout.splitlines() == [str(place), "two words", "typed"]
    assert done.returncode == 7
    killed = table.inside(["bash", "-c", "kill -TERM $$"]).returncode
    assert killed in (-signal.SIGTERM, 128 + signal.SIGTERM)
    # A job of another Slurm.
    other = {"SLURM_JOB_ID": "999", "SLURM_CONF": "/none", "SLURM_NODELIST": "elsewhere"}
    assert "node" in table.run(["srun", "hostname"], env=os.environ | other).stdout
    source = f". {table.state}/env.sh; "
    sourced = ran("bash", "-c", f"{source * 2}echo $SITE $PATH; sinfo -h -o %P")
    assert sourced.stdout.split()[0] == "tabletop"
    assert sourced.stdout.count(str(table.state / "bin")) == 1
    assert sourced.stdout.splitlines()[1] == "tabletop*"


def test_a_terminal_stays_a_terminal(table):
    script = "test -t 0 && test -t 1 && echo terminal $(hostname)"
    inner = ["salloc", "-N2", "srun", "-N1", "--pty", "bash", "-c", script]
    command = ["setsid", "--wait", "--ctty", *inner]  # as in a terminal window
    leader, follower = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
    with subprocess.Popen(command, env=os.environ | table.env, **streams) as process:
        os.close(follower)
        shown = b""
        with contextlib.suppress(OSError):  # the other end of a terminal was closed
            while piece := os.read(leader, 4096):
                shown += piece
    os.close(leader)
    assert b"terminal node1" in shown
    assert process.returncode == 0


def test_a_batch_job_with_mpi_and_what_sacct_says(table, tmp_path):
    script = tmp_path / "ranks.sbatch"
    program = (
        "from mpi4py import MPI; import socket; w = MPI.COMM_WORLD; "
        "hosts = sorted(set(w.allgather(socket.gethostname()))); total = w.allreduce(w.rank); "
        "print(w.size, hosts, total) if w.rank == 0 else 0"
    )
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2\n#SBATCH --output=%x-%j.out\n"
        f"source {paths.root()}/slurm/sites/tabletop.sh\n"
        f"srun --mpi=pmi2 {sys.executable} -c '{program}'\nexit 3\n",
        encoding="utf-8",
    )
    command = ["sbatch", "--parsable", "--job-name=ranks", str(script)]
    job = table.run(command, cwd=tmp_path).stdout.strip()
    awaited(lambda: states(table, job) == "FAILED")
    assert (tmp_path / f"ranks-{job}.out").read_text(encoding="utf-8") == "4 ['node1', 'node2'] 6\n"
    fields = "jobid,jobname,state,exitcode,nnodes,nodelist"
    line = awaited(lambda: table.run(["sacct", "-n", "-P", "-j", job, "-o", fields]).stdout)
    assert line == f"{job}|ranks|FAILED|3:0|2|node[1-2]\n"
    sleeper = submit(table, "sleep 300")
    awaited(lambda: states(table, sleeper) == "RUNNING")
    assert sleeper in command_line("status", "--name", "whole", env=os.environ | _at(table)).stdout
    table.run(["scancel", sleeper])
    awaited(lambda: "CANCELLED" in table.run(["sacct", "-n", "-j", sleeper, "-o", "state"]).stdout)
    assert "no field" in table.run(["sacct", "-o", "nonsense"]).stderr


def _at(table) -> dict[str, str]:
    return {"LABKIT_HOME": str(table.state.parents[1])}


def fastest(table, asked: float, source: int, target: int) -> float:
    """The fastest of a few measurements of a link, as a share of `asked` [bit/s].

    A busy machine makes a link slower, never faster: so one fast measurement shows what the link
    carries, and none may be faster than the link is meant to be.
    """
    best = 0.0
    for _ in range(5):
        share = link.tcp(table, asked, source, target) * 1e6 / asked
        assert share < 1.1
        best = max(best, share)
        if best > 0.9:
            break
    return best


def test_links_keep_what_was_asked(table):
    try:
        for asked in (50e6, 400e6):
            for node in (1, 2):
                table.slow(node, spell_rate(asked))
            assert fastest(table, asked, 1, 2) > 0.9
            assert fastest(table, asked, 2, 1) > 0.9
    finally:
        for node in (1, 2):
            table.heal(node)


def test_a_node_fails_is_healed_and_slowed(home):
    with tabletop.up("frail", bandwidth="200mbit", home=home) as table:
        ends = table.state / "ends.txt"
        work = f"srun -N2 sleep 300; echo ended >{ends}"
        job = submit(table, work, "-N2")
        awaited(lambda: table.run(["tabletop-node", "2", "pgrep", "-x", "sleep"]).returncode == 0)
        table.fail(2)
        with pytest.raises(LabError, match="has failed already"):
            table.fail(2)
        with pytest.raises(LabError, match="tabletop-heal NODE=2 NAME=frail"):
            table.slow(2, "50mbit")
        awaited(lambda: states(table, job) == "NODE_FAIL")
        assert "down" in table.run(["sinfo", "-h", "-n", "node2", "-o", "%T"]).stdout
        shown = command_line("status", "--name", "frail", env=os.environ | _at(table)).stdout
        assert "unplugged" in shown
        table.heal(2)
        assert sorted(table.run(["srun", "-N2", "hostname"]).stdout.split()) == ["node1", "node2"]
        table.slow("node2", "20mbit")
        slowed = link.tcp(table, 20e6, 1, 2)
        table.heal(2)
        assert link.tcp(table, 200e6, 1, 2) > 5 * slowed
        with pytest.raises(LabError, match="NODE=3 is not a node of this cluster"):
            table.fail(3)


def _leaves_nothing(home: Path, name: str, end) -> None:
    before = machine()
    with tabletop.up(name, home=home) as table:
        job = submit(table, "srun sleep 300", "-N2")
        awaited(lambda: states(table, job) == "RUNNING")
        traces = Traces(holder.alive(table.state))
        assert {"munged", "slurmctld", "slurmd"} <= set(traces.names)
        assert len(traces.namespaces) >= 3 * 4
        assert machine() == before
        end(table)
        assert traces.left() == ([], set())
        assert machine() == before
    assert tabletop.find(name, home) is None


def test_down_leaves_nothing(home):
    _leaves_nothing(home, "goes", lambda table: table.down())


def test_a_killed_holder_takes_everything_along_and_its_folder_is_used_again(home):
    def kill(table):
        os.kill(holder.alive(table.state), signal.SIGKILL)

    _leaves_nothing(home, "dies", kill)
    state = home / "tabletop/dies"
    assert (state / "holder").exists()  # nobody was left to remove it
    silent = ran(state / "bin/sinfo")
    assert silent.returncode == 1
    assert "'dies' is not running" in silent.stderr
    with tabletop.up("dies", home=home) as again:
        assert int(submit(again, "true")) > 1  # no job number is given twice


def test_no_job_number_comes_twice_where_a_job_was_cut_and_a_life_had_none(home):
    numbers = []
    for life in ("a job that is cut", "no job", "another job"):
        with tabletop.up("numbers", nodes=1, home=home) as table:
            if life != "no job":
                numbers.append(int(submit(table, "sleep 300")))
        with (table.state / "jobs.txt").open("a", encoding="utf-8") as file:
            file.write("JobId=1 Name=x\nJobId=99999999 \n")  # as a job's name of two lines makes it
    assert numbers[1] > numbers[0]


def test_a_daemon_that_is_killed_starts_again_and_jobs_go_on(home):
    with tabletop.up("again", nodes=1, home=home) as table:
        word, out = table.state / "word", table.state / "out"
        os.mkfifo(word)
        reads = [f"srun cat {word}", f"--output={out}"]
        job = submit(table, *reads)
        awaited(lambda: states(table, job) == "RUNNING")
        # slurmctld writes what has changed every five seconds: what is younger is lost with it.
        table.run(["scontrol", "update", f"JobId={job}", "Comment=this is on file"])
        on_file = ["grep", "--quiet", "this is on file", f"{config.RUN}/ctld/job_state"]
        awaited(lambda: table.inside(on_file).returncode == 0)
        [reader] = awaited(lambda: processes(table, "cat"))
        assert kill(table, "slurmctld")
        assert kill(table, "munged")
        awaited(lambda: states(table, job) == "RUNNING")
        assert lives(reader)
        word.write_text("ended well\n", encoding="utf-8")
        awaited(lambda: states(table, job) == "COMPLETED")
        assert out.read_text(encoding="utf-8") == "ended well\n"
        assert int(submit(table, *reads)) == int(job) + 1

        def has_ended():  # one that ends again and again is not started for ever
            kill(table, "munged")
            return holder.alive(table.state) is None

        awaited(has_ended)


def processes(table, wanted: str) -> list[psutil.Process]:
    """Those of a cluster that run this program."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if pid := holder.alive(table.state):
            everyone = psutil.Process(pid).children(recursive=True)
            return [process for process in everyone if name(process) == wanted]
    return []


def kill(table, daemon: str) -> bool:
    """Kill a daemon of a cluster; False when there is none at this moment."""
    found = processes(table, daemon)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            process.wait()
    return bool(found)


CUT = """
import os, signal, subprocess, sys
from pathlib import Path
from slurm import tabletop

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

class Cut(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__(command, **options)
        if any("cluster.sh" in word for word in command):
            os.kill(os.getpid(), int(sys.argv[2]))

subprocess.Popen = Cut
tabletop.up("cut", nodes=1, home=Path(sys.argv[1]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_start_that_is_killed_before_the_cluster_is_noted_leaves_none(home, how):
    """Nobody could find it, and so nobody could take it down."""
    ended = ran(sys.executable, "-c", CUT, home, int(how), cwd=paths.root())
    assert ended.returncode in (-how, 143), ended.stderr
    assert tabletop.find("cut", home) is None
    folder = f"{home}/tabletop/cut"
    awaited(lambda: not [one for one in psutil.process_iter() if folder in command_of(one)])


def test_two_clusters_side_by_side(table, home, monkeypatch):
    # A shell that uses the first one starts the other.
    monkeypatch.setenv("PATH", table.env["PATH"])
    with tabletop.up("beside", nodes=1, gpus=0, home=home) as other:
        assert {"whole", "beside"} <= set(tabletop.running(home))
        configs = [cluster.run(["scontrol", "show", "config"]).stdout for cluster in (table, other)]
        assert "= whole" in configs[0]
        assert "= beside" in configs[1]
        assert "= beside" not in configs[0]
        assert "node2" not in other.run(["sinfo", "-h", "-N"]).stdout
    assert table.run(["srun", "-N2", "true"]).returncode == 0


@needs_root
def test_as_a_normal_user():
    with OwnMachine() as own:
        become = own.become("person")

        def tabletop_as_person(*words: str) -> str:
            done = own.run(*become, sys.executable, "-m", "slurm.tabletop", *words)
            assert done.returncode == 0, done.stderr
            return done.stdout

        def shell(text: str) -> list[str]:
            text = f"source /home/person/labkit/tabletop/table/env.sh; {text}"
            done = own.run(*become, "bash", "-ec", text)
            assert done.returncode == 0, done.stderr
            return sorted(done.stdout.splitlines())

        before = machine()
        state = own.folder / "home/person/labkit/tabletop/table"
        try:
            assert "is up after" in tabletop_as_person("up")
            assert "is running already" in tabletop_as_person("up")
            traces = Traces(holder.alive(state))
            assert machine() == before
            assert (state / "log").stat().st_mode & 0o777 == 0o700
            echo = "echo $(hostname) $CUDA_VISIBLE_DEVICES"
            hosts = shell(f"srun -N2 --gpus-per-node=1 bash -c '{echo}'")
            assert hosts == ["node1 0", "node2 0"]
            batch = "sbatch -W -N2 -o out.txt --wrap 'srun hostname; touch mine' >&2; cat out.txt"
            assert shell(f"cd; {batch}") == ["node1", "node2"]
            assert set(shell(f"tabletop-node 1 {LOOK}")) == {"1234"}
            shell(f'sbatch -W -o /dev/null --wrap "{LEAVES}"')
            awaited(lambda: sleeping(state, 3001) == 0, 10)
            home = own.folder / "home/person"
            assert (home / "mine").stat().st_uid == home.stat().st_uid
            assert "is unplugged" in tabletop_as_person("fail", "--node", "2")
            assert "unplugged" in tabletop_as_person("status")
            assert "whole again" in tabletop_as_person("heal", "--node", "2")
            assert "is gone" in tabletop_as_person("down")
            assert traces.left() == ([], set())
            tabletop_as_person("up")
            traces = Traces(holder.alive(state))
            os.kill(holder.alive(state), signal.SIGKILL)
            assert traces.left() == ([], set())
            assert machine() == before
        finally:
            tabletop_as_person("down")


def test_up_where_one_runs_and_down_where_none_does(table):
    for words, status, says in (
        ("up --name whole", 0, "is running already"),
        ("up --name whole --nodes 1", 1, "make tabletop-down NAME=whole"),
        ("down --name none", 0, "No tabletop cluster"),
    ):
        done = command_line(*words.split(), env=os.environ | _at(table))
        assert (done.returncode, says in done.stdout + done.stderr) == (status, True), words
