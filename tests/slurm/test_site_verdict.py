"""The site doctor's sentences on what nodes may answer: GPUs, InfiniBand, other MPIs, trouble."""

from __future__ import annotations

import pytest
from labkit.cluster import slurm

from slurm.doctor import verdict
from slurm.doctor.findings import NOTE, OK, UNCHECKED, WRONG
from slurm.doctor.trial import Outcome, Plan

GPU_NODE = {"LABKIT_LAUNCHER": "srun --mpi=pmi2", "LABKIT_MPI": "mvapich2-gdr", "LABKIT_GPUS_PER_NODE": "4"}
PORT = "mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)"
PLAN = Plan(2, 1, [])


def rank(number: int, **other) -> dict:
    """What a rank of a healthy node with four GPUs says."""
    healthy = {
        "host": f"n{number}", "cores": 16, "gpus": 4, "devices": 4, "infiniband": [PORT], "rank": number,
        "size": 2, "threads": "MULTIPLE", "met": ["n0", "n1"], "seconds": 0.001, "family": "MVAPICH2-GDR",
        "version": "2.3.7", "files": ["libmpi.so.12"],
    }  # fmt: skip
    return {key: value for key, value in {**healthy, **other}.items() if value is not None}


BUILDS = {"horovod": ["host", "nccl"], "mpi": ["mvapich2-gdr"], "gdrcopy": True}


def judged(
    ranks: list[dict] | None = None, env=GPU_NODE, state="COMPLETED", launch=None, output="", builds=BUILDS
) -> list:
    """(status, sentence) of all findings on a job that ended like this."""
    launch = {"ranks": 2, "status": 0, "said": "", **(launch or {})}
    files = {"begun": {"host": "n0"}, "launch": launch, "builds": builds}
    ranks = [rank(0), rank(1)] if ranks is None else ranks
    outcome = Outcome("7", state, "Priority", files, ranks, output)
    return list(verdict.judge("site", env, PLAN, outcome))


def wrong(*args, **options) -> str:
    return "\n".join(sentence for status, sentence in judged(*args, **options) if status == WRONG)


def test_a_healthy_cluster():
    findings = judged()
    assert {status for status, _ in findings} == {OK}
    sentences = "\n".join(sentence for _, sentence in findings)
    assert "started 2 ranks on 2 nodes (n0, n1); they exchanged their first message in 0.001 s." in sentences
    assert "4 GPUs in each node." in sentences
    assert f"1 InfiniBand port: {PORT}." in sentences
    assert "MPI: MVAPICH2-GDR 2.3.7, as the site file says." in sentences


def test_the_builds_that_the_site_file_asks_for():
    asks = {**GPU_NODE, "LABKIT_HOROVOD": "nccl", "LABKIT_GDRCOPY": "/opt/libgdrapi.so"}
    assert (OK, "Horovod's build nccl, which the site file asks for, is there.") in judged(env=asks)
    without = {"horovod": ["host"], "mpi": [], "gdrcopy": False}
    sentences = wrong(env=asks, builds=without)
    assert (
        "LABKIT_HOROVOD asks for Horovod's build 'nccl'; on the node there is: host. `make setup`"
        in sentences
    )
    assert "LABKIT_GDRCOPY names /opt/libgdrapi.so, which is no file on the node." in sentences


def test_mvapich2s_affinity_takes_the_threads_away():
    sentences = wrong([rank(0, threads="SINGLE"), rank(1, threads="SINGLE")])
    assert "MPI allows MPI_THREAD_SINGLE only, but Horovod wants MPI_THREAD_MULTIPLE." in sentences
    assert "MV2_ENABLE_AFFINITY=0 cures it" in sentences


@pytest.mark.parametrize(
    ("flavor", "family", "fits"),
    [
        ("mvapich2-gdr", "MVAPICH2", False),
        ("mvapich2", "MVAPICH2-GDR", True),
        ("mvapich-plus", "MVAPICH", True),
        ("openmpi", "Open MPI", True),
        ("cray-mpich", "MPICH", False),
        ("", "MPICH", True),
    ],
)
def test_the_library_and_the_site_file(flavor, family, fits):
    ranks = [rank(number, family=family, version="1") for number in (0, 1)]
    sentences = wrong(ranks, env={**GPU_NODE, "LABKIT_MPI": flavor})
    assert (sentences == "") == fits
    assert fits or f"LABKIT_MPI says {flavor}, but the ranks run on {family} 1 (libmpi.so.12)" in sentences


