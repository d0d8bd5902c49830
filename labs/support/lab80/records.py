"""The records of one scaling study, with the line that each stands in, and what is wrong with them.

A study is all records of a lab that carry the same `study`:

| result | fields besides those that every record has |
|---|---|
| `study` | where, machine, net, question, enough, images, epoch, rounds, method, command |
| `prediction` | kind, ranks, predicted (seconds of a step) |
| `strong`, `weak` | ranks, nodes, images, seconds, samples, compute, wait, communicate, energy |
| `published` | name, value, unit, source: a number that others have published |
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
from labkit import paths, record
from labkit.errors import LabError

from support.lab80.words import plain_name

LAB = "80_scaling_report"
KINDS = ("strong", "weak")
PARTS = ("compute", "wait", "communicate")
# Where these differ, times are of different machines, and no ratio of them means anything.
_SAME = ("where", "machine", "host", "cpu", "device", "staged", "library", "site", "net")


@dataclass(frozen=True)
class Entry:
    """A record and where it stands: file, line (from 1), and its fields."""

    file: str
    line: int
    fields: dict

    def __getitem__(self, name: str):
        return self.fields.get(name)

    @property
    def place(self) -> str:
        """`.labkit/records/80_scaling_report.jsonl:12`."""
        return f"{self.file}:{self.line}"


class Study:
    """The entries of one study: .runs[kind][ranks], .predictions[kind][ranks], .setup,
    .published[name]."""

    def __init__(self, name: str, entries: Sequence[Entry], others: Iterable[str] = ()):
        self.name = name
        self.entries = [entry for entry in entries if entry["study"] == name]
        self.others = list(others)
        self.setup = self._of("study")[0]
        self.runs = {kind: {entry["ranks"]: entry for entry in self._of(kind)} for kind in KINDS}
        self.predictions = {
            kind: {
                entry["ranks"]: entry for entry in self._of("prediction") if entry["kind"] == kind
            }
            for kind in KINDS
        }
        self.published = {str(entry["name"]): entry for entry in self._of("published")}

    def _of(self, *results: str) -> list[Entry]:
        return [entry for entry in self.entries if entry["result"] in results]

    def ranks(self, kind: str) -> list[int]:
        """Numbers of ranks that were measured, fewest first."""
        return sorted(self.runs[kind])

    @property
    def most(self) -> int:
        """The largest number of ranks of the study."""
        return max(ranks for kind in KINDS for ranks in self.runs[kind])

    @cached_property
    def faults(self) -> list[str]:
        """A sentence for each thing for which these records support no number. Looked for once."""
        sentences = [
            f"The study has no records of {kind} scaling." for kind in KINDS if not self.runs[kind]
        ]
        for entry in self._of(*KINDS):
            wrong = _wrong_with(entry)
            if wrong:
                what = f"The record in {entry.place} ({entry['result']}, {entry['ranks']} ranks)"
                sentences.append(f"{what} {wrong}")
        return sentences or [*self._of_comparisons(), *self._of_predictions()]

    def _of_comparisons(self) -> list[str]:
        """What cannot be compared: runs of other machines, of other batches, or one of two runs
        chosen."""
        sentences = []
        for kind in KINDS:
            measured = self._of(kind)
            counts = [entry["ranks"] for entry in measured]
            for ranks in sorted({count for count in counts if counts.count(count) > 1}):
                lines = " and ".join(entry.place for entry in measured if entry["ranks"] == ranks)
                sentences.append(
                    f"There are several records of {kind} scaling on {ranks} ranks ({lines}):"
                    " nobody may choose among them. Measure all of it again, as a new study."
                )
            shares = {_share(kind, entry) for entry in measured}
            if len(shares) > 1:
                whose = "of the job" if kind == "strong" else "of each rank"
                numbers = ", ".join(f"{share:g}" for share in sorted(shares))
                sentences.append(
                    f"{kind.capitalize()} scaling keeps the images {whose} the same; these records"
                    f" have {numbers}."
                )
        for name in _SAME:
            values = {str(entry[name]) for entry in self._of(*KINDS)}
            if len(values) > 1:
                sentences.append(
                    f"The records of this study differ in `{name}`: {', '.join(sorted(values))}. A"
                    " ratio of their times would compare machines, not numbers of ranks."
                )
        return sentences

    def _of_predictions(self) -> list[str]:
        """A prediction stands before the first measurement, and for every measured number of
        ranks."""
        sentences = []
        first = min(str(entry["utc"]) for entry in self._of(*KINDS))
        for kind in KINDS:
            missing = [ranks for ranks in self.runs[kind] if ranks not in self.predictions[kind]]
            if missing:
                numbers = ", ".join(map(str, sorted(missing)))
                sentences.append(f"There is no prediction of {kind} scaling on {numbers} ranks.")
        for entry in self._of("prediction"):
            if str(entry["utc"]) > first:
                sentences.append(
                    f"The prediction in {entry.place} was made after the first measurement"
                    f" ({shown_time(entry['utc'])} after {shown_time(first)}): that is no"
                    " prediction."
                )
        return sentences


def _wrong_with(entry: Entry) -> str:
    """What is wrong with a record of a measured step, as the end of a sentence; "" for nothing."""
    seconds, samples = entry["seconds"], entry["samples"]
    parts = [entry[name] for name in PARTS]
    numbers = [seconds, *parts, *(samples if isinstance(samples, list) and samples else [None])]
    if not all(isinstance(number, int | float) and 0 <= number < math.inf for number in numbers):
        return (
            "lacks its time, its samples or what the time was spent on, so that it supports"
            " nothing."
        )
    median, mean = float(np.median(samples)), float(np.mean(samples))
    if not math.isclose(seconds, median, rel_tol=1e-6):
        return f"says {seconds:.6g} s, but the median of its own samples is {median:.6g} s."
    if not math.isclose(sum(parts), mean, rel_tol=1e-6):
        return f"splits {sum(parts):.6g} s into parts, but the mean of its samples is {mean:.6g} s."
    return ""


def _share(kind: str, entry: Entry) -> float:
    """Images of the job (strong), or of each rank (weak)."""
    return entry["images"] if kind == "strong" else entry["images"] / entry["ranks"]


def shown_time(utc: str) -> str:
    """`2026-11-23 09:12:07 UTC`; the text itself where it is no time."""
    try:
        return f"{datetime.fromisoformat(str(utc)):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return str(utc)


def read(files: Iterable[Path]) -> list[Entry]:
    """All records in some files, with their lines."""
    return [
        Entry(paths.shown(file), line, fields)
        for file in files
        for line, fields in record.numbered(file)
    ]


def load(name: str | None = None, files: Iterable[Path] | None = None) -> Study:
    """The study of that name, None for the newest, from the learner's records of lab 80.

    Records of batch jobs stand in the same file. Raises LabError where there is no such study.
    """
    entries = read([record.path(LAB)] if files is None else files)
    names = list(dict.fromkeys(entry["study"] for entry in entries if entry["result"] == "study"))
    if not names:
        raise LabError("There is no scaling study on record yet: lab 80 makes one.")
    wanted = names[-1] if name is None else name
    if wanted not in names:
        raise LabError(
            f"There is no study {wanted!r} on record. There are {', '.join(map(str, names[-5:]))}."
        )
    return Study(wanted, entries, [other for other in names if other != wanted])


def reference(study: Study, files: Iterable[Path] | None = None) -> dict[str, dict[int, Entry]]:
    """kind -> ranks -> the kit's own record of such a run; {} where it has none of this kind of
    study.

    A virtual study is compared with the kit's study of the same machine and net; one of real ranks
    with lab 50's, whose step is the same. Both with as many images, since these decide how it
    scales.
    """
    folder = paths.root() / "solutions" / "results"
    stems = (LAB, "50_strong_and_weak_scaling")
    entries = read([folder / f"{stem}.jsonl" for stem in stems] if files is None else files)
    chosen: dict[str, dict[int, Entry]] = {kind: {} for kind in KINDS}
    for entry in entries:
        if entry["result"] in KINDS and _is_alike(entry, study.setup):
            chosen[entry["result"]].setdefault(entry["ranks"], entry)
    return chosen


def _is_alike(entry: Entry, setup: Entry) -> bool:
    where = entry["where"] or "here"  # lab 50 measures real ranks alone, and notes a rank's images
    images = _share(entry["result"], entry) if entry["where"] else entry["images"]
    if (where, images) != (setup["where"], setup["images"]):
        return False
    return where == "here" or (entry["machine"], entry["net"]) == (setup["machine"], setup["net"])


def spoken_names(study: Study) -> set[str]:
    """Names with digits in them that the records hold, as `plain_name` has them: resnet101, p100,
    roce25."""
    names = set()
    for entry in study.entries:
        for value in entry.fields.values():
            if isinstance(value, str):
                names |= {plain_name(part) for part in [value, *re.split(r"[\s_,;()]+", value)]}
    # A name begins with a letter: 0.28.1 and dates are none. One without digits needs no record.
    return {name for name in names if name[:1].isalpha() and re.search(r"\d", name)}
