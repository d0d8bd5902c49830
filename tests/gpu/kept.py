"""What the labs did on a GPU, kept beyond the tests: their records, how each ended, and a table.

Everything lies in .labkit/gpu of the checkout: records/NN_name.jsonl with each lab's records of all
runs, outcomes.jsonl with a line for each run. A lab that has never passed runs first the next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

from labkit import jsonl, paths, record

from tests.gpu.labs import Lab

FOLDER = paths.root() / ".labkit" / "gpu"
HEADINGS = ("lab", "tensors on", "carried by", "Tflop/s", "of the peak", "")


@dataclass
class Row:
    """A run of a lab. devices, libraries: what its records say, each once. flops: the most that one
    of its steps reached, in flop/s; None where no record counts them. problems: [] if it passed.
    """

    lab: str
    devices: list[str]
    libraries: list[str]
    flops: float | None
    problems: list[str]
    peak: float | None = None
    utc: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat("T", "seconds"))


REMEMBERED: list[Row] = []  # of this session


def row(lab: str, entries: Sequence[Mapping], problems: list[str]) -> Row:
    """The row of a lab from its records of tensors on a GPU."""
    libraries = [way_of(entry) for entry in entries if entry.get("library")]
    reached = [entry["flops"] / entry["seconds"] for entry in entries if _timed(entry)]
    return Row(
        lab,
        list(dict.fromkeys(str(entry.get("trained_on", entry.get("device"))) for entry in entries)),
        list(dict.fromkeys(libraries)),
        max(reached, default=None),
        problems,
    )


def way_of(entry: Mapping) -> str:
    """ "NCCL", or "MPI, through the host"."""
    staged = entry.get("staged") not in (None, "no")
    return f"{entry['library']}{', through the host' if staged else ''}"


def _timed(entry: Mapping) -> bool:
    numbers = [entry.get("flops"), entry.get("seconds")]
    return all(isinstance(number, int | float) and number > 0 for number in numbers)


def keep(file: Path) -> None:
    """Append a run's records to those that are kept; a lab that wrote none has none."""
    for entry in record.entries(file) if file.exists() else ():
        jsonl.append(FOLDER / "records" / file.name, entry)


def remember(row: Row) -> None:
    """Write down how a run ended, also for the table of this session."""
    row.peak = peak()
    REMEMBERED.append(row)
    jsonl.append(FOLDER / "outcomes.jsonl", asdict(row), "outcome")


def unseen_first(labs: Iterable[Lab]) -> list[Lab]:
    """Those that have never passed here, then the others; each group in its order."""
    outcomes = jsonl.read(FOLDER / "outcomes.jsonl", lambda entry: "lab" in entry, "outcome")
    passed = {entry["lab"] for entry in outcomes if not entry["problems"]}
    return sorted(labs, key=lambda lab: lab.stem in passed)


@lru_cache
def peak() -> float | None:
    """flop/s of a product of matrices on the first GPU; None where there is none to measure."""
    import torch

    if not torch.cuda.is_available():
        return None
    from tests.gpu import test_flops

    return test_flops.product_flops()


def table(rows: Iterable[Row]) -> str:
    """One line for each lab: where its tensors were, what carried them, flop/s, what is wrong."""
    lines = [HEADINGS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    share = f"{row.flops / row.peak:.0%}" if row.flops and row.peak else "-"
    return (
        row.lab,
        " ".join(row.devices) or "-",
        "; ".join(row.libraries) or "-",
        f"{row.flops / 1e12:.3g}" if row.flops else "-",
        share,
        "; ".join(row.problems) or "passed",
    )
