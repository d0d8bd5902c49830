"""launch.run in a file that a launcher started: real jobs of a few ranks."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from labkit import world
from labkit.launch import plans

from tests.labkit.launch.leftovers import nothing_left  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("nothing_left")
JOB = str(Path(__file__).with_name("in_place_job.py"))
BIN = Path(sys.executable).parent


def job(ranks: int, *scene: str, threads: str | None = "1") -> subprocess.CompletedProcess:
    env = world.clean_env() | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    env.pop("OMP_NUM_THREADS", None)
    if threads:
        env["OMP_NUM_THREADS"] = threads
    command = [plans.mpiexec(), "-n", str(ranks), sys.executable, JOB, *scene]
    return subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=120, check=False
    )


def said(done: subprocess.CompletedProcess) -> list[str]:
    """The lines of stdout, sorted: ranks write in any order."""
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize(("size", "ranks"), [(1, 1), (1, 8), (2, 2), (3, 1), (3, 2), (3, 8)])
def test_results_are_the_same_on_every_rank(size, ranks):
    done = job(size, "results", str(ranks))
    assert done.returncode == 0, done.stderr
    part = min(size, ranks)
    result = [(10 + rank, part) for rank in range(part)]
    note = (
        [f"{ranks} ranks were asked for; this job has {size}, and all take part."]
        if ranks > size
        else []
    )
    expected = [f"[{rank}] hello from {rank}" for rank in range(part)]
    expected += [f"rank {rank} got {result}" for rank in range(size)]
    greeting = f"Lab 00 check_environment: rank 0 of {size} under mpiexec"
    lines = said(done)
    assert [line for line in lines if not line.startswith("Lab ")] == sorted(
        [*note, *expected, "the end"]
    )
    assert sum(line.startswith(greeting) for line in lines) == 1


def test_code_without_a_communicator_uses_all_ranks():
    done = job(3, "all ranks")
    assert done.returncode == 0, done.stderr
    assert "2 ranks were asked for; this job has 3, and all take part." in done.stdout
    assert done.stdout.count("ranks were asked for") == 1  # once is enough
    assert done.stdout.count("rank 2 got [10, 11, 12]") == 1
    assert done.stdout.count("rank 2 got [20, 21, 22]") == 1
    assert done.stdout.count("hello") == 3  # echo=False of the second run
    assert done.stdout.count("got 3") == 3


def test_threads():
    done = job(2, "threads")
    assert done.stdout.count("got ['5', '5']") == 2, done.stderr
    done = job(2, "fair threads", threads=None)
    assert done.stdout.count(f"got {[str(max(1, world.cores() // 2))] * 2}") == 2, done.stderr


@pytest.mark.slow
def test_communicators_are_given_back():
    done = job(2, "many communicators")
    assert done.stdout.count("got 2100") == 2, done.stderr


@pytest.mark.slow
def test_torch_distributed_in_place():
    done = job(2, "torch")
    assert done.returncode == 0, done.stderr
    assert {f"rank {rank} got [[2.0, 2.0], [2.0, 2.0]]" for rank in (0, 1)} < set(said(done))
    assert {f"rank {rank} got None" for rank in (0, 1)} < set(said(done))


def test_the_port_of_torch_distributed_is_kept_from_others():
    done = job(2, "port")
    assert {f"rank {rank} got [True, True]" for rank in (0, 1)} < set(said(done)), done.stderr


@pytest.mark.slow
def test_horovod_in_place():
    done = job(2, "horovod")
    assert done.returncode == 0, done.stderr
    sums = [(2.0, 2, True)] * 2
    assert {f"rank {rank} got {[sums, [1, 2], sums]}" for rank in (0, 1)} < set(said(done))


REFUSED = (
    "torchrun started this file, but its ranks meet by MPI: start it with mpiexec -n 2 instead."
)


class Call:
    """A call that is made where this is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


@pytest.mark.slow
def test_nothing_of_a_key_value_store_is_unpickled(tmp_path):
    """A stranger who reaches the store of torchrun, or of MASTER_ADDR, plays rank 1 of 2."""
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    dist.PrefixStore("labkit", store).set("1-1", pickle.dumps(Call(tmp_path / "called")))
    place = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
    }
    env = world.clean_env() | place | {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    command = [sys.executable, JOB, "all ranks"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert not (tmp_path / "called").exists()
    assert (done.returncode, done.stderr) == (1, REFUSED + "\n")


def test_a_job_has_no_named_shared_memory_that_could_stay_behind():
    done = job(2, "shared memory")
    assert done.stdout.count("got [[], []]") == 2, done.stderr


def test_a_failure_of_all_ranks_can_be_caught():
    done = job(2, "all fail, caught")
    assert done.returncode == 0, done.stderr
    caught = ("NotImplementedError", "exercise 20.1: Pass a token")
    assert {f"rank {rank} got {caught}" for rank in (0, 1)} < set(said(done))


WAITS = r"after 1.5 s without an end: rank {} waits in line \d+ of stuck: return comm.recv"
ENDS = [  # scene, ranks, and how often each pattern stands in what the job writes
    ("one fails", 3, {
        r"rank 1 failed: ValueError: the true reason  \(line ": 1,
        r'in one_fails: raise ValueError\("the true reason"\)': 1,
    }),
    ("unsolved", 3, {r"exercise 20\.1: Pass a token": 1, "Abort": 0}),
    ("stuck", 3, {WAITS.format(1): 1, WAITS.format(2): 1, "rank 0 waits": 0}),
    # Python's own traceback: no thread of ours could run. Of several ranks the first ends the job.
    ("spin", 1, {r"line \d+ in spin": 1}),
    ("outside", 2, {"only this rank found it": 1}),
    ("nested", 2, {"already runs on ranks": 1}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("scene", "ranks", "says"), ENDS)
def test_a_bad_end_is_told_once_and_ends_the_whole_job(scene, ranks, says):
    done = job(ranks, scene)
    assert done.returncode != 0
    assert "the end" not in done.stdout
    assert {pattern: len(re.findall(pattern, done.stderr)) for pattern in says} == says, done.stderr
    assert "Traceback" not in done.stderr
