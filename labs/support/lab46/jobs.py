"""Lab 46 as batch jobs: one for each build and controller, as a process holds one of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from labkit import builds, cluster, lab, record, world
from labkit.errors import LabError

from support.lab46 import show
from support.lab46.machines import BESIDE, GLOO

STEM = "46_three_libraries"


class Choice(NamedTuple):
    """What one job is started with, as cluster.submit takes it; None: the default."""

    horovod: str | None = None
    mpi: str | None = None
    env: dict[str, str] | None = None


def choices() -> list[Choice]:
    """A job for each build of Horovod that is here, one on the MPI beside the set-up's, and one with Gloo."""
    jobs = [Choice(horovod=name) for name in builds.horovod_builds()]
    if BESIDE in builds.mpi_builds() and builds.current_mpi() != BESIDE:
        jobs.append(Choice(mpi=BESIDE))
    return [*jobs, Choice(env=dict(pair.split("=") for pair in GLOO.split()))]


def elsewhere(timeout: float, **settings) -> None:
    """Run the lab on two nodes of the cluster at hand, one job for each choice; print what all measured.

    Else the kit's reference. timeout: seconds to wait for each job; settings: parameters of the lab. Inside
    of a job it does nothing.
    """
    if world.launcher() is not None:
        return
    entries: list[dict] = []
    if cluster.here():
        entries = _submitted(timeout, settings)
    else:
        print("No Slurm cluster is at hand.")
    label = "your jobs"
    if not entries:
        entries = record.reference(STEM).to_dict("records")
        label = "the kit's reference, not yours"
    rows = by_way(entries)
    if rows:
        print(f"On several nodes ({label}):")
        show.print_table(show.RESULT_COLUMNS + ["carried by", "staged"], rows)


def _submitted(timeout: float, settings: Mapping[str, object]) -> list[dict]:
    """The records of all jobs; what goes wrong with one is said, and the others go on."""
    jobs = []
    for choice in choices():
        try:
            jobs.append(
                cluster.submit(
                    STEM,
                    nodes=2,
                    settings=settings,
                    solved=lab.solved(),
                    horovod=choice.horovod,
                    mpi=choice.mpi,
                    env=choice.env,
                )
            )
        except LabError as error:
            print(error)
    entries = []
    for job in jobs:
        try:
            job.wait(timeout=timeout)
        except LabError as error:
            print(error)
        entries += job.entries()
    return entries


def by_way(entries: Iterable[Mapping]) -> dict[str, list[str]]:
    """Rows of a table, of the records "weak …" and "strong …" of several nodes; the latest of each counts."""
    newest: dict[tuple[str, int, int], dict[str, Mapping]] = {}
    for entry in entries:
        kind, _, way = str(entry["result"]).partition(" ")
        if kind in ("weak", "strong") and way and entry.get("nodes", 1) > 1:
            newest.setdefault((way, int(entry["nodes"]), int(entry["ranks"])), {})[kind] = entry
    rows = {}
    for (way, nodes, ranks), kinds in newest.items():
        if set(kinds) != {"weak", "strong"}:
            continue
        results = {kind: (entry["images_per_second"], entry["share"]) for kind, entry in kinds.items()}
        weak = kinds["weak"]
        cells = [*show.result_cells(results), ", ".join(weak["carried_by"]) or "-", str(weak["staged"])]
        rows[f"{way}, {nodes} nodes, {ranks} ranks"] = cells
    return rows
