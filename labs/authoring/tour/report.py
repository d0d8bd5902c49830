"""report/index.html: what ran where, how long it took, what it measured and drew. It loads
nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from labkit import record

from authoring import offline
from authoring.tour import html
from authoring.tour.run import FAILED, RAN, SKIPPED, Outcome

_ROWS = 12  # records of one kind shown in the table
# What every record carries (labkit.record): said once for the machine, not in each row.
_PROVENANCE = {
    "lab", "result", "unit", "utc", "host", "cpu", "cores", "device", "launcher", "python", "torch",
    "tensorflow", "horovod", "mpi4py", "mpi", "horovod_build", "job", "site", "revision", "changed",
}  # fmt: skip


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """ "9 of 10 labs ran in 7 min 12 s; failed: 40_horovod_pytorch." """
    ran = [outcome for outcome in outcomes if outcome.status == RAN]
    text = f"{len(ran)} of {len(outcomes)} labs ran in {duration(seconds)}"
    for status in (FAILED, SKIPPED):
        stems = [outcome.stem for outcome in outcomes if outcome.status == status]
        text += f"; {status}: {', '.join(stems)}" if stems else ""
    return text + "."


def duration(seconds: float) -> str:
    """ "8.5 s", "7 min 12 s"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def write(
    root: Path, out: Path, outcomes: list[Outcome], report: dict, *, seconds: float, small: bool
) -> None:
    """Write out/index.html anew from what there is so far."""
    template = offline.template(Path(__file__).with_name("tour.html.j2"))
    labs = [_lab(root, out, outcome) for outcome in outcomes]
    page = template.render(
        when=f"{datetime.now():%Y-%m-%d %H:%M}",
        host=report["machine"]["host"],
        summary=summary(outcomes, seconds),
        failed=any(outcome.status == FAILED for outcome in outcomes),
        small=small,
        advice=report["advice"],
        labs=labs,
    )
    (out / "index.html").write_text(page, encoding="utf-8")


def _lab(root: Path, out: Path, outcome: Outcome) -> dict:
    records = out / "home" / "records" / f"{outcome.stem}.jsonl"
    reference = root / "solutions" / "results" / f"{outcome.stem}.jsonl"
    return {
        **outcome.plain(),
        "took": duration(outcome.seconds) if outcome.seconds else "",
        "share": min(100, round(100 * outcome.seconds / (60 * outcome.minutes), 1))
        if outcome.minutes
        else 0,
        "page": f"{outcome.stem}.html" if (out / f"{outcome.stem}.html").exists() else None,
        "pictures": [
            ("" if heading == outcome.title else heading, png)
            for heading, png in html.pictures(out / "notebooks" / f"{outcome.stem}.ipynb")
        ],
        "results": tables(records),
        "reference": tables(reference),
    }


def tables(file: Path) -> list[dict]:
    """The records in a file as tables, one for each kind of result: title, head, rows, more (left
    out)."""
    return tables_of(_entries(file))


def tables_of(records: Iterable[dict]) -> list[dict]:
    """The same of some records."""
    kinds: dict[str, list[dict]] = {}
    for entry in records:
        title = f"{entry['result']}, {entry['unit']}" if entry.get("unit") else str(entry["result"])
        kinds.setdefault(title, []).append(entry)
    made = []
    for title, entries in kinds.items():
        names = dict.fromkeys(name for entry in entries for name in entry)
        head = [name for name in names if _shown(name, entries)]
        rows = [[_cell(entry, name) for name in head] for entry in entries[:_ROWS]]
        made.append(
            {"title": title, "head": head, "rows": rows, "more": max(0, len(entries) - _ROWS)}
        )
    return made


def _entries(file: Path) -> list[dict]:
    lines = dict.fromkeys(json.dumps(entry) for entry in record.entries(file))
    return [json.loads(line) for line in lines]


def _shown(name: str, entries: list[dict]) -> bool:
    if name in _PROVENANCE or name.endswith(("_q1", "_q3", "_runs", "_steady")):
        return False
    # Nothing, or one process everywhere, is not worth a column.
    if all(entry.get(name) is None for entry in entries):
        return False
    return name != "ranks" or any(entry.get("ranks") != 1 for entry in entries)


def _cell(entry: dict, name: str) -> str:
    text = _number(entry.get(name))
    low = entry.get(f"{name}_q1")
    high = entry.get(f"{name}_q3")
    if low is not None and high is not None:
        text += f" ({_number(low)} to {_number(high)})"
    return text + (" unsteady" if entry.get(f"{name}_steady") is False else "")


def _number(value) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    if isinstance(value, list):
        short = len(value) <= 6 and all(isinstance(item, int | float | str) for item in value)
        return ", ".join(map(_number, value)) if short else f"{len(value)} values"
    return str(value)
