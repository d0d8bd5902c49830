"""Lab 51: every library that is here sums on real ranks, and the others say why they cannot; its tables."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import types

import numpy as np
import pytest
from labkit import builds, lab, launch, placement, record, virtual, world
from labkit.errors import LabError, RankFailed
from support import lab51
from support.lab51 import backends, places, starting

from tests.labkit.launch.leftovers import nothing_left  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("nothing_left")
ON_HOST = ("mpi", "torch-gloo", "horovod-mpi", "horovod-gloo")
ON_GPU = ("mpi-gpu", "torch-gloo-gpu", "torch-nccl", "horovod-mpi-gpu", "horovod-nccl")


def sums(link):
    """What a rank gets, the same tensor as before or not, and the library's own word on who did it."""
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
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_libraries_of_this_environment_sum_in_place(ranks):
    results, why_not = backends.each(ON_HOST, sums, ranks=ranks, timeout=300)
    assert why_not == {}
    total = ranks * (ranks + 1) / 2
    for name in ON_HOST:
        want = [(name, rank, [total] * 5, True, {total - ranks}) for rank in range(ranks)]
        assert results[name] == want


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["mpi", "gloo"])
def test_horovod_uses_the_library_of_the_name(carrier, tmp_path, monkeypatch):
    timeline = tmp_path / "timeline.json"
    monkeypatch.setenv("HOROVOD_TIMELINE", str(timeline))
    backends.each([f"horovod-{carrier}"], sums, ranks=2, timeout=300)
    text = timeline.read_text(encoding="utf-8")
    other = {"mpi": "GLOO", "gloo": "MPI"}[carrier]
    assert f"{carrier.upper()}_ALLREDUCE" in text
    assert f"{other}_ALLREDUCE" not in text


def test_no_gpu_no_nccl():
    if world.device() != "cpu":
        pytest.skip("this machine has a GPU")
    results, why_not = backends.each(ON_GPU, sums, ranks=2)
    assert results == {}
    assert all(reason.startswith("no GPU here") for reason in why_not.values())
    assert list(why_not) == list(ON_GPU)


def opens(comm, name):
    with backends.opened(name, comm) as link:
        return link.name


@pytest.mark.slow
def test_what_cannot_be_opened_says_why():
    reason = backends.missing("torch-mpi")
    assert "built without MPI" in reason  # no wheel of PyTorch has it
    with pytest.raises(RankFailed, match="torch-mpi cannot run: this PyTorch was built without MPI"):
        launch.run(opens, "torch-mpi", ranks=2, echo=False)


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(LabError, match=r"no backend 'gloo'; there are mpi, mpi-gpu, torch-gloo"):
        backends.missing("gloo")


def test_two_ranks_on_one_gpu_are_too_many_for_nccl():
    first = "node1 GPU-a"
    # Also where each rank is shown one GPU and calls it cuda:0.
    assert backends.gpus_lack([first, "node1 GPU-b", "node2 GPU-c"], first) == ""
    assert (
        backends.gpus_lack([first, first], first) == "NCCL takes one rank a GPU, and 2 ranks share this one"
    )
    assert backends.gpus_lack([], first) == "", "outside of a job nobody can tell"


def test_where_vectors_are_is_told_by_the_name(monkeypatch):
    assert all(lab51.place(name).device == "cpu" for name in ON_HOST)
    assert lab51.place("horovod-gloo") == placement.on_host("Gloo")
    monkeypatch.setattr(world, "device", lambda: "cuda:0")
    assert all(lab51.place(name).device == "cuda:0" for name in ON_GPU)
    carriers = [lab51.place(name).library for name in ON_GPU]
    assert carriers == ["MPI", "Gloo", "NCCL", "MPI", "NCCL"]
    assert [name for name in backends.NAMES if lab51.place(name).staged] == ["torch-gloo-gpu"]


@pytest.mark.parametrize(("name", "build"), [("horovod-nccl", "NCCL"), ("horovod-mpi-gpu", "MPI")])
def test_a_build_of_horovod_that_is_not_here_comes_with_its_cure(monkeypatch, name, build):
    monkeypatch.setattr(world, "device", lambda: "cuda:0")
    monkeypatch.setattr(backends, "own_gpu", lambda: "this host's first")
    monkeypatch.setattr(builds, "horovod_builds", lambda: {"host": None})
    reason = f"Horovod's build {build.lower()} is not here; `make setup GPU_OPERATIONS={build}` builds it"
    assert backends.missing(name) == reason
    monkeypatch.setattr(builds, "horovod_builds", lambda: {"host": None, build.lower(): None})
    assert backends.missing(name) == "", "its ranks get that build, whatever this process has"


