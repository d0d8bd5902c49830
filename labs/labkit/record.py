"""One JSON line per result, with where it came from; safe with many writers and with a writer that is killed.

Every lab that measures adds records; labs 50 and 80 only read them.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import labkit
from labkit import lab as _lab
from labkit import world
from labkit.errors import LabError
from labkit.measurement import Measurement, Ratio

_OWN = ("lab", "utc")  # names a caller may not use


def add(result: str, *, unit: str | None = None, **fields) -> dict:
    """Append one result of the current lab and return the record. Only rank 0 writes.

    result: what was measured, "step" or "allreduce". unit: of the value ("images/s"). fields: the value and
    what it depends on, as numbers, text, lists or arrays; `backend="nccl"` is what really did the work.
    A field `seconds=Measurement` becomes `seconds` (its median), `seconds_q1`, `seconds_q3`, `seconds_runs`
    and `seconds_steady`. Where it ran, versions and the git revision are added (see labkit.provenance); a
    field of the same name (`ranks=8`, `device="cuda:0"`) takes their place.
    """
    stem = _lab.current()
    if not stem:
        raise LabError('record.add needs to know the lab: call lab.start("NN_name") first.')
    for name in _OWN:
        if name in fields:
            raise LabError(f"record.add writes `{name}` itself; choose another name for yours.")
    from labkit import provenance

    plain: dict = {}
    for name, value in fields.items():
        plain.update(_plain_field(name, value))
    if unit is None and any(isinstance(value, Measurement) for value in fields.values()):
        unit = "s"
    entry = {"lab": stem, "result": result, "unit": unit, **provenance.here(), **plain}
    if world.is_root():
        _append(path(stem), entry)
    return entry


def load(lab: str | None = None, result: str | None = None):
    """The records of `lab` (None: the current one) as a pandas.DataFrame, oldest first; `result` picks one.

    A line that is not a record is skipped with a warning that names file and line.
    """
    stem = lab or _lab.current()
    if not stem:
        raise LabError('record.load needs a lab: record.load("50_strong_and_weak_scaling").')
    return _frame(path(stem), result, f"No records of {stem} yet: run its Measure cells first.")


def reference(lab: str, result: str | None = None):
    """The kit's own records of `lab`, measured once on a known machine, to compare with yours."""
    file = labkit.root() / "solutions" / "results" / f"{lab}.jsonl"
    return _frame(file, result, f"The kit has no reference results for {lab}.")


def path(lab: str) -> Path:
    """The file that holds this learner's records of `lab`."""
    return labkit.home() / "records" / f"{lab}.jsonl"


def _append(file: Path, entry: dict) -> None:
    line = json.dumps(entry, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            with _locked(handle, fcntl.LOCK_EX):
                _write_line(handle, line)
        finally:
            os.close(handle)
    except OSError as error:
        raise LabError(
            f"Cannot write the record to {file} ({error.strerror}). "
            "Free space there, or set LABKIT_HOME to a folder you can write to."
        ) from error


def _write_line(handle: int, line: bytes) -> None:
    """One write for the whole line, so that a writer killed here leaves at most one broken line, the last."""
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":
        line = b"\n" + line  # somebody was killed in mid-write; start afresh below the broken line
    if os.write(handle, line) != len(line):
        os.ftruncate(handle, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _locked(handle: int, kind: int):
    try:
        fcntl.flock(handle, kind)
    except OSError as error:
        # Some cluster file systems have no locks; O_APPEND alone still keeps whole lines apart on one node.
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _frame(file: Path, result: str | None, when_empty: str):
    import pandas

    entries = _read(file)
    if not entries:
        print(when_empty)
        return pandas.DataFrame(columns=["lab", "result", "unit", "utc"])
    frame = pandas.DataFrame(entries)
    if result is None:
        return frame
    chosen = frame[frame["result"] == result].reset_index(drop=True)
    if chosen.empty:
        print(f"No result {result!r} in {file.name}; it has {', '.join(sorted(set(frame['result'])))}.")
        return chosen
    return chosen.dropna(axis="columns", how="all")


def _read(file: Path) -> list[dict]:
    try:
        with open(file, "rb") as stream, _locked(stream.fileno(), fcntl.LOCK_SH):
            lines = stream.read().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LabError(f"Cannot read the records in {file} ({error.strerror}).") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if not (isinstance(entry, dict) and "result" in entry):
                raise ValueError("no result")
        except ValueError:
            warnings.warn(f"{file}:{number}: not a record, skipped", stacklevel=4)
        else:
            entries.append(entry)
    return entries


def _plain_field(name: str, value) -> dict:
    if isinstance(value, Measurement | Ratio):
        quartiles = {"": value.median, "_q1": value.q1, "_q3": value.q3}
        kept = {f"{name}{end}": _plain(name, number) for end, number in quartiles.items()}
        return {**kept, f"{name}_runs": len(value.samples), f"{name}_steady": value.steady}
    return {name: _plain(name, value)}


def _plain(name: str, value):
    """`value` as JSON has it. What is not a finite number becomes null: JSON has no other word for it."""
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
    raise LabError(f"record.add cannot keep `{name}`, a {type(value).__name__}: give numbers, text or lists.")
