"""labkit.backends on real ranks: every library that is here sums, and says why the others are not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from labkit import lab, launch, record, world
from labkit.errors import CheckFailed, LabError, RankFailed
from support.lab51 import backends, checks, show

from tests.labkit.launch.leftovers import nothing_left  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("nothing_left")
ON_HOST = ("mpi", "torch-gloo", "horovod-mpi", "horovod-gloo")


def sums(link):
    """What a rank gets, the same tensor as before or not, and the library's own word on who did it."""
    given = link.vector(5)
    given += link.rank + 1
    before = given.data_ptr()
    link.sum(given)
    long = link.vector(100_003)
    long[:] = link.rank
    link.sum(long)
    link.barrier()
    return link.name, link.rank, given.tolist(), given.data_ptr() == before, set(long.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_libraries_of_this_environment_sum_in_place(ranks):
    results, why_not = backends.each(ON_HOST, sums, ranks=ranks, timeout=60)
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
    backends.each([f"horovod-{carrier}"], sums, ranks=2, timeout=60)
    text = timeline.read_text(encoding="utf-8")
    other = {"mpi": "GLOO", "gloo": "MPI"}[carrier]
    assert f"{carrier.upper()}_ALLREDUCE" in text
    assert f"{other}_ALLREDUCE" not in text


def test_no_gpu_no_nccl():
    if world.device() != "cpu":
        pytest.skip("this machine has a GPU")
    names = ("mpi-gpu", "torch-nccl", "horovod-nccl")
    results, why_not = backends.each(names, sums, ranks=2)
    assert results == {}
    assert all(reason.startswith("no GPU here") for reason in why_not.values())
    assert list(why_not) == list(names)


def opens(comm, name):
    with backends.opened(name, comm) as link:
        return link.name


def test_what_cannot_be_opened_says_why():
    reason = backends.missing("torch-mpi")
    assert "built without MPI" in reason  # no wheel of PyTorch has it
    with pytest.raises(RankFailed, match="torch-mpi cannot run: this PyTorch was built without MPI"):
        launch.run(opens, "torch-mpi", ranks=2, echo=False)


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(LabError, match=r"no backend 'gloo'; there are mpi, mpi-gpu, torch-gloo"):
        backends.missing("gloo")


def test_two_ranks_on_one_gpu_are_too_many_for_nccl(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    mine = socket.gethostname()
    assert backends._gpus_lack([mine, "another"]) == ""
    assert backends._gpus_lack([mine, mine]) == "NCCL takes one rank a GPU, and 2 ranks share 1 here"


JOB = """
import sys
from labkit import backends, lab, launch
lab.start("51_mpi_against_nccl")

def sums(link):
    vector = link.vector(3)
    vector += link.rank + 1
    link.sum(vector)
    return vector.tolist()

results, why_not = backends.each(sys.argv[1:], sums, ranks=2)
print({name: got[0][0] for name, got in results.items()})
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


def test_variables_are_as_before(monkeypatch):
    monkeypatch.setenv("LABKIT_TEST_A", "before")
    with backends.variables(LABKIT_TEST_A=1, LABKIT_TEST_B="x"):
        assert (os.environ["LABKIT_TEST_A"], os.environ["LABKIT_TEST_B"]) == ("1", "x")
    assert os.environ["LABKIT_TEST_A"] == "before"
    assert "LABKIT_TEST_B" not in os.environ


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_the_own_meeting_place_passes_the_labs_check(ranks):
    checks.expect_meeting(backends.rank_0, ranks)


def test_plans_that_lose_exceed_or_waste_are_refused():
    sizes = {"a": 3, "b": 3, "c": 9}
    wrong = {
        "the layers in all buckets": [["c"], ["b"]],
        "last layer first": [["a", "b"], ["c"]],
        "empty bucket": [["c"], [], ["b", "a"]],
        "over the limit": [["c", "b"], ["a"]],
        "more have room there": [["c"], ["b"], ["a"]],
    }
    for says, plan in wrong.items():
        with pytest.raises(CheckFailed, match=says):
            checks.expect_plan(lambda sizes, limit, plan=plan: plan, sizes, 6)
    checks.expect_plan(lambda sizes, limit: [["c"], ["b", "a"]], sizes, 6)


def test_tables_go_through_records_and_back(capsys):
    lab.start("51_mpi_against_nccl")
    times = {"mpi": {4: [1e-6, 2e-6, 3e-6], 64: [5e-6] * 3}, "torch-gloo": {4: [1e-3] * 3}}
    here = show.keep(times, ranks=2, nodes=1)
    assert here["mpi"][4] == pytest.approx((1.5e-6, 2e-6, 2.5e-6))
    assert show.times_as_long(here, "torch-gloo", "mpi", 4) == pytest.approx(500)
    assert np.isnan(show.times_as_long(here, "torch-gloo", "mpi", 64))
    later = {"mpi": {4: [7e-6] * 3}}
    show.keep({"mpi": {4: [9e-6]}}, ranks=4, nodes=2)
    show.keep(later, ranks=4, nodes=2)
    frame = record.load("51_mpi_against_nccl", "allreduce")
    assert show.between_nodes(frame) == {"mpi": {4: pytest.approx((7e-6,) * 3)}}
    capsys.readouterr()
    show.show(here, lambda nbytes, table: f"{nbytes} in {len(table)}", "a title")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "# a title"
    assert lines[3].split() == ["4", "2.00", "µs", "1.00", "ms", "4", "in", "2"]
    assert lines[4].split() == ["64", "5.00", "µs", "-", "64", "in", "2"]


def test_steps_are_recorded_by_the_slowest_rank():
    lab.start("51_mpi_against_nccl")
    by_rank = [{("net", "fused"): [1.0, 4.0]}, {("net", "fused"): [3.0, 2.0]}]
    bars = show.keep_steps({"torch-gloo": by_rank}, ranks=2, nodes=1)
    assert bars["net"]["torch\ngloo\nfused"][""].tolist() == [3000, 4000]
    alone = [
        {**row, ("net", "alone"): [14.0, seconds]} for row, seconds in zip(by_rank, (1.0, 2.0), strict=True)
    ]
    assert show.fused_gain({"mpi": alone}, "mpi", "net") == pytest.approx((14 + 2) / 2 / 3.5)
    assert np.isnan(show.fused_gain({"mpi": alone}, "torch-gloo", "net"))
    with open(record.path("51_mpi_against_nccl"), encoding="utf-8") as lines:
        (entry,) = map(json.loads, lines)
    assert (entry["backend"], entry["net"], entry["way"], entry["seconds"]) == (
        "torch-gloo", "net", "fused", 3.5,
    )  # fmt: skip


@pytest.mark.parametrize(("net", "layers", "megabytes"), [("resnet50", 107, 102), ("vgg16", 16, 553)])
def test_gradients_of_known_nets(net, layers, megabytes):
    sizes = show.gradient_bytes(net)
    assert len(sizes) == layers
    assert sum(sizes.values()) / 1e6 == pytest.approx(megabytes, abs=0.5)
