"""The checks of lab 43, real logs of NCCL, and what NCCL writes about Horovod's allreduces here."""

from __future__ import annotations

import copy
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from labkit import builds, check, cluster, expect, launch, world

LOGS = Path(__file__).with_name("lab43_logs")  # the first lines of each tell its source
KINDS = {"P2P": "P2P", "SHM": "SHM", "direct shared memory": "SHM", "NET": "NET"}
FIVE_JOBS = {  # what the job was: its log
    "2 hosts of 8 A800, RoCE": "2.10.3_roce_gdrdma",
    "2 hosts of 4 H100, InfiniBand": "2.21.5_ib_gdrdma",
    "8 hosts of 8 GPUs, InfiniBand": "nvls_64_ranks",
    "2 virtual machines of 8 GPUs": "2.18.3_socket_shm",
    "4 A100 in one host": "a100_nvlink_shm",
}
LINE = re.compile(
    r"Channel \d+\S* : (\d+)\[\w+\] -> (\d+)\[\w+\].* via (direct shared memory|\w+)(.*)"
)


def log(name: str) -> list[str]:
    """The lines of one of the logs that come with the kit."""
    return (LOGS / f"{name}.log").read_text().splitlines()


def transports(lines: Sequence[str]) -> dict[tuple[int, int], set[str]]:
    """Another way to the answer of 43.1."""
    pairs: dict[tuple[int, int], set[str]] = {}
    for source, dest, way, more in (match.groups() for match in map(LINE.search, lines) if match):
        kind = KINDS[way] + ("+GDRDMA" if "GDRDMA" in more else "")
        pairs.setdefault((int(source), int(dest)), set()).add(kind)
    return pairs


def one_of_each_kind(name: str) -> list[str]:
    """The last line about each kind of connection in one of the logs, from the word Channel on."""
    lines = {}
    for line in log(name):
        for kinds in transports([line]).values():
            lines[frozenset(kinds)] = line[line.index("Channel") :]
    return list(lines.values())


@check.exercise("43.1")
def every_connection_is_read(connections):
    """Each line of the kit's logs is read as NCCL means it, and all ways of a pair are kept."""
    for file in sorted(LOGS.glob("*.log")):
        lines = log(file.stem)
        for line in lines:
            want = transports([line])
            got = connections([line])
            expect(
                got == want, f"In the log {file.stem} “{line[-95:]}” means {want}; you read {got}."
            )
        expect.equal(
            connections(lines), transports(lines), f"all connections in the log {file.stem}"
        )
    for via, kind in (("0/GDRDMA/Shared", "NET+GDRDMA"), ("0/Shared", "NET")):
        line = f"Channel 01/1 : 1[1] -> 0[0] [receive] via NET/IB/{via}"
        got = connections([line])
        want = {(1, 0): {kind}}
        expect(got == want, f"A line may end with Shared: “{line}” means {want}; you read {got}.")
    pairs = ["6[6] -> 7[7] via P2P/IPC", "6[6] -> 7[7] via SHM/direct"]
    pairs += ["7[7] -> 8[0] via NET/IB/0", "7[7] -> 8[0] via NET/IB/1/GDRDMA"]
    expect.equal(
        connections([f"Channel 0{at} : {pair}" for at, pair in enumerate(pairs)]),
        {(6, 7): {"P2P", "SHM"}, (7, 8): {"NET", "NET+GDRDMA"}},
        "Two pairs with two kinds each, P2P and SHM, NET and NET+GDRDMA",
    )


NODES = ["node1"] * 4 + ["node2"] * 4
FOUR = [0, 1, 2, 3]
DOUBLE = "two ranks on one GPU"
HIDDEN = "peers hidden"
THREE = [[0, 1, 2]] * 4 + [[0, 1, 3, 4]] + [[0, 1, 2]] * 4  # rank 4 sees another GPU instead of 2


def _job(hosts: list[str], gpus: list[int], visible: list[list[int]]) -> list[tuple]:
    return list(zip(hosts, gpus, visible, strict=True))


