"""Lab 51: every library that is here sums on real ranks, and the others say why they cannot; its
tables."""

from __future__ import annotations

import re
import subprocess
import sys
import types

import pytest
import torch
from labkit import builds, launch, world
from labkit.errors import LabError
from support import lab51

from tests.labkit.launch.leftovers import nothing_left  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("nothing_left")
ON_HOST = ("mpi", "torch-gloo", "horovod-mpi", "horovod-gloo")
ON_GPU = ("mpi-gpu", "torch-gloo-gpu", "torch-nccl", "horovod-mpi-gpu", "horovod-nccl")
CARRIERS = {"horovod-mpi": "MPI", "horovod-gloo": "GLOO", "horovod-nccl": "NCCL"}


def sums(link):
    """What a rank gets, the same tensor as before or not, and the library's own word on who did
    it."""
    short = link.vector(5)
    short += link.rank + 1
    before = short.data_ptr()
    link.sum(short)
    long = link.vector(100_003)
    long[:] = link.rank
    link.sum(long)
    link.barrier()
    return link.name, link.rank, short.tolist(), short.data_ptr() == before, set(long.tolist())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*ON_HOST, *(pytest.param(name, marks=pytest.mark.gpu) for name in ON_GPU)]
)
def test_each_library_sums_in_place_or_says_why_not(name, tmp_path, monkeypatch):
    """Those on GPUs on all that are here, one rank each; Horovod by the library of its name."""
    timeline = tmp_path / "timeline.json"
    monkeypatch.setenv("HOROVOD_TIMELINE", str(timeline))
    ranks = torch.cuda.device_count() if name in ON_GPU else 3
    results, why_not = lab51.each([name], sums, ranks=ranks, timeout=300)
    assert list(why_not) == ([] if name in results else [name])
    assert name in (*results, *ON_GPU)
    total = ranks * (ranks + 1) / 2
    want = [(name, rank, [total] * 5, True, {total - ranks}) for rank in range(ranks)]
    assert results.get(name, want) == want
    if name in CARRIERS and name in results:
        carried = re.findall("(GLOO|MPI|NCCL)_ALLREDUCE", timeline.read_text(encoding="utf-8"))
        assert set(carried) == {CARRIERS[name]}


@pytest.mark.skipif(world.device() != "cpu", reason="this machine has a GPU")
def test_no_gpu_no_nccl():
    results, why_not = lab51.each(ON_GPU, sums, ranks=2)
    assert results == {}
    assert list(why_not) == list(ON_GPU)
    assert all(reason.startswith("no GPU here") for reason in why_not.values())


def test_what_cannot_be_opened_says_why(monkeypatch):
    assert "built without MPI" in lab51.missing("torch-mpi")  # no wheel of PyTorch has it
    with pytest.raises(LabError, match=r"no backend 'gloo'; there are mpi, mpi-gpu, torch-gloo"):
        lab51.missing("gloo")
    monkeypatch.setattr(world, "device", lambda: "cuda:0")
    monkeypatch.setattr(lab51.placement, "own_gpu", lambda: "this host's first")
    for name, build in (("horovod-nccl", "NCCL"), ("horovod-mpi-gpu", "MPI")):
        monkeypatch.setattr(builds, "horovod_builds", {"host": None}.copy)
        says = f"Horovod's build {build.lower()} is not here; `make setup GPU_OPERATIONS={build}`"
        assert lab51.missing(name) == f"{says} builds it"
        here = {"host": None, build.lower(): None}
        monkeypatch.setattr(builds, "horovod_builds", here.copy)
        assert lab51.missing(name) == "", "its ranks get that build, whatever this process has"
    monkeypatch.setattr(builds, "current_horovod", lambda: "host")
    comm = types.SimpleNamespace(allgather=lambda value: [value])  # a job of one rank
    says = "this job has Horovod's build host; start this file once more with HOROVOD=nccl and"
    assert lab51.missing("horovod-nccl", comm) == f"{says} backends 'horovod-nccl' alone"


def test_two_ranks_on_one_gpu_are_too_many_for_nccl():
    first, many = "node1 GPU-a", "NCCL takes one rank a GPU, and 2 ranks share this one"
    # Also where each rank is shown one GPU and calls it cuda:0.
    assert lab51.gpus_lack([first, "node1 GPU-b", "node2 GPU-c"], first) == ""
    assert lab51.gpus_lack([first, first], first) == many
    assert lab51.gpus_lack([], first) == "", "outside of a job nobody can tell"


JOB = """
import sys
from labkit import lab
from support import lab51
lab.start("51_mpi_against_nccl")

def sums(link):
    vector = link.vector(3)
    vector += link.rank + 1
    link.sum(vector)
    return vector.tolist()

results, why_not = lab51.each(sys.argv[1:], sums, ranks=2)
print({name: by_rank[0][0] for name, by_rank in results.items()})
print(why_not)
"""


@pytest.mark.slow
def test_one_job_carries_all_one_after_the_other(tmp_path):
    names = ("torch-gloo", "mpi", "horovod-mpi", "horovod-gloo", "torch-gloo")
    script = tmp_path / "job.py"
    script.write_text(JOB, encoding="utf-8")
    command = [launch.mpiexec(), "-n", "2", sys.executable, str(script), *names]
    env = world.clean_env() | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [str(dict.fromkeys(names, 3.0)), "{}"]


def test_buckets_leave_last_layer_first():
    sizes = {"a": 10, "b": 30, "c": 5, "d": 5, "e": 100, "f": 20}
    assert lab51.buckets(sizes, 40) == [["f"], ["e"], ["d", "c", "b"], ["a"]]
    assert lab51.buckets(sizes, 1) == [[layer] for layer in reversed(sizes)]
