"""The job as Slurm describes it to its batch script: nodes, ranks on each, cores and GPUs for
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from labkit import cluster, world
from labkit.errors import LabError


class Shape(NamedTuple):
    """hosts and tasks (ranks): by node. threads: of each rank. gpus: those of its node that a rank
    is shown."""

    number: str
    hosts: tuple[str, ...]
    tasks: tuple[int, ...]
    threads: int
    gpus: int

    @property
    def ranks(self) -> int:
        return sum(self.tasks)


def read(env: Mapping[str, str]) -> Shape:
    """The shape of the job whose batch script this is. LabError outside of a job."""
    if "SLURM_JOB_ID" not in env:
        raise LabError(
            "This is no Slurm job: `make submit LAB=40` submits one, `make run LAB=40` runs here."
        )
    hosts = _hosts(env.get("SLURM_JOB_NODELIST", ""))
    tasks = tuple(world.tasks_per_node(env.get("SLURM_TASKS_PER_NODE", "")))
    if len(tasks) != len(hosts):
        tasks = (1,) * len(hosts)
    wanted = int(env.get("SLURM_CPUS_PER_TASK") or 1)
    # Threads beyond the cores that are there only get in the way. A tabletop's nodes claim more
    # cores than they have, and all of them share those of one machine. Elsewhere these are the
    # cores of the first node, which only its own ranks share.
    sharing = sum(tasks) if env.get("SITE") == "tabletop" else tasks[0]
    threads = max(1, min(wanted, world.cores() // sharing))
    # "2" or "a100:2": --gpus-per-task shows a rank no others, however many its node has.
    gpus = env.get("SLURM_GPUS_PER_TASK") or env.get("SLURM_GPUS_ON_NODE") or "0"
    return Shape(env["SLURM_JOB_ID"], hosts, tasks, threads, int(gpus.rpartition(":")[2]))


def _hosts(nodes: str) -> tuple[str, ...]:
    """ "node[1-2]" written out, by Slurm itself."""
    try:
        return tuple(cluster.slurm.Client().call("scontrol", "show", "hostnames", nodes).split())
    except cluster.slurm.Failed as failed:
        raise LabError(
            f"scontrol cannot name the nodes {nodes!r} of this job: {failed.reason}."
        ) from None
