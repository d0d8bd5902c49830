"""A scaling study: one lab, one job for each number of nodes, and one table at the end. Lab 50 reads one."""

from __future__ import annotations

from dataclasses import dataclass

from labkit import scaling
from labkit.cluster.job import Job
from labkit.errors import LabError

_COLUMNS = ["result", "nodes", "ranks", "seconds", "speedup", "efficiency", "job"]


@dataclass
class Study:
    """The jobs of a study, fewest nodes first. `for job in study` goes through them."""

    lab: str
    jobs: list[Job]

    def __iter__(self):
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    def wait(self, timeout: float | None = 3600) -> list[str]:
        """Wait for one job after the other, `timeout` seconds for each; their states. See Job.wait."""
        return [job.wait(timeout) for job in self.jobs]

    def table(self, result: str | None = None, weak: bool | None = None, **where):
        """What each job measured on all its ranks, as a pandas.DataFrame.

        Columns: result, nodes, ranks, seconds, speedup, efficiency (1.0 is perfect, and so the smallest job),
        job. result: one kind of record; None: all that have `seconds`. weak: the work grew with the ranks;
        None: results whose name begins with "weak". where: of records that differ in a field, those with
        this value (bytes=4096).
        """
        import pandas

        chosen = self._largest(result, where)
        rows = []
        for name, entries in chosen.items():
            is_weak = name.startswith("weak") if weak is None else weak
            times = {entry["ranks"]: entry["seconds"] for _, entry in entries}
            efficiency = scaling.efficiency(times, is_weak)
            speedup = scaling.speedup(times, is_weak)
            for job, entry in entries:
                ranks = entry["ranks"]
                measured = ranks, entry["seconds"], speedup[ranks], efficiency[ranks]
                rows.append((name, job.nodes, *measured, job.number))
        if not rows:
            states = ", ".join(f"{job.number} {job.state()}" for job in self.jobs)
            print(f"No job of this study has such records yet. Jobs: {states}.")
        return pandas.DataFrame(rows, columns=_COLUMNS).sort_values(["result", "nodes"], ignore_index=True)

    def plot(self, result: str, weak: bool | None = None, **where):
        """Speed-up against ranks, with the ideal line; arguments as for `table`."""
        from labkit import plots

        frame = self.table(result, weak, **where)
        is_weak = result.startswith("weak") if weak is None else weak
        if frame.empty:
            raise LabError(f"There is nothing to plot: no job of this study has records of {result!r} yet.")
        return plots.scaling(frame, weak=is_weak, title=f"{result}: speed-up on {self.jobs[0].site}")

    def _largest(self, result: str | None, where: dict) -> dict[str, list[tuple[Job, dict]]]:
        """result -> (job, its record on the most ranks), for jobs that have one."""
        largest: dict[str, list[tuple[Job, dict]]] = {}
        for job in self.jobs:
            for name, entries in _timed(job, result, where).items():
                most = max(entry["ranks"] for entry in entries)
                on_most = [entry for entry in entries if entry["ranks"] == most]
                largest.setdefault(name, []).append((job, _only(on_most, name)))
        return largest


def _timed(job: Job, result: str | None, where: dict) -> dict[str, list[dict]]:
    """result -> the job's records with seconds and ranks."""
    timed: dict[str, list[dict]] = {}
    for entry in job.entries():
        if result not in (None, entry["result"]):
            continue
        if any(entry.get(key) != value for key, value in where.items()):
            continue
        if isinstance(entry.get("seconds"), int | float) and isinstance(entry.get("ranks"), int):
            timed.setdefault(entry["result"], []).append(entry)
    return timed


def _only(entries: list[dict], result: str) -> dict:
    """The one record of a job; LabError that names the field in which several of them differ."""
    first = entries[0]
    measured = ("utc", "value", "seconds")
    for key, value in first.items():
        if not key.startswith(measured) and any(entry.get(key) != value for entry in entries):
            raise LabError(
                f"A job has {len(entries)} records of {result!r} on {first['ranks']} ranks, which differ in "
                f"`{key}`: choose one, as in table({result!r}, {key}={value!r})."
            )
    return entries[-1]