def test_a_job_with_another_build_says_how_to_start_it(monkeypatch):
    monkeypatch.setattr(world, "device", lambda: "cuda:0")
    monkeypatch.setattr(backends, "own_gpu", lambda: "this host's first")
    monkeypatch.setattr(builds, "current_horovod", lambda: "host")
    comm = types.SimpleNamespace(allgather=lambda value: [value])  # a job of one rank
    reason = backends.missing("horovod-nccl", comm)
    assert reason == (
        "this job has Horovod's build host; start this file once more with HOROVOD=nccl and backends "
        "'horovod-nccl' alone"
    )


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_GPU)
def test_what_a_gpus_vectors_become(name):
    """On all GPUs that are here, one rank each; what cannot run says why."""
    import torch

    ranks = torch.cuda.device_count()
    results, why_not = backends.each([name], sums, ranks=ranks, timeout=300)
    total = ranks * (ranks + 1) / 2
    want = [(name, rank, [total] * 5, True, {ranks * (ranks - 1) / 2}) for rank in range(ranks)]
    assert results.get(name, want) == want
    assert (name in results) != (name in why_not)


@pytest.mark.slow
@pytest.mark.gpu
def test_horovods_timeline_names_nccl(tmp_path, monkeypatch):
    timeline = tmp_path / "timeline.json"
    monkeypatch.setenv("HOROVOD_TIMELINE", str(timeline))
    _, why_not = backends.each(["horovod-nccl"], sums, ranks=1, timeout=300)
    if why_not:
        pytest.skip(why_not["horovod-nccl"])
    text = timeline.read_text(encoding="utf-8")
    assert "NCCL_ALLREDUCE" in text
    assert "MPI_ALLREDUCE" not in text


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


def job(tmp_path, *names):
    script = tmp_path / "job.py"
    script.write_text(JOB, encoding="utf-8")
    command = [launch.mpiexec(), "-n", "2", sys.executable, str(script), *names]
    env = world.clean_env() | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


@pytest.mark.slow
def test_one_job_carries_all_but_a_second_horovod(tmp_path):
    first, second = job(tmp_path, "torch-gloo", "mpi", "horovod-mpi", "horovod-gloo", "torch-gloo")
    assert first == str(dict.fromkeys(("torch-gloo", "mpi", "horovod-mpi"), 3.0))
    assert "Horovod began with MPI in this process and cannot change" in second


@pytest.mark.slow
def test_horovod_over_gloo_in_a_job_of_mpi(tmp_path):
    first, second = job(tmp_path, "horovod-gloo", "horovod-mpi")
    assert first == "{'horovod-gloo': 3.0}"
    assert "Horovod began with GLOO" in second


def test_ranks_meet_at_rank_0():
    def meet(comm):
        return starting.meet_at_rank_0(comm, f"node{comm.rank}", 40000 + comm.rank)

    for rank, variables in enumerate(virtual.Cluster(3).run(meet).results):
        assert variables == {
            "MASTER_ADDR": "node0",
            "MASTER_PORT": "40000",
            "RANK": str(rank),
            "WORLD_SIZE": "3",
        }


def timed_after_a_barrier(link, call, calls, warmup, clock):
    seconds = []
    for _ in range(warmup + calls):
        link.barrier()
        start = clock()
        call()
        seconds.append(clock() - start)
    return seconds[warmup:]


def test_late_ranks_show_who_forgets_the_barrier():
    want = lab51.punctual_seconds(3)
    for rank in lab51.late_calls(timed_after_a_barrier, 3):
        assert rank.seconds == pytest.approx(want, rel=2e-3)
        assert (rank.calls, rank.timed) == (15, True)

    def without_barrier(link, call, calls, warmup, clock):
        return timed_after_a_barrier(
            dataclasses.replace(link, barrier=lambda: None), call, calls, warmup, clock
        )

    longest = max(max(rank.seconds) for rank in lab51.late_calls(without_barrier, 3))
    assert longest > want[-1] + 1e-3


def test_buckets_leave_last_layer_first():
    sizes = {"a": 10, "b": 30, "c": 5, "d": 5, "e": 100, "f": 20}
    assert lab51.buckets(sizes, 40) == [["f"], ["e"], ["d", "c", "b"], ["a"]]
    assert lab51.buckets({"a": 10, "b": 30, "c": 5}, 40) == [["c", "b"], ["a"]]
    assert lab51.buckets(sizes, 1) == [[layer] for layer in reversed(sizes)]
    assert lab51.buckets(sizes, 1000) == [list(reversed(sizes))]
    assert lab51.buckets({}, 40) == []


@pytest.mark.slow
def test_pytorchs_ranks_meet():
    assert lab51.met(starting.meet_at_rank_0) == [((rank, 3), 6.0) for rank in range(3)]


