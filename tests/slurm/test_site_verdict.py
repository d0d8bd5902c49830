"""The site doctor's sentences on what nodes may answer: GPUs, InfiniBand, other MPIs, trouble."""

from __future__ import annotations

import pytest
from labkit.cluster import slurm

from slurm.doctor import verdict
from slurm.doctor.findings import NOTE, OK, UNCHECKED, WRONG
from slurm.doctor.login import Outcome

PORT = "mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)"
DOWN = PORT.replace("ACTIVE", "DOWN")
SITE = {
    "LABKIT_LAUNCHER": "srun --mpi=pmi2",
    "LABKIT_MPI": "mvapich2-gdr",
    "LABKIT_GPUS_PER_NODE": "4",
}
BUILDS = {"horovod": ["host", "nccl"], "gdrcopy": True}
WITHOUT = {"horovod": ["host"], "gdrcopy": False}
ASKS = {"LABKIT_HOROVOD": "nccl", "LABKIT_GDRCOPY": "/opt/libgdrapi.so"}
# What a rank of a healthy node with four GPUs says, beside its host and its number.
HEALTHY = {
    "cores": 16, "gpus": 4, "infiniband": [PORT], "size": 2, "threads": "MULTIPLE",
    "met": ["n0", "n1"], "seconds": 0.001, "family": "MVAPICH2-GDR", "version": "2.3.7",
    "files": ["libmpi.so.12"], "mpi": {"rate": 22e9, "staged": "", "gpu_rate": 20e9},
    "nccl": {"latency": 20e-6, "bus": 21e9, "ways": {"NET/IB/GDRDMA": 4, "P2P": 2}},
}  # fmt: skip
TCP = {"rate": 1.1e9, "staged": "this MPICH does not take GPU memory"}
SOCKETS = {"latency": 90e-6, "bus": 1e9, "ways": {"NET/Socket": 8}}
NO_MPI = {"family": None, "threads": None, "met": None, "size": None}
DUMB = {"first": NO_MPI, "status": 1, "said": "ImportError"}
LATE = {"first": {"met": None}, "status": None}


def judged(
    first: dict, second: dict | None = None, builds=BUILDS, status: int | None = 0, said="", **env
):
    """The findings on a job of two ranks that say something else than healthy ones; `first` said by
    both."""
    ranks = []
    for number, other in enumerate([first, first if second is None else second]):
        values = {"host": f"n{number}", **HEALTHY, **other}
        ranks.append({key: value for key, value in values.items() if value is not None})
    report = {"advice": ["MPI allows less", "Two copies of NCCL."]}
    node = {"host": "n0", "wanted": 2, "status": status, "said": said, "report": report, **builds}
    outcome = Outcome("7", "COMPLETED", "None", node, ranks, "")
    return list(verdict.judge("site", SITE | env, 2, outcome))


def test_a_healthy_cluster():
    findings = judged({}, **ASKS)
    assert {status for status, _ in findings[:-1]} == {OK}
    assert findings[-1] == (NOTE, "Two copies of NCCL."), "what labkit's doctor advises"
    sentences = "\n".join(sentence for _, sentence in findings)
    for said in (
        "started 2 ranks on 2 nodes (n0, n1); they exchanged their first message in 0.001 s.",
        "4 GPUs in each node.",
        f"1 InfiniBand port: {PORT}.",
        "MPI: MVAPICH2-GDR 2.3.7, as the site file says.",
        "Between two nodes MPI moves 22 GB/s of host memory",
        "bus bandwidth of 21 GB/s for 256 MiB. Connections: NET/IB/GDRDMA 8, P2P 4.",
        "That is as expected: 88% of what the network card of a node can give.",
        "Horovod's build nccl, which the site file asks for, is there.",
    ):
        assert said in sentences


