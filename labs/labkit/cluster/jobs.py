"""Batch jobs from a notebook or the command line: submit, wait, read the records. Lab 42 uses it first.

    job = cluster.submit("42", nodes=2)     # needs Slurm; `make tabletop` starts one on this machine
    job.wait()                              # a line that says how it stands
    frame = job.records("allreduce")        # what it measured, as a table

What a job is asked for beyond its batch script stands in slurm/sites/SITE.sh and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

from labkit import labfile, record
from labkit.cluster import job as cluster_job
from labkit.cluster import sites as _sites
from labkit.cluster import slurm
from labkit.cluster.job import Job
from labkit.cluster.request import Request
from labkit.cluster.study import Study
from labkit.errors import LabError

__all__ = ["Job", "Study", "here", "jobs", "last_study", "records_or_reference", "sites", "study", "submit"]


def sites() -> list[str]:
    """The names of the sites that have a file in slurm/sites/."""
    return _sites.names()


def here() -> str | None:
    """The site we are at: $SITE, else "tabletop" when one runs on this machine, else None."""
    return os.environ.get("SITE") or ("tabletop" if slurm.tabletop() else None)


def submit(
    lab: str | int,
    nodes: int = 2,
    ranks_per_node: int | None = None,
    site: str | None = None,
    settings: Mapping[str, object] | None = None,
    solved: bool | None = None,
) -> Job:
    """Hand a lab's batch script to Slurm; returns at once.

    ranks_per_node: None leaves it to the script. site: a name in sites(); None: here(). settings: other
    values of the lab's parameters. solved: the solved lab, with records of its own in home()/solved; None:
    if this is a run of a solved lab.
    LabError with one sentence when it cannot be, Slurm's own sentence where Slurm refuses.
    """
    site = site or here()
    solved = lab.solved() if solved is None else solved
    return Request.checked(lab, nodes, ranks_per_node, site, settings or {}, solved).send(nodes)


def study(
    lab: str | int,
    nodes: Sequence[int] = (1, 2, 4, 8),
    ranks_per_node: int | None = None,
    site: str | None = None,
    settings: Mapping[str, object] | None = None,
    solved: bool | None = None,
) -> Study:
    """Submit one job for each number of nodes; the rest as for submit. See Study on how to read it.

    Nothing is submitted when the site has too few nodes for one of them.
    """
    counts = sorted(set(nodes))
    if not counts:
        raise LabError("A study needs numbers of nodes: study(50, nodes=[1, 2]).")
    solved = lab.solved() if solved is None else solved
    request = Request.checked(
        lab, counts[-1], ranks_per_node, site or here(), settings or {}, solved, least=counts[0]
    )
    name = f"{request.stem[:2]}-{datetime.now():%Y%m%d-%H%M%S}"
    sent = Study(request.stem, [])
    for count in counts:
        try:
            sent.jobs.append(request.send(count, name))
        except LabError as error:
            numbers = ", ".join(job.number for job in sent.jobs) or "none"
            raise LabError(f"{error} Of this study's jobs, these were submitted: {numbers}.") from error
    return sent


def last_study(lab: str | int) -> Study:
    """The newest study of this lab, also of an earlier day. LabError when there is none."""
    stem = labfile.find(lab)
    everything = [job for job in jobs(stem) if job.study]
    if not everything:
        raise LabError(f"There is no study of lab {stem[:2]} yet: make scaling LAB={stem[:2]} NODES=1,2,4,8.")
    return Study(stem, [job for job in everything if job.study == everything[-1].study])


def jobs(lab: str | int | None = None) -> list[Job]:
    """This learner's jobs, oldest first, also those of earlier days; `lab` picks one lab's."""
    stem = None if lab is None else labfile.find(lab)
    return [job for job in cluster_job.remembered() if stem in (None, job.lab)]


def records_or_reference(lab: str | int, result: str | None = None, job: Job | None = None):
    """(records, label): those of `job`, or of the newest job of this lab that has some; else the kit's own.

    The label says which they are, for a table's or a plot's title.
    """
    stem = labfile.find(lab)
    for one in [job] if job else reversed(jobs(stem)):
        if any(result in (None, entry["result"]) for entry in one.entries()):
            return one.records(result), f"your job {one.number} on {one.site}"
    frame = record.reference(stem, result)
    return frame, f"the kit's reference: {_origin(frame)}, not yours"


def _origin(frame) -> str:
    """Where and when reference results were measured."""
    if frame.empty:
        return "none"
    first = frame.iloc[0]
    gpu = first["device"] if str(first.get("device", "")).startswith("cuda") else None
    parts = [
        first.get("site"),
        first.get("cpu"),
        f"{first.get('cores')} cores",
        gpu,
        str(first.get("utc"))[:10],
    ]
    return ", ".join(str(part) for part in parts if part is not None and part == part)
