"""This learner's jobs so far: all of them, the newest study, and the records of the newest that has some."""

from __future__ import annotations

from labkit import labfile, record
from labkit.cluster.job import Job, remembered
from labkit.cluster.studies import Study
from labkit.errors import LabError


def jobs(lab: str | int | None = None) -> list[Job]:
    """This learner's jobs, oldest first, also those of earlier days; `lab` picks one lab's."""
    stem = None if lab is None else labfile.find(lab)
    return [job for job in remembered() if stem in (None, job.lab)]


def last_study(lab: str | int) -> Study:
    """The newest study of this lab, also of an earlier day. LabError when there is none."""
    stem = labfile.find(lab)
    in_studies = [job for job in jobs(stem) if job.study]
    if not in_studies:
        raise LabError(f"There is no study of lab {stem[:2]} yet: make scaling LAB={stem[:2]} NODES=1,2,4,8.")
    newest = in_studies[-1].study
    return Study(stem, [job for job in in_studies if job.study == newest])


def records_or_reference(lab: str | int, result: str | None = None, job: Job | None = None):
    """(records, label): those of `job`, or of the newest job of this lab that has some; else the kit's own.

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
    return ", ".join(str(part) for part in parts if part is not None and part == part)  # NaN is no part
