"""Lab 61 as a batch job on a cluster at hand, and its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labkit import cluster, lab, record, world
from labkit.errors import LabError

STEM = "61_tf_distribute"


def elsewhere(timeout: float, **settings):
    """Run the lab on two nodes of the cluster at hand and print what it measured; else the kit's reference.

    timeout: seconds to wait. settings: parameters of the lab. Returns the table, as `table`; None inside of a
    job, where it does nothing, and where there is neither a job's record nor a reference.
    """
    if world.launcher() is not None:
        return None
    entries: list[dict] = []
    if cluster.here():
        try:
            job = cluster.submit(STEM, nodes=2, settings=settings, solved=lab.solved())
            job.wait(timeout=timeout)
            entries = job.entries()
        except LabError as error:
            print(error)
    else:
        print("No Slurm cluster is at hand: `make tabletop` starts one.")
    label = "your job"
    if not entries:
        entries = [entry for entry in _reference() if entry.get("nodes", 1) > 1]
        label = "the kit's reference, not yours"
    if not entries:
        return None
    frame = table(entries)
    print(f"On several nodes ({label}):")
    print(frame.round(2).to_string())
    return frame


def table(entries: Iterable[Mapping]):
    """A DataFrame of the records "training": a row for each way and net; the latest of each counts."""
    import pandas

    columns = ["nodes", "images_per_second", "efficiency", "bytes_per_image", "seconds_steady"]
    rows = {}
    for entry in entries:
        if entry["result"] == "training":
            rows[entry["net"], entry["way"]] = {column: entry.get(column) for column in columns}
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(["net", "way"])


def _reference() -> list[dict]:
    try:
        return record.reference(STEM).to_dict("records")
    except LabError:  # nothing was recorded yet
        return []
