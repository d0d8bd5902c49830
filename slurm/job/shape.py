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
    node. gpus_of_rank: how many of them a rank is shown alone; 0: it sees all of its node."""

    number: str
    hosts: tuple[str, ...]
    tasks: tuple[int, ...]
    threads: int
    gpus: int
    gpus_of_rank: int = 0

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
        env["SLURM_JOB_ID"],
        hosts,
        tasks,
        threads,
        int(env.get("SLURM_GPUS_ON_NODE") or 0),
        # "2" or "a100:2", of --gpus-per-task
        int(env.get("SLURM_GPUS_PER_TASK", "").rpartition(":")[2] or 0),
    )


def _hosts(nodes: str) -> tuple[str, ...]:
    """ "node[1-2]" written out, by Slurm itself."""
    try:
        return tuple(cluster.slurm.Client().call("scontrol", "show", "hostnames", nodes).split())
    except cluster.slurm.Failed as failed:
        raise LabError(
            f"scontrol cannot name the nodes {nodes!r} of this job: {failed.reason}."
        ) from None


def device_map(shape: Shape, dev: Path = Path("/dev"), root: Path = Path("/")) -> list[str]:
    """Lines of a table: rank, host, local rank, and the device that `world.device` will choose.

    root: under which /proc and /sys are.
    """
    real = any(dev.glob("nvidia[0-9]*"))
    lines = ["  rank  host             local rank  device"]
    for rank, (host, local) in enumerate(shape.places()):
        shown = shape.gpus_of_rank or shape.gpus
        device = f"cuda:{local % shown}" if shape.gpus and real else "cpu"
        lines.append(f"  {rank:4}  {host:<15}  {local:10}  {device}")
    if len(lines) > 18:  # sixteen ranks show how it goes on
        lines[17:] = [f"  … and so on, to rank {shape.ranks - 1} on {shape.hosts[-1]}"]
    if shape.gpus and real:
        lines += _notes_on_gpus(shape, root)
    if shape.gpus and not real:
        count = "1 GPU" if shape.gpus == 1 else f"{shape.gpus} GPUs"
        lines.append(
            f"  Slurm counts {count} on each node, but this node has no NVIDIA device: the ranks"
            " use cores."
        )
    return lines


def _notes_on_gpus(shape: Shape, root: Path) -> list[str]:
    """Lines about what the numbers in the table do not say."""
    lines = []
    if shape.gpus_of_rank:
        count = "1 GPU" if shape.gpus_of_rank == 1 else f"{shape.gpus_of_rank} GPUs"
        lines.append(f"  Slurm shows each rank {count} of its own, numbered from cuda:0.")
    nodes = numa_nodes(root)
    if len(set(nodes)) > 1:
        told = ", ".join(f"GPU {number} on {node}" for number, node in enumerate(nodes))
        lines.append(f"  NUMA nodes, in the order of the GPUs' bus addresses: {told}.")
        if nodes != sorted(nodes):
            lines.append(
                "  They do not rise with the GPUs' numbers: ranks that get their cores in order are"
                " far from their GPUs. Ask the site how to bind them (srun --gpu-bind=closest"
                " gives a rank the GPU beside its cores)."
            )
    return lines


def numa_nodes(root: Path) -> list[int]:
    """The NUMA node of each NVIDIA GPU of this machine, by bus address; [] where Linux does not
    know it."""
    nodes = []
    for gpu in sorted((root / "proc/driver/nvidia/gpus").glob("*")):
        file = root / "sys/bus/pci/devices" / gpu.name / "numa_node"
        try:
            nodes.append(int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):
            return []
    return [] if -1 in nodes else nodes


def environment(
    shape: Shape, names: tuple[str, ...], env: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables in `names` that limit threads, where nobody has chosen a value."""
    return {name: str(shape.threads) for name in names if name not in env}