@pytest.mark.parametrize(
    ("answers", "status", "says"),
    [
        (ASKS | {"builds": WITHOUT}, WRONG, "build 'nccl'; on the node there is: host. `make"),
        (ASKS | {"builds": WITHOUT}, WRONG, "LABKIT_GDRCOPY names /opt/libgdrapi.so, which is no"),
        ({"first": {"threads": "SINGLE"}}, WRONG, "MPI_THREAD_SINGLE only, but Horovod wants"),
        ({"first": {"threads": "SINGLE"}}, WRONG, "MV2_ENABLE_AFFINITY=0 cures it"),
        ({"second": {"family": "MPICH"}}, WRONG, "libraries: MPICH 2.3.7, MVAPICH2-GDR 2.3.7"),
        (DUMB, WRONG, "2 of 2 ranks, and 0 of them exchanged a message (status 1). It said: Imp"),
        (DUMB, WRONG, "No rank could load an MPI library"),
        (LATE, WRONG, "0 of them exchanged a message in time. Does an interface not reach"),
        ({"second": {"gpus": 2}}, WRONG, "4 GPUs in a node, but PyTorch sees 2 in this job."),
        ({"first": {"cores": 1}}, NOTE, "Each rank may use 1 core, little for its data loaders"),
        ({"second": {"infiniband": [DOWN]}}, WRONG, f"No InfiniBand port of n1 is active: {DOWN}."),
        ({"second": {"infiniband": []}}, WRONG, "No InfiniBand port of n1 is active: none there."),
        ({"first": {"infiniband": []}}, NOTE, "No InfiniBand or RoCE port"),
        ({"first": {"host": "n0", "met": ["n0"]}}, WRONG, "started 2 ranks on 1 node (n0)"),
        ({"first": {"size": 1, "met": ["n0"]}}, WRONG, "each of which thinks it is alone"),
        ({"first": {"mpi": TCP}}, WRONG, "1.1 GB/s of host memory, both ways at once. The port ca"),
        ({"first": {"mpi": TCP}}, NOTE, "MPI gets no GPU memory: this MPICH does not take GPU mem"),
        ({"first": {"mpi": TCP, "infiniband": []}}, OK, "1.1 GB/s of host memory"),
        ({"first": {"nccl": SOCKETS}}, WRONG, "NET/Socket 16. An active InfiniBand port is not"),
        ({"second": {"nccl": {"failed": "error: x"}}}, WRONG, "NCCL's allreduce failed: error: x"),
        ({"LABKIT_MPI": "openmpi"}, WRONG, "openmpi, but the ranks run on MVAPICH2-GDR 2.3.7"),
    ],
)
def test_what_is_wrong_is_said(answers, status, says):
    findings = judged(**{"first": {}, **answers})
    assert any(says in sentence and found == status for found, sentence in findings), findings


@pytest.mark.parametrize("second", [{"host": "n0"}, {"host": "n1", "nccl": None}])
def test_only_several_ranks_on_several_nodes_are_compared_with_the_cards(second):
    assert not any("That is" in sentence for _, sentence in judged({"host": "n0"}, second))


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
    statuses = {status for status, _ in judged({"family": family}, LABKIT_MPI=flavor)}
    assert (WRONG not in statuses) == fits


BEGUN = {"host": "n0", **BUILDS}


@pytest.mark.parametrize(
    ("state", "node", "output", "status", "says"),
    [
        ("PENDING", {}, "", UNCHECKED, "The queue is full (job 7 waits: Priority): the rest is un"),
        ("COMPLETED", {}, "", WRONG, "nothing that it wrote is seen here"),
        ("FAILED", {}, "The module x", WRONG, "7 on site ended with FAILED. It said: The module x"),
        ("TIMEOUT", {}, "", WRONG, "ended (TIMEOUT), but nothing"),
        ("TIMEOUT", BEGUN, "", WRONG, "Job 7 ended (TIMEOUT) while its ranks were started."),
    ],
)
def test_a_job_that_waits_or_ends_without_a_word(state, node, output, status, says):
    outcome = Outcome("7", state, "Priority", node, [], output)
    *before, (found, sentence) = verdict.judge("site", SITE, 2, outcome)
    assert (found, says in sentence) == (status, True), sentence
    assert len(before) == bool(node)


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:4", 4),
        ("gpu:a100:4(S:0-1)", 4),
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sbatch: error: Batch job submission failed: Invalid account\n", "Invalid account"),
        ("allocation failure: Invalid feature specification\n", "Invalid feature specification"),
        ("sacctmgr: error: a\nsacctmgr: fatal: Could not establish b\n", "Could not establish b"),
        ("", ""),
    ],
)
def test_what_slurm_says_without_its_prefix(text, says):
    assert slurm.shortest_reason(text) == says
