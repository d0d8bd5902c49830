"""Batch jobs and studies handed to Slurm: `submit` and `study`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from labkit import lab as this_lab
from labkit.cluster import sites
from labkit.cluster.job import Job
from labkit.cluster.request import Choices, Request
from labkit.cluster.studies import Study
from labkit.errors import LabError


def submit(
    lab: str | int,
    nodes: int = 2,
    ranks_per_node: int | None = None,
    site: str | None = None,
    settings: Mapping[str, object] | None = None,
    solved: bool | None = None,
    env: Mapping[str, str] | None = None,
    horovod: str | None = None,
    mpi: str | None = None,
) -> Job:
    """Hand a lab's batch script to Slurm; returns at once.

    ranks_per_node: None leaves it to the script. site: a file of slurm/sites/; None: here(). settings: other
    values of the lab's parameters. solved: the solved lab, with records of its own in home()/solved; None:
    if this is a run of a solved lab. env: variables for the ranks, which win over the site file's. horovod,
    mpi: builds, as for launch.run; None: what the site file says, else the default.
    LabError with one sentence when it cannot be, Slurm's own sentence where Slurm refuses.
    """
    choices = Choices(settings or {}, _is_solved(solved), env or {}, horovod, mpi)
    return Request.checked(lab, nodes, ranks_per_node, site or sites.here(), choices).send(nodes)


def study(
    lab: str | int,
    nodes: Sequence[int] = (1, 2, 4, 8),
    ranks_per_node: int | None = None,
    site: str | None = None,
    settings: Mapping[str, object] | None = None,
    solved: bool | None = None,
    env: Mapping[str, str] | None = None,
    horovod: str | None = None,
    mpi: str | None = None,
) -> Study:
    """Submit one job for each number of nodes; the rest as for submit. See Study on how to read it.

    Nothing is submitted when the site has too few nodes for one of them.
    """
    counts = sorted(set(nodes))
    if not counts:
        raise LabError("A study needs numbers of nodes: study(50, nodes=[1, 2]).")
    choices = Choices(settings or {}, _is_solved(solved), env or {}, horovod, mpi)
    request = Request.checked(lab, counts[-1], ranks_per_node, site or sites.here(), choices, least=counts[0])
    name = f"{request.stem[:2]}-{datetime.now():%Y%m%d-%H%M%S}"
    sent = Study(request.stem, [])
    for count in counts:
        try:
            sent.jobs.append(request.send(count, name))
        except LabError as error:
            numbers = ", ".join(job.number for job in sent.jobs) or "none"
            raise LabError(f"{error} Of this study's jobs, these were submitted: {numbers}.") from error
    return sent


def _is_solved(solved: bool | None) -> bool:
    return this_lab.solved() if solved is None else solved
