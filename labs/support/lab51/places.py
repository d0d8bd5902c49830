"""Where the libraries compete: on the ranks that are here, and between two nodes of a cluster."""

from __future__ import annotations

import socket

from labkit import cluster, lab, launch, world
from labkit.errors import LabError

from support.lab51.show import Table

STEM = "51_mpi_against_nccl"


def ranks() -> int:
    """How many ranks compete: those of the launcher; else one a GPU, or one a core but at most 4; at least 2.

    More would share a GPU, which NCCL refuses, or wait for a core.
    """
    return launch.ranks_here(max(2, _gpus() or min(4, world.cores())))


def _gpus() -> int:
    if world.device() == "cpu":
        return 0
    import torch

    return torch.cuda.device_count()


def nodes(ranks: int) -> int:
    """How many hosts a run on `ranks` ranks has: alone this one, under a launcher those of the job."""
    return len(set(launch.run(socket.gethostname, ranks=ranks))) if world.launcher() else 1


def elsewhere(timeout: float, **settings) -> tuple[Table, str]:
    """(table of two nodes with two ranks each, what it is): of a job on the cluster at hand, else the kit's.

    settings: the job's parameters. Waits for it, `timeout` seconds at most; one that fails is told of.
    Inside of a job: no new one.
    """
    job = None
    if world.launcher() is None and cluster.here():
        job = cluster.submit(STEM, nodes=2, ranks_per_node=2, settings=settings, solved=lab.solved())
        try:
            job.wait(timeout=timeout)
        except LabError as error:  # the lab here is well, only the numbers from there are missing
            print(f"{error}\nOn with the kit's reference results.")
    elif world.launcher() is None:
        print("No Slurm cluster is at hand: `make tabletop BANDWIDTH=200mbit` starts one on this machine.")
    frame, label = cluster.records_or_reference(STEM, "allreduce", job)
    return between_nodes(frame), label


def between_nodes(frame) -> Table:
    """The table of the records "allreduce" in a DataFrame that were made on several nodes.

    Of several records of one backend the latest counts.
    """
    table: Table = {}
    for row in frame.to_dict("records"):
        if row.get("nodes", 1) > 1:
            times = zip(row["q1"], row["median"], row["q3"], strict=True)
            table[row["backend"]] = dict(zip(row["bytes"], times, strict=True))
    return table