JOBS = {  # job: (by rank: host, GPU, GPUs visible), what is wrong
    "--gpus-per-node=4 --gpu-bind=none": (_job(NODES, FOUR * 2, [FOUR] * 8), None),
    "ranks dealt out in turn": (
        _job(["node1", "node2"] * 4, [0, 0, 1, 1, 2, 2, 3, 3], [FOUR] * 8),
        None,
    ),
    "CUDA_VISIBLE_DEVICES=3,2,1,0": (_job(NODES, [3, 2, 1, 0] * 2, [[3, 2, 1, 0]] * 8), None),
    "--gpus-per-task=1": (_job(NODES, FOUR * 2, [[0], [1], [2], [3]] * 2), HIDDEN),
    "cgroups with 0,1 or 2,3": (
        _job(NODES, FOUR * 2, [[0, 1], [0, 1], [2, 3], [2, 3]] * 2),
        HIDDEN,
    ),
    "five ranks, four GPUs": (_job(["node1"] * 5, [*FOUR, 0], [FOUR] * 5), DOUBLE),
    "one rank on each node": ([("node1", 0, [0]), ("node2", 0, [0])], None),
    "one rank on each node, other GPUs": ([("node1", 11, [11]), ("node11", 1, [1])], None),
    "lists in another order": ([("node1", 0, [0, 1]), ("node1", 1, [1, 0])], None),
    "more GPUs than ranks": ([("node1", 0, [0, 1, 2]), ("node1", 1, [0, 1, 3])], None),
    "as many visible as ranks, but not the peer's": (
        [("node1", 0, [0, 2]), ("node1", 1, [1, 2])],
        HIDDEN,
    ),
    "only one rank sees too little": ([("node1", 0, [0, 1, 2]), ("node1", 1, [1, 2, 3])], HIDDEN),
    "only the first rank sees too little": (
        [("node1", 0, [0, 2, 3]), ("node1", 1, [0, 1, 2])],
        HIDDEN,
    ),
    "two of four GPUs, but both ranks on one": ([("node1", 0, FOUR), ("node1", 0, [0, 1])], DOUBLE),
    "three nodes in turn, one rank of node5 sees too little": (
        _job(["node3", "node5", "node4"] * 3, [0, 0, 0, 1, 1, 1, 2, 2, 2], THREE),
        HIDDEN,
    ),
    "doubles on the second node alone": (_job(NODES, [*FOUR, 0, 1, 2, 2], [FOUR] * 8), DOUBLE),
    "doubles and hidden peers": ([("node1", 0, [0]), ("node1", 0, [0]), ("node1", 1, [1])], DOUBLE),
}


@check.exercise("43.2")
def trouble_is_found(trouble):
    """Of each job it is said what is wrong, if anything is: doubles first, then hidden peers."""
    for name, (job, wrong) in JOBS.items():
        given = copy.deepcopy(job)
        answer = trouble(given)
        expect(answer == wrong, f"{name}: trouble says {answer!r}, not {wrong!r}, of {job}.")
        expect.unchanged(job, given, f"{name}: the job")


