"""launch.run in a file that a launcher started: real jobs of a few ranks."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from labkit import world
from labkit.launch import plans

pytestmark = pytest.mark.usefixtures("nothing_left")
JOB = str(Path(__file__).with_name("in_place_job.py"))
BIN = Path(sys.executable).parent


def started(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess:
    return subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=120, check=False
    )


def job(ranks: int, *scene: str, threads: str = "1") -> subprocess.CompletedProcess:
    env = world.clean_env() | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    env["OMP_NUM_THREADS"] = threads
    if not threads:
        del env["OMP_NUM_THREADS"]
    return started([plans.mpiexec(), "-n", str(ranks), sys.executable, JOB, *scene], env)


def all_got(done: subprocess.CompletedProcess, ranks: int, *values: object) -> bool:
    """Did every rank's caller get each of the values?"""
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return all(f"rank {rank} got {value}" in lines for rank in range(ranks) for value in values)


@pytest.mark.parametrize(("size", "wanted"), [(1, [1, 8]), (2, [2]), (3, [1, 2, 8])])
def test_results_are_the_same_on_every_rank(size, wanted):
    done = job(size, "results", *map(str, wanted))
    assert done.returncode == 0, done.stderr
    expected = ["the end"]
    for ranks in wanted:
        part = min(size, ranks)
        result = [(10 + rank, part) for rank in range(part)]
        expected += [f"[{rank}] hello from {rank}" for rank in range(part)]
        expected += [f"rank {rank} got {result}" for rank in range(size)]
        if ranks > size:
            expected += [f"{ranks} ranks were asked for; this job has {size}, and all take part."]
    lines = done.stdout.splitlines()
    assert sorted(line for line in lines if not line.startswith("Lab ")) == sorted(expected)
    greeting = f"Lab 00 check_environment: rank 0 of {size} under mpiexec"
    assert sum(line.startswith(greeting) for line in lines) == 1


def test_code_without_a_communicator_uses_all_ranks():
    done = job(3, "all ranks")
    assert all_got(done, 3, [10, 11, 12], [20, 21, 22], 3, "'2 nodes'")
    assert "2 ranks were asked for; this job has 3, and all take part." in done.stdout
    assert done.stdout.count("ranks were asked for") == 1  # once is enough
    assert done.stdout.count("hello") == 3  # echo=False of the second run


def test_the_first_to_fail_is_found_where_clocks_differ(monkeypatch, tmp_path):
    """Rank 1's clock is 100 s ahead, and it fails before rank 0."""
    monkeypatch.setenv("LABKIT_NOTES", str(tmp_path))
    assert all_got(job(2, "clocks differ"), 2, "'rank 1'")
    first, second = (
        json.loads((tmp_path / f"failed.{rank}").read_text())["when"] for rank in range(2)
    )
    assert abs(first - second) < 50


def test_one_run_after_the_other():
    done = job(2, "one after the other", threads="")
    fair = str(max(1, world.cores() // 2))
    assert all_got(done, 2, ("threads", [fair] * 2, ["5"] * 2, [fair] * 2)), done.stdout
    # Nothing in shared memory has a name, which could stay behind.
    assert all_got(done, 2, ("mapped", [[], []]))
    assert all_got(done, 2, ("reserved", [True, True])), "torch.distributed's port"
    received = [("received", ["of this run"] * ranks) for ranks in (1, 2)]
    assert all_got(done, 2, *received), "and no message that the run before has left"
    unsolved = ("NotImplementedError", "exercise 20.1: Pass a token")
    assert all_got(done, 2, unsolved), "a failure of all ranks can be caught"


@pytest.mark.slow
def test_communicators_are_given_back():
    assert all_got(job(2, "many communicators"), 2, 150)


@pytest.mark.slow
def test_torch_distributed_and_horovod_in_place():
    sums = [(2.0, 2, True)] * 2
    done = job(2, "libraries")
    assert all_got(done, 2, [[2.0, 2.0], [2.0, 2.0]], None, [sums, [1, 2], sums]), done.stdout
    chosen = [("1", 1)] * 2  # by a person, with OMP_NUM_THREADS
    assert all_got(done, 2, ("threads", chosen, [("2", 2)] * 2, chosen)), done.stdout


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
    env = world.clean_env() | {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    env |= {"MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    done = started([sys.executable, JOB, "all ranks"], env)
    assert not (tmp_path / "called").exists()
    assert (done.returncode, done.stderr) == (1, REFUSED + "\n")


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