def test_exchanged_gradients_lie_one_behind_the_other():
    def exchange(link, gradients, plan):
        for layers in plan:
            for layer in layers:
                link.sum(gradients[layer].view(-1))

    run = lab51.exchanged(exchange, 3, [["fc", "bn"], ["conv"]])
    for values in run.results:
        np.testing.assert_allclose(values, 6 * lab51.GRADIENTS)


def test_tables_go_through_records_and_back(capsys):
    lab.start("51_mpi_against_nccl")
    times = {"mpi": {4: [1e-6, 2e-6, 3e-6], 64: [5e-6] * 3}, "torch-gloo": {4: [1e-3] * 3}}
    here = lab51.keep(times, ranks=2, nodes=1)
    assert here["mpi"][4] == pytest.approx((1.5e-6, 2e-6, 2.5e-6))
    assert lab51.times_as_long(here, "torch-gloo", "mpi", 4) == pytest.approx(500)
    assert np.isnan(lab51.times_as_long(here, "torch-gloo", "mpi", 64))
    later = {"mpi": {4: [7e-6] * 3}}
    lab51.keep({"mpi": {4: [9e-6]}}, ranks=4, nodes=2)
    lab51.keep(later, ranks=4, nodes=2)
    frame = record.load("51_mpi_against_nccl", "allreduce")
    assert list(frame.library) == ["MPI", "Gloo", "MPI", "MPI"]
    assert set(frame.staged) == {"no"}
    assert places.between_nodes(frame) == {"mpi": {4: pytest.approx((7e-6,) * 3)}}
    capsys.readouterr()
    lab51.print_table(here, lambda nbytes, table: f"{nbytes} in {len(table)}", "a title")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "# a title"
    assert lines[3].split() == ["4", "2.00", "µs", "1.00", "ms", "4", "in", "2"]
    assert lines[4].split() == ["64", "5.00", "µs", "-", "64", "in", "2"]


def test_steps_are_recorded_by_the_slowest_rank():
    lab.start("51_mpi_against_nccl")
    by_rank = [
        {("net", "alone"): [14.0, 1.0], ("net", "fused"): [1.0, 4.0], ("net", "copies"): [0.5, 1.0]},
        {("net", "alone"): [14.0, 2.0], ("net", "fused"): [3.0, 2.0], ("net", "copies"): [1.0, 0.5]},
    ]
    bars = lab51.keep_steps({"torch-gloo": by_rank}, ranks=2, nodes=1)
    assert bars["net"]["torch\ngloo\nalone"]["calls"].tolist() == [14000, 2000]
    assert bars["net"]["torch\ngloo\nfused"]["copies"].tolist() == [1000, 1000]
    assert bars["net"]["torch\ngloo\nfused"]["calls"].tolist() == [2000, 3000]
    assert lab51.fused_gain({"mpi": by_rank}, "mpi", "net") == pytest.approx((14 + 2) / 2 / 3.5)
    assert np.isnan(lab51.fused_gain({"mpi": by_rank}, "torch-gloo", "net"))
    with open(record.path("51_mpi_against_nccl"), encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    kept = [(entry["backend"], entry["net"], entry["way"], entry["seconds"]) for entry in entries]
    assert kept == [
        ("torch-gloo", "net", "alone", 8.0),
        ("torch-gloo", "net", "fused", 3.5),
        ("torch-gloo", "net", "copies", 1.0),
    ]


def test_which_asks_for_the_nearest_size_by_ratio_and_for_none_beyond():
    fast = (0.9, 1.0, 1.1)
    slow = (1.8, 2.0, 2.1)
    table = {
        "x": {4: fast, 1024: fast, 1 << 20: slow},
        "y": {4: slow, 1024: slow, 1 << 20: fast},
        "nccl": {},
        "z": {1 << 20: (0.1, 0.1, 0.1), 1 << 24: fast},
    }

    def least(row):
        return min(row, key=lambda name: row[name][1])

    measured = {4: "x", 20_000: "x", 40_000: "y", 1 << 20: "z", 1 << 23: "z"}
    beyond = {2: "not measured", 1 << 25: "not measured"}
    for nbytes, name in (measured | beyond).items():
        assert lab51.which(nbytes, table, least) == name


@pytest.mark.parametrize(("net", "layers", "megabytes"), [("resnet50", 107, 102), ("vgg16", 16, 553)])
def test_gradients_of_known_nets(net, layers, megabytes):
    sizes = lab51.gradient_bytes(net)
    assert len(sizes) == layers
    assert sum(sizes.values()) / 1e6 == pytest.approx(megabytes, abs=0.5)