def test_ranks_with_different_libraries_or_none():
    assert "different MPI libraries: MPICH 5, MVAPICH2-GDR 2.3.7" in wrong(
        [rank(0), rank(1, family="MPICH", version="5")]
    )
    none = [rank(n, family=None, threads=None, met=None, size=None) for n in (0, 1)]
    sentences = wrong(none, launch={"status": 1, "said": "ImportError: libmpi.so.12"})
    assert "0 of 2 ranks exchanged a message under srun --mpi=pmi2. It said: ImportError" in sentences
    assert "No rank could load an MPI library" in sentences


def test_gpus_asked_for_got_and_shown():
    assert "says 4 GPUs in a node; the job got 2 from Slurm, its nodes show 2." in wrong(
        [rank(0), rank(1, gpus=2, devices=2)]
    )
    findings = judged([rank(0, devices=0), rank(1, devices=0)])
    assert (
        NOTE,
        "Slurm gives 4 GPUs in a node, but no driver shows any: labs use the processor.",
    ) in findings
    # A site that gives whole nodes says nothing of GPUs: the nodes do.
    assert wrong([rank(0, gpus=0), rank(1, gpus=0)]) == ""


def test_a_network_that_is_down_on_one_node():
    down = PORT.replace("ACTIVE", "DOWN")
    assert f"No InfiniBand port of n1 is active: {down}." in wrong([rank(0), rank(1, infiniband=[down])])
    assert "No InfiniBand port of n1 is active: none there." in wrong([rank(0), rank(1, infiniband=[])])
    tcp = judged([rank(0, infiniband=[]), rank(1, infiniband=[])])
    assert any(status == NOTE and "No InfiniBand or RoCE port" in sentence for status, sentence in tcp)


def test_ranks_that_hang_do_not_start_or_land_on_one_node():
    stuck = [rank(0, met=None), rank(1, met=None)]
    sentences = wrong(stuck, launch={"status": None})
    assert "started 2 of 2 ranks, and 0 of them exchanged a message within 45 s." in sentences
    assert "started no rank (status 1). It said: srun: error" in wrong(
        [], launch={"status": 1, "said": "srun: error"}
    )
    on_one_node = [rank(number, host="n0", met=["n0"]) for number in (0, 1)]
    assert "started 2 ranks on 1 node (n0)" in wrong(on_one_node)
    alone = [rank(number, size=1, met=["n0"]) for number in (0, 1)]
    assert "2 processes, each of which thinks it is alone" in wrong(alone)


def test_a_job_that_waits_or_ends_without_a_word():
    [(status, sentence)] = judged(state="QUEUED")
    assert status == UNCHECKED
    assert (
        "The queue is full (job 7 waits: Priority): the rest is unchecked. The job was cancelled." in sentence
    )
    for state, output, says in (
        ("COMPLETED", "", "nothing that it wrote is seen here"),
        (
            "FAILED",
            "The module x cannot be loaded on n0.",
            "Job 7 on site ended with FAILED. It said: The module x",
        ),
        ("TIMEOUT", "", "ended (TIMEOUT), but nothing"),
    ):
        outcome = Outcome("7", state, "None", {}, [], output)
        [(status, sentence)] = verdict.judge("site", GPU_NODE, PLAN, outcome)
        assert (status, says in sentence) == (WRONG, True), sentence


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:4", 4),
        ("gpu:a100:4(S:0-1)", 4),
        ("gpu:4(S:0)", 4),
        ("gpu:a100:2,gpu:h100:2", 4),
        ("nvme:100,gpu:a100_1g.5gb:7", 7),
        ("gpu", 1),
        ("(null)", 0),
        ("craynetwork:4", 0),
    ],
)
def test_gpus_in_sinfos_list_of_resources(gres, count):
    assert slurm.gpu_count(gres) == count


def test_the_plugins_of_srun_in_the_words_of_several_versions():
    new = "MPI plugin types are...\n\tnone\n\tpmi2\n\tcray_shasta\n\tpmix\n"
    new += "specific pmix plugin versions available: pmix_v4,pmix_v5\n"
    assert slurm.parse_plugins(new) == ["none", "pmi2", "cray_shasta", "pmix", "pmix_v4", "pmix_v5"]
    old = "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: pmix_v3\n"
    assert slurm.parse_plugins(old) == ["none", "pmi2", "pmix_v3"]
    assert slurm.parse_plugins("") == []


def test_what_slurm_says_without_its_prefix():
    for text, says in (
        ("sbatch: error: Batch job submission failed: Invalid account\n", "Invalid account"),
        ("allocation failure: Invalid feature specification\n", "Invalid feature specification"),
        ("sacctmgr: error: a\nsacctmgr: fatal: Could not establish b\n", "Could not establish b"),
        ("", ""),
    ):
        assert slurm.shortest_reason(text) == says
