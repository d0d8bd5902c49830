"""What to expect: the kit's reference records of a lab, by the machine that measured them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from labkit import record

from authoring.tour import report


class Expected(NamedTuple):
    """The results of one machine at one revision."""

    machine: str
    revision: str
    tables: list[dict]


def read(root: Path, stem: str) -> list[Expected]:
    """The reference results of a lab, one entry for each machine and revision, as they stand in the
    files.

    They lie in solutions/results, and those of a machine with a GPU in solutions/results/gpu.
    """
    folder = root / "solutions" / "results"
    groups: dict[tuple[str, str], list[dict]] = {}
    for file in (folder / f"{stem}.jsonl", folder / "gpu" / f"{stem}.jsonl"):
        for entry in record.entries(file):
            changed = ", with changes" if entry.get("changed") else ""
            revision = f"{entry.get('revision') or 'not known'}{changed}"
            groups.setdefault((_machine(entry), revision), []).append(entry)
    return [
        Expected(machine, revision, report.tables_of(entries))
        for (machine, revision), entries in groups.items()
    ]


def _machine(entry: dict) -> str:
    parts = [entry.get("cpu") or "processor not known", f"{entry.get('cores', '?')} cores"]
    device = entry.get("device")
    if device and device != "cpu":
        parts.append(str(device))
    if entry.get("site"):
        parts.append(f"site {entry['site']}")
    return ", ".join(parts)
