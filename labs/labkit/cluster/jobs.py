"""This learner's batch jobs: handed to Slurm one by one or as a scaling study, and found again
later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from labkit import labfile, record, scaling
from labkit.cluster.job import Job, remembered
from labkit.cluster.request import Request
from labkit.errors import LabError

_COLUMNS = ["result", "nodes", "ranks", "seconds", "speedup", "efficiency", "job"]


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

    ranks_per_node: None leaves it to the script. site: a file of slurm/sites/; None: here().
    settings: other values of the lab's parameters. solved: the solved lab, with records of its own
    in home()/solved; None: if this is a run of a solved lab. env: variables for the ranks, which
    win over the site file's. horovod, mpi: builds, as for launch.run; None: what the site file
    says, else the default. LabError with one sentence when it cannot be, Slurm's own sentence where
    Slurm refuses.
    """
    request = Request.checked(
        lab, [nodes], ranks_per_node, site, settings, solved, env, horovod, mpi
    )
    return request.send(nodes)


def study(lab: str | int, nodes: Sequence[int] = (1, 2, 4, 8), **options) -> Study:
    """Submit one job for each number of nodes; the rest as for submit. See Study on how to read it.

    Nothing is submitted when the site has too few nodes for one of them.
    """
    counts = sorted(set(nodes))
    if not counts:
        raise LabError("A study needs numbers of nodes: study(50, nodes=[1, 2]).")
    request = Request.checked(lab, counts, **options)
    name = f"{request.stem[:2]}-{datetime.now():%Y%m%d-%H%M%S}"
    sent = Study(request.stem, [])
    for count in counts:
        try:
            sent.jobs.append(request.send(count, name))
        except LabError as error:
            numbers = ", ".join(job.number for job in sent.jobs) or "none"
            raise LabError(
                f"{error} Of this study's jobs, these were submitted: {numbers}."
            ) from error
    return sent


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
        """Wait for one job after the other, `timeout` seconds for each; their states. See
        Job.wait."""
        return [job.wait(timeout) for job in self.jobs]

    def table(self, result: str | None = None, **where):
        """What each job measured on all its ranks, as a pandas.DataFrame.

        Columns: result, nodes, ranks, seconds, speedup, efficiency (1.0 is perfect, and so the
        smallest job), job. result: one kind of record; None: all that have `seconds`. Where its
        name begins with "weak", or is "workload", the work grew with the ranks. where: of records
        that differ in a field, those with this value (bytes=4096).
        """
        return self._frame(result, where)[_COLUMNS]

    def _frame(self, result: str | None, where: dict):
        """The table with the quartiles of the times."""
        import pandas

        # Of objects: a column that some records lack would turn their neighbours' integers into
        # floats.
        frame = pandas.DataFrame(self._timed(result, where), dtype=object)
        if frame.empty:
            states = ", ".join(f"{job.number} {job.state()}" for job in self.jobs)
            print(f"No job of this study has such records yet. Jobs: {states}.")
            return frame.reindex(columns=_COLUMNS)
        tables = []
        for name, of_result in frame.groupby("result"):
            table = pandas.DataFrame([_largest(of_job) for _, of_job in of_result.groupby("job")])
            weak = _is_weak(name)
            times = dict(zip(table["ranks"], table["seconds"], strict=True))
            table["speedup"] = table["ranks"].map(scaling.speedup(times, weak))
            table["efficiency"] = table["ranks"].map(scaling.efficiency(times, weak))
            columns = [*_COLUMNS, "seconds_q1", "seconds_q3"]
            tables.append(table.reindex(columns=columns).sort_values("nodes"))
        return pandas.concat(tables, ignore_index=True).infer_objects()

    def _timed(self, result: str | None, where: dict) -> list[dict]:
        """The jobs' records with seconds and ranks, each with its job and that one's nodes."""
        return [
            {**entry, "nodes": job.nodes, "job": job.number}
            for job in self.jobs
            for entry in _of_last_start(job.entries())
            if result in (None, entry["result"])
            and all(entry.get(key) == value for key, value in where.items())
            and isinstance(entry.get("seconds"), int | float)
            and isinstance(entry.get("ranks"), int)
        ]

    def plot(self, result: str, **where):
        """Speed-up against ranks, with the ideal line; arguments as for `table`."""
        from labkit import plots

        frame = self._frame(result, where)
        if frame.empty:
            raise LabError(
                f"There is nothing to plot: no job of this study has records of {result!r} yet."
            )
        return plots.scaling(
            frame,
            weak=_is_weak(result),
            title=f"{result}: speed-up on {self.jobs[0].site}",
        )


def _of_last_start(entries: list[dict]) -> list[dict]:
    """Those since Slurm last began the job: one that was requeued measures everything again."""
    # None: of a release that did not count.
    last = max((entry.get("restarts") or 0 for entry in entries), default=0)
    return [entry for entry in entries if (entry.get("restarts") or 0) == last]


def _is_weak(result: str) -> bool:
    """Whether each rank has work of its own in such a record, and not a part of the job's."""
    return result.startswith("weak") or result == "workload"


def _largest(of_job):
    """A job's record on the most ranks; LabError that names the field in which several of them
    differ."""
    largest = of_job[of_job["ranks"] == of_job["ranks"].max()]
    for key in largest:
        values = largest[key].map(repr)
        if not key.startswith(("utc", "value", "seconds")) and values.nunique() > 1:
            first = largest.iloc[0]
            name = first["result"]
            raise LabError(
                f"A job has {len(largest)} records of {name!r} on {first['ranks']} ranks, which"
                f" differ in `{key}`: choose one, as in table({name!r}, {key}={first[key]!r})."
            )
    return largest.iloc[-1]


def jobs(lab: str | int | None = None) -> list[Job]:
    """This learner's jobs, oldest first, also those of earlier days; `lab` picks one lab's."""
    stem = None if lab is None else labfile.find(lab)
    return [job for job in remembered() if stem in (None, job.lab)]


def last_study(lab: str | int) -> Study:
    """The newest study of this lab, also of an earlier day. LabError when there is none."""
    stem = labfile.find(lab)
    in_studies = [job for job in jobs(stem) if job.study]
    if not in_studies:
        raise LabError(
            f"There is no study of lab {stem[:2]} yet: make scaling LAB={stem[:2]} NODES=1,2,4,8."
        )
    newest = in_studies[-1].study
    return Study(stem, [job for job in in_studies if job.study == newest])


def records_or_reference(lab: str | int, result: str | None = None, job: Job | None = None):
    """(records, label): those of `job`, or of the newest job of this lab that has some; else the
    kit's own.

    The label says which they are, for a table's or a plot's title.
    """
    stem = labfile.find(lab)
    candidates = [job] if job else reversed(jobs(stem))
    for candidate in candidates:
        if any(result in (None, entry["result"]) for entry in candidate.entries()):
            return candidate.records(result), f"your job {candidate.number} on {candidate.site}"
    frame = record.reference(stem, result)
    return frame, f"the kit's reference: {_origin(frame)}, not yours"


def _origin(frame) -> str:
    """Where and when reference results were measured."""
    if frame.empty:
        return "none"
    first = frame.iloc[0]
    on_gpu = str(first.get("device", "")).startswith("cuda")
    parts = [
        first.get("site"),
        first.get("cpu"),
        f"{first.get('cores')} cores",
        first["device"] if on_gpu else None,
        str(first.get("utc"))[:10],
    ]
    # NaN is no part.
    return ", ".join(str(part) for part in parts if part is not None and part == part)
