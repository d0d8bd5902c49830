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
from collections.abc import Iterable, Iterator, Sequence
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


class Entry(dict):
    """A record; a field that it lacks is None. place: its file and line, "records.jsonl:12"."""

    def __init__(self, fields: dict, place: str):
        super().__init__(fields)
        self.place = place

    def __missing__(self, name: str) -> None:
        return None


class Study:
    """The entries of one study: .runs[kind][ranks], .predictions[kind][ranks], .setup,
    .published[name]."""

    def __init__(self, name: str, entries: Sequence[Entry], others: Iterable[str] = ()):
        self.name = name
        self.entries = [entry for entry in entries if entry["study"] == name]
        self.others = list(others)
        self.setup = self._of("study")[0]
        self.runs = {kind: {entry["ranks"]: entry for entry in self._of(kind)} for kind in KINDS}
        self.predictions: dict[str, dict[int, Entry]] = {kind: {} for kind in KINDS}
        for entry in self._of("prediction"):
            self.predictions.setdefault(entry["kind"], {})[entry["ranks"]] = entry
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
        return [*self._incomplete()] or [*self._incomparable(), *self._predicted_late()]

    def _incomplete(self) -> Iterator[str]:
        for kind in KINDS:
            if not self.runs[kind]:
                yield f"The study has no records of {kind} scaling."
        for entry in self._of(*KINDS):
            wrong = _wrong_with(entry)
            if wrong:
                what = f"The record in {entry.place} ({entry['result']}, {entry['ranks']} ranks)"
                yield f"{what} {wrong}"

    def _incomparable(self) -> Iterator[str]:
        """Runs on other machines, of other batches, or one of two runs chosen."""
        places: dict[tuple[str, int], list[str]] = {}
        for entry in self._of(*KINDS):
            places.setdefault((entry["result"], entry["ranks"]), []).append(entry.place)
        for (kind, ranks), there in places.items():
            if len(there) > 1:
                yield (
                    f"There are several records of {kind} scaling on {ranks} ranks"
                    f" ({' and '.join(there)}): nobody may choose among them. Measure all of it"
                    " again, as a new study."
                )
        for kind, whose in (("strong", "of the job"), ("weak", "of each rank")):
            shares = sorted({_share(kind, entry) for entry in self._of(kind)})
            if len(shares) > 1:
                yield (
                    f"{kind.capitalize()} scaling keeps the images {whose} the same; these records"
                    f" have {', '.join(f'{share:g}' for share in shares)}."
                )
        for name in _SAME:
            values = {str(entry[name]) for entry in self._of(*KINDS)}
            if len(values) > 1:
                yield (
                    f"The records of this study differ in `{name}`: {', '.join(sorted(values))}. A"
                    " ratio of their times would compare machines, not numbers of ranks."
                )

    def _predicted_late(self) -> Iterator[str]:
        """A prediction stands before the first measurement, and for every measured number of
        ranks."""
        for kind in KINDS:
            missing = sorted(self.runs[kind].keys() - self.predictions[kind].keys())
            if missing:
                numbers = ", ".join(map(str, missing))
                yield f"There is no prediction of {kind} scaling on {numbers} ranks."
        first = min(str(entry["utc"]) for entry in self._of(*KINDS))
        for entry in self._of("prediction"):
            if str(entry["utc"]) > first:
                yield (
                    f"The prediction in {entry.place} was made after the first measurement"
                    f" ({shown_time(entry['utc'])} after {shown_time(first)}): that is no"
                    " prediction."
                )


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


def read(*files: Path) -> list[Entry]:
    """All records in some files, with their lines."""
    return [
        Entry(fields, f"{place}:{line}")
        for file, place in zip(files, map(paths.shown, files), strict=True)
        for line, fields in record.numbered(file)
    ]


def load(name: str | None = None, file: Path | None = None) -> Study:
    """The study of that name, None for the newest, from the learner's records of lab 80.

    Records of batch jobs stand in the same file. Raises LabError where there is no such study.
    """
    entries = read(file or record.path(LAB))
    names = list(dict.fromkeys(entry["study"] for entry in entries if entry["result"] == "study"))
    if not names:
        raise LabError("There is no scaling study on record yet: lab 80 makes one.")
    wanted = names[-1] if name is None else name
    if wanted not in names:
        raise LabError(
            f"There is no study {wanted!r} on record. There are {', '.join(map(str, names[-5:]))}."
        )
    return Study(wanted, entries, [other for other in names if other != wanted])


def reference(study: Study) -> dict[str, dict[int, Entry]]:
    """kind -> ranks -> the kit's own record of such a run; {} where it has none of this kind of
    study.

    A virtual study is compared with the kit's study of the same machine and net; one of real ranks
    with lab 50's, whose step is the same. Both with as many images, since these decide how it
    scales.
    """
    setup = study.setup
    on_virtual_ranks = setup["where"] == "virtual"
    lab = LAB if on_virtual_ranks else "50_strong_and_weak_scaling"
    same = ("where", "machine", "net") if on_virtual_ranks else ()
    chosen: dict[str, dict[int, Entry]] = {kind: {} for kind in KINDS}
    for entry in read(paths.root() / "solutions" / "results" / f"{lab}.jsonl"):
        kind = entry["result"]
        if kind in KINDS and all(entry[name] == setup[name] for name in same):
            # Lab 50 notes the images of a rank.
            images = _share(kind, entry) if on_virtual_ranks else entry["images"]
            if images == setup["images"]:
                chosen[kind].setdefault(entry["ranks"], entry)
    return chosen


def spoken_names(study: Study) -> set[str]:
    """Names with digits in them that the records hold, as `plain_name` has them: resnet101, p100,
    roce25."""
    names = set()
    for entry in study.entries:
        for value in entry.values():
            if isinstance(value, str):
                names |= {plain_name(part) for part in [value, *re.split(r"[\s_,;()]+", value)]}
    # A name begins with a letter: 0.28.1 and dates are none. One without digits needs no record.
    return {name for name in names if name[:1].isalpha() and re.search(r"\d", name)}
