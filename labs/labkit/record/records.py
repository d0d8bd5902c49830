"""Results of the labs: one JSON line each, with where it came from.

Every lab that measures adds records; labs 50 and 80 only read them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labkit import jsonl, paths, world
from labkit.errors import LabError
from labkit.lab import current
from labkit.record import provenance
from labkit.timing import Measurement, Ratio

RESERVED = ("lab", "utc")  # names of fields that a caller may not use


def add(result: str, *, unit: str | None = None, **fields) -> dict:
    """Append one result of the current lab and return the record. Only rank 0 writes, and only its
    record has the git revision.

    result: what was measured, "step" or "allreduce". unit: of the value ("images/s"). fields: the
    value and what it depends on, as numbers, text, lists or arrays; `backend="nccl"` is what really
    did the work. A field `seconds=Measurement` becomes `seconds` (its median), `seconds_q1`,
    `seconds_q3`, `seconds_runs` and `seconds_steady`. Where it ran, versions and the git revision
    are added (see labkit.record.provenance); a field of the same name (`ranks=8`) takes their
    place. Where the tensors were and what carried them, `**placement.of_mpi().fields()` says:
    `device`, `staged`, `library`.
    """
    stem = current()
    if not stem:
        raise LabError('record.add needs to know the lab: call lab.start("NN_name") first.')
    for name in RESERVED:
        if name in fields:
            raise LabError(f"record.add writes `{name}` itself; choose another name for yours.")
    plain: dict = {}
    for name, value in fields.items():
        plain |= _plain_field(name, value)
    if unit is None and any(isinstance(value, Measurement) for value in fields.values()):
        unit = "s"
    entry = {"lab": stem, "result": result, "unit": unit, **provenance.here(), **plain}
    if world.is_root():
        jsonl.append(path(stem), entry)
    return entry


def reference(lab: str, result: str | None = None):
    """The kit's own records of `lab`, measured once on a known machine, to compare with yours."""
    file = paths.root() / "solutions" / "results" / f"{lab}.jsonl"
    records = entries(file)
    if not records:
        print(f"The kit has no reference results for {lab}.")
    return frame(records, result, file.name)


def of_kind(result: str, reference: bool = False) -> list[dict]:
    """The records of one kind of result from all labs, oldest first: this learner's, or the kit's
    own."""
    folder = paths.root() / "solutions" / "results" if reference else paths.home() / "records"
    records = []
    for file in sorted(folder.glob("*.jsonl")):
        records += [entry for entry in entries(file) if entry["result"] == result]
    return sorted(records, key=lambda entry: str(entry.get("utc")))


def path(lab: str) -> Path:
    """The file that holds this learner's records of `lab`."""
    return paths.home() / "records" / f"{lab}.jsonl"


def entries(file: Path) -> list[dict]:
    """The records in a file, oldest first; [] where there is no file."""
    return jsonl.read(file, lambda entry: "result" in entry)


def numbered(file: Path) -> list[tuple[int, dict]]:
    """(number of its line, record) of each record in a file, oldest first."""
    return jsonl.numbered(file, lambda entry: "result" in entry)


def frame(records: list[dict], result: str | None, place: str):
    """Records as a pandas.DataFrame; `result` picks one kind.

    Where there is none of that kind, a sentence says which kinds `place` has.
    """
    import pandas

    if not records:
        return pandas.DataFrame(columns=["lab", "result", "unit", "utc"])
    table = pandas.DataFrame(records)
    if result is None:
        return table
    chosen = table[table["result"] == result].reset_index(drop=True)
    if chosen.empty:
        print(f"No result {result!r} in {place}; it has {', '.join(sorted(set(table['result'])))}.")
        return chosen
    return chosen.dropna(axis="columns", how="all")


def _plain_field(name: str, value) -> dict:
    if isinstance(value, Measurement | Ratio):
        quartiles = {"": value.median, "_q1": value.q1, "_q3": value.q3}
        numbers = {f"{name}{end}": _plain(name, number) for end, number in quartiles.items()}
        return {**numbers, f"{name}_runs": len(value.samples), f"{name}_steady": value.steady}
    return {name: _plain(name, value)}


def _plain(name: str, value):
    """`value` as JSON has it. What is not a finite number becomes null: JSON has no other word for
    it."""
    if hasattr(value, "tolist"):  # numpy scalar or array, torch tensor
        value = value.tolist()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | range):
        return [_plain(name, item) for item in value]
    raise LabError(
        f"record.add cannot keep `{name}`, a {type(value).__name__}: give numbers, text or lists."
    )
