"""What to expect: the kit's reference records of a lab, by the machine that measured them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from labkit import record

_ROWS = 12  # records of one kind that are shown
# What every record carries (labkit.record) is said once for the machine, not in each row; _q1 and
# _q3 are the quartiles of a number, and stand behind it.
_LEFT_OUT = (
    "lab|result|unit|utc|host|cpu|cores|device|launcher|python|torch|tensorflow|horovod|mpi4py|mpi"
    "|horovod_build|job|site|revision|changed|.*_(q1|q3|runs|steady)"
)


class Expected(NamedTuple):
    """The results of one machine at one revision. tables: (title, HTML)."""

    machine: str
    revision: str
    tables: list[tuple[str, str]]


def read(root: Path, stem: str) -> list[Expected]:
    """The reference results of a lab, one entry for each machine and revision.

    They lie in solutions/results, and those of a machine with a GPU in solutions/results/gpu.
    """
    folder = root / "solutions" / "results"
    groups: dict[tuple[str, str], dict[str, list]] = {}
    for file in (folder / f"{stem}.jsonl", folder / "gpu" / f"{stem}.jsonl"):
        for entry in record.entries(file):
            changed = ", with changes" if entry.get("changed") else ""
            place = (_machine(entry), f"{entry.get('revision') or 'not known'}{changed}")
            title = ", ".join(str(entry[name]) for name in ("result", "unit") if entry.get(name))
            groups.setdefault(place, {}).setdefault(title, []).append(entry)
    return [
        Expected(*place, [(title, _table(entries)) for title, entries in kinds.items()])
        for place, kinds in groups.items()
    ]


def _machine(entry: dict) -> str:
    parts = [entry.get("cpu") or "processor not known", f"{entry.get('cores', '?')} cores"]
    parts += [
        str(entry[name]) for name in ("device", "site") if entry.get(name) not in (None, "cpu")
    ]
    return ", ".join(parts)


def _table(entries: list[dict]) -> str:
    """The first records of one kind, as HTML."""
    import pandas

    rows = [
        {name: _cell(entry, name) for name in entry if entry[name] is not None}
        for entry in entries[:_ROWS]
    ]
    frame = pandas.DataFrame(rows).filter(regex=f"^(?!({_LEFT_OUT})$)")
    if set(frame.get("ranks", ())) == {"1"}:
        del frame["ranks"]  # that of the notebook, which starts the lab's ranks
    more = len(entries) - len(rows)
    page = frame.to_html(index=False, border=0, justify="left", na_rep="")
    return page + (f"<p>… and {more} more.</p>" if more else "")


def _cell(entry: dict, name: str) -> str:
    text = _number(entry[name])
    if entry.get(f"{name}_q1") is not None:
        text += f" ({_number(entry[f'{name}_q1'])} to {_number(entry[f'{name}_q3'])})"
    return text + (" unsteady" if entry.get(f"{name}_steady") is False else "")


def _number(value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        short = len(value) <= 6 and all(isinstance(item, int | float | str) for item in value)
        return ", ".join(map(_number, value)) if short else f"{len(value)} values"
    return str(value)