OPERATIONS = ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER")
LIBRARIES = {"N": "NCCL", "M": "MPI", "-": None}
# Switches, without HOROVOD_: who moves each of OPERATIONS, or the error.
SWITCHES = {
    "": "-----",
    "GPU_OPERATIONS=NCCL": "NNNNN",
    "GPU_OPERATIONS=MPI": "MMMMM",
    "GPU_OPERATIONS=NCCL ALLOW_MIXED_GPU_IMPL=1": "NNNNN",
    "GPU_ALLREDUCE=NCCL": "N----",
    "GPU_ALLREDUCE=MPI GPU_BROADCAST=NCCL": "M-N--",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI ALLOW_MIXED_GPU_IMPL=1": "N-M--",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI ALLOW_MIXED_GPU_IMPL=0": "mixed",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI ALLOW_MIXED_GPU_IMPL=yes": "mixed",
    "GPU_ALLGATHER=MPI GPU_BROADCAST=NCCL": "-MN--",
    "GPU_ALLREDUCE=NCCL GPU_ALLGATHER=MPI GPU_BROADCAST=MPI GPU_ALLTOALL=NCCL": "mixed",
    **{f"GPU_ALLREDUCE=NCCL GPU_{name}=MPI": "mixed" for name in OPERATIONS[1:]},
    "GPU_OPERATIONS=NCCL GPU_ALLREDUCE=NCCL": "both",
    **{f"GPU_OPERATIONS=NCCL GPU_{name}=MPI": "both" for name in OPERATIONS[1:]},
    "GPU_OPERATIONS=NCCL GPU_ALLTOALL=MPI ALLOW_MIXED_GPU_IMPL=1": "both",
    "GPU_OPERATIONS=MPI GPU_ALLREDUCE=NCCL GPU_ALLGATHER=MPI": "both",
}


@check.exercise("43.3")
def built_as_cmake_does(build):
    """It is built what Horovod's CMake files make of each set of switches, and refused what they
    refuse."""
    for text, says in SWITCHES.items():
        if says.islower():
            want = f'refuses this, ValueError("{says}")'
        else:
            row = {name: LIBRARIES[letter] for name, letter in zip(OPERATIONS, says, strict=True)}
            want = f"builds {row}"
        asked = dict(f"HOROVOD_{switch}".split("=") for switch in text.split())
        given = dict(asked)
        try:
            built = build(given)
        except ValueError as error:
            right = str(error) == says
            got = f'raise ValueError("{error}")'
        else:
            right = not says.islower() and built == row
            got = f"return {built!r}"
        switches = f"Switches “{text}”" if text else "No switches"
        expect(right, f"{switches}: CMake {want}; you {got}.")
        expect.unchanged(asked, given, f"{switches}: the dict of switches")


def most_ranks(build: str | None, wanted: int) -> int:
    """How many ranks may run with this build of Horovod on this machine: with NCCL one for each
    GPU."""
    import torch

    gpus = torch.cuda.device_count()
    return min(wanted, gpus) if build == "nccl" and gpus else wanted


def nccl_log(sizes: Sequence[float]) -> list[str]:
    """NCCL's log of an allreduce of each size in bytes, on as many ranks as fit (under a launcher:
    all).

    Without GPUs, or without a build of Horovod for NCCL, it has no lines, and what is missing is
    printed.
    """
    import torch

    gpus = torch.cuda.device_count()
    names = [builds.current_horovod()] if world.launcher() else builds.horovod_builds()
    if gpus and "nccl" in names:
        ranks = launch.ranks_here(most_ranks("nccl", 4))
        texts = launch.run(_allreduces, sizes, ranks=ranks, timeout=120, horovod="nccl")
        return "\n".join(texts).splitlines()
    print(
        f"GPUs here: {gpus}. Horovod built with NCCL: {'nccl' in names}. NCCL does not run here. On"
        " a cluster"
    )
    print(
        "with both, a job lets it run: make submit LAB=43 NODES=2 HOROVOD=nccl"
        f" SITE={cluster.here() or '…'}"
    )
    return []


def _allreduces(sizes: Sequence[float]) -> str:
    import horovod.torch as hvd
    import torch

    with tempfile.TemporaryDirectory() as folder:
        # NCCL reads these at its first call
        os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{folder}/%h.%p.log"}
        os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET,TUNING"
        hvd.init()
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
        for nbytes in sizes:
            hvd.allreduce(
                torch.ones(max(1, int(nbytes) // 4), device="cuda"), name=f"{nbytes:.0f} bytes"
            )
        torch.cuda.synchronize()
        # under a launcher this process goes on, and may start Horovod anew in another way
        hvd.shutdown()
        return "\n".join(file.read_text(errors="replace") for file in Path(folder).iterdir())
