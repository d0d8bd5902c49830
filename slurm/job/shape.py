"""The job as Slurm describes it to its batch script: nodes, ranks on each, cores and GPUs for
them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from labkit import cluster, world
from labkit.errors import LabError


class Shape(NamedTuple):
    """hosts and tasks (ranks): by node. threads: of each rank. gpus: what Slurm gives on each
    node."""

    number: str
    hosts: tuple[str, ...]
    tasks: tuple[int, ...]
    threads: int
    gpus: int

    @property
    def ranks(self) -> int:
        return sum(self.tasks)

    def places(self) -> list[tuple[str, int]]:
        """(host, local rank) by rank: the ranks fill one node after the other."""
        places = []
        for host, count in zip(self.hosts, self.tasks, strict=True):
            places += [(host, local) for local in range(count)]
        return places


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
    # cores than they have, and all of them share those of one machine.
    sharing = sum(tasks) if env.get("SITE") == "tabletop" else max(tasks)
    threads = max(1, min(wanted, world.cores() // sharing))
    return Shape(
        env["SLURM_JOB_ID"], hosts, tasks, threads, int(env.get("SLURM_GPUS_ON_NODE") or 0)
    )


def _hosts(nodes: str) -> tuple[str, ...]:
    """ "node[1-2]" written out, by Slurm itself."""
    try:
        return tuple(cluster.slurm.Client().call("scontrol", "show", "hostnames", nodes).split())
    except cluster.slurm.Failed as failed:
        raise LabError(
            f"scontrol cannot name the nodes {nodes!r} of this job: {failed.reason}."
        ) from None


def device_map(shape: Shape, dev: Path = Path("/dev")) -> list[str]:
    """Lines of a table: rank, host, local rank, and the device that `world.device` will choose."""
    real = any(dev.glob("nvidia[0-9]*"))
    lines = ["  rank  host             local rank  device"]
    for rank, (host, local) in enumerate(shape.places()):
        device = f"cuda:{local % shape.gpus}" if shape.gpus and real else "cpu"
        lines.append(f"  {rank:4}  {host:<15}  {local:10}  {device}")
    if len(lines) > 18:  # sixteen ranks show how it goes on
        lines[17:] = [f"  … and so on, to rank {shape.ranks - 1} on {shape.hosts[-1]}"]
    if shape.gpus and not real:
        count = "1 GPU" if shape.gpus == 1 else f"{shape.gpus} GPUs"
        lines.append(
            f"  Slurm counts {count} on each node, but this node has no NVIDIA device: the ranks"
            " use cores."
        )
    return lines


def environment(
    shape: Shape, names: tuple[str, ...], env: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables in `names` that limit threads, where nobody has chosen a value."""
    return {name: str(shape.threads) for name in names if name not in env}
