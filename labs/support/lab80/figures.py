"""The numbers that a report may hold: each by its name, computed by a named formula from records.

    figures.all_of(study)["efficiency_weak_4"].text  ->  "93.1 %"

Names are `quantity_kind_ranks`, such as `time_strong_8`; `most` may stand for the largest number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from labkit import scaling
from labkit.timing import digits, human

from support.lab80.records import KINDS, Entry, Study, reference, shown_time

PARTS = ("compute", "wait", "communicate")
FORMULAS = {
    "time": "median of the samples of a step",
    "efficiency": "strong: t(b) · b / (p · t(p)); weak: t(b) / t(p); b is the fewest ranks measured",
    "speedup": "efficiency · p",
    "rate": "images of the job / t(p)",
    "compute": "mean compute of the ranks / mean step",
    "wait": "mean time in the allreduce less that of the rank that came last / mean step",
    "communicate": "time in the allreduce of the rank that came last / mean step",
    "slower": "(mean compute - ideal step) / mean step; the ideal is as for efficiency",
    "predicted_time": "as it was predicted",
    "predicted_efficiency": "efficiency of the predicted times",
    "error": "predicted / measured time - 1",
    "reference_efficiency": "efficiency of the kit's own records",
    "difference": "efficiency less the reference's, in points of percent",
    "node_hours": "nodes · t(p) · images of an epoch / images of the job / 3600 s",
    "joules": "joules of all nodes during the timed steps / their number",
    "joules_image": "joules of a step / images of the job",
    "nodes": "nodes in use",
}
ONES = {
    "ranks_most": "the largest number of ranks of the study",
    "images": "images of the job (strong), of each rank (weak)",
    "epoch": "images of an epoch",
    "rounds": "rounds in turns",
    "enough": "the least efficiency that counts as worth it, chosen before",
    "answer": "the largest number of ranks, from the fewest on, up to which efficiency is enough",
    "predicted_answer": "the same by the predictions",
    "soonest": "the number of ranks with the shortest epoch",
    "cheapest": "the number of ranks with the fewest node-hours for an epoch; of equal ones the most ranks",
}


@dataclass(frozen=True)
class Figure:
    """A number of the report: its name, value, text as it is printed, formula, and the records behind it."""

    name: str
    value: float | str
    text: str
    formula: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def unsteady(self) -> bool:
        """Whether a time behind it was not steady when it was measured."""
        return any(entry["seconds_steady"] is False for entry in self.entries)


def all_of(study: Study) -> dict[str, Figure]:
    """Every figure that this study's records support, by name. Without its record there is no figure."""
    figures: dict[str, Figure] = {}
    for kind in KINDS:
        for make in (_times, _parts, _predicted, _reference, _costs, _answers):
            figures |= {figure.name: figure for figure in make(study, kind)}
    figures |= {figure.name: figure for figure in _ones(study)}
    for name in list(figures):
        stem, _, ranks = name.rpartition("_")
        if ranks == str(study.most) and stem.endswith(KINDS):
            figures[f"{stem}_most"] = figures[name]
    return figures


def _efficiency(entries: dict[int, Entry], kind: str, field: str = "seconds") -> dict[int, float]:
    """ranks -> efficiency of the times in a field of these records; {} where there are none."""
    times = {ranks: entry[field] for ranks, entry in entries.items()}
    return scaling.efficiency(times, weak=kind == "weak") if times else {}


def _figure(quantity: str, kind: str, ranks: int, value: float, text: str, entries: list[Entry]) -> Figure:
    return Figure(f"{quantity}_{kind}_{ranks}", value, text, FORMULAS[quantity], entries)


def _both(entries: dict[int, Entry], ranks: int) -> list[Entry]:
    """The record of these ranks, and the baseline's."""
    fewest = min(entries)
    return [entries[ranks]] if ranks == fewest else [entries[fewest], entries[ranks]]


def _times(study: Study, kind: str) -> Iterator[Figure]:
    runs = study.runs[kind]
    for ranks, share in _efficiency(runs, kind).items():
        entry = runs[ranks]
        both = _both(runs, ranks)
        seconds = entry["seconds"]
        rate = entry["images"] / seconds
        yield _figure("time", kind, ranks, seconds, human(seconds), [entry])
        yield _figure("efficiency", kind, ranks, share, percent(share), both)
        yield _figure("speedup", kind, ranks, share * ranks, f"{digits(share * ranks)} times", both)
        yield _figure("rate", kind, ranks, rate, f"{digits(rate)} images/s", [entry])
        yield _figure("nodes", kind, ranks, entry["nodes"], _counted(entry["nodes"], "node"), [entry])


def _parts(study: Study, kind: str) -> Iterator[Figure]:
    runs = study.runs[kind]
    wholes = {ranks: sum(entry[name] or 0.0 for name in PARTS) for ranks, entry in runs.items()}
    for ranks, entry in runs.items():
        whole = wholes[ranks]
        if any(entry[name] is None for name in PARTS) or not whole:
            continue
        for name in PARTS:
            share = entry[name] / whole
            yield _figure(name, kind, ranks, share, percent(share), [entry])
        fewest = min(runs)
        ideal = wholes[fewest] * (1 if kind == "weak" else fewest / ranks)
        slower = (entry["compute"] - ideal) / whole
        yield _figure("slower", kind, ranks, slower, percent(slower), _both(runs, ranks))


def _predicted(study: Study, kind: str) -> Iterator[Figure]:
    predictions = study.predictions[kind]
    for ranks, share in _efficiency(predictions, kind, "predicted").items():
        entry = predictions[ranks]
        seconds = entry["predicted"]
        both = _both(predictions, ranks)
        yield _figure("predicted_time", kind, ranks, seconds, human(seconds), [entry])
        yield _figure("predicted_efficiency", kind, ranks, share, percent(share), both)
        measured = study.runs[kind].get(ranks)
        if measured is not None:
            off = seconds / measured["seconds"] - 1
            yield _figure("error", kind, ranks, off, f"{100 * off:+.1f} %", [entry, measured])


def _reference(study: Study, kind: str) -> Iterator[Figure]:
    known = reference(study)[kind]
    runs = study.runs[kind]
    if not known or not runs or min(known) != min(runs):
        return
    theirs = _efficiency(known, kind)
    ours = _efficiency(runs, kind)
    for ranks in sorted(set(known) & set(runs)):
        of_kit = _both(known, ranks)
        share = theirs[ranks]
        off = 100 * (ours[ranks] - share)
        yield _figure("reference_efficiency", kind, ranks, share, percent(share), of_kit)
        yield _figure("difference", kind, ranks, off, f"{off:+.1f} points", [*of_kit, *_both(runs, ranks)])


def _costs(study: Study, kind: str) -> Iterator[Figure]:
    for ranks, entry in study.runs[kind].items():
        steps = (study.setup["epoch"] or 0) / entry["images"]
        hours = entry["nodes"] * entry["seconds"] * steps / 3600
        used = [entry, study.setup]
        yield _figure("node_hours", kind, ranks, hours, f"{digits(hours)} node-hours", used)
        joules = entry["joules"]
        if joules is not None:
            each = joules / entry["images"]
            yield _figure("joules", kind, ranks, joules, f"{digits(joules)} J", [entry])
            yield _figure("joules_image", kind, ranks, each, f"{digits(each)} J an image", [entry])


def _answers(study: Study, kind: str) -> Iterator[Figure]:
    """Up to how many ranks it is worth it, measured and predicted; the soonest and the cheapest."""
    runs = study.runs[kind]
    for name, entries, field_name in (
        ("answer", runs, "seconds"),
        ("predicted_answer", study.predictions[kind], "predicted"),
    ):
        if entries:
            most = up_to(_efficiency(entries, kind, field_name), study.setup["enough"])
            used = [*entries.values(), study.setup]
            yield Figure(f"{name}_{kind}", most, _counted(most, "rank"), ONES[name], used)
    if runs:
        seconds = {ranks: entry["seconds"] / entry["images"] for ranks, entry in runs.items()}
        hours = {ranks: entry["nodes"] * seconds[ranks] for ranks, entry in runs.items()}
        soonest = min(seconds, key=seconds.get)
        cheapest = min(hours, key=lambda ranks: (hours[ranks], -ranks))
        for name, ranks in (("soonest", soonest), ("cheapest", cheapest)):
            yield Figure(f"{name}_{kind}", ranks, _counted(ranks, "rank"), ONES[name], list(runs.values()))


def up_to(useful: dict[int, float], enough: float) -> int:
    """The largest number of ranks before the first whose efficiency is not enough."""
    best = min(useful)
    for ranks in sorted(useful):
        if useful[ranks] < enough:
            break
        best = ranks
    return best


def _ones(study: Study) -> Iterator[Figure]:
    setup = study.setup
    texts = {
        "images": f"{setup['images']:,} images",
        "epoch": f"{setup['epoch']:,} images",
        "rounds": _counted(setup["rounds"], "round"),
        "enough": percent(setup["enough"]),
    }
    yield Figure("ranks_most", study.most, _counted(study.most, "rank"), ONES["ranks_most"], [setup])
    for name, text in texts.items():
        yield Figure(name, setup[name], text, ONES[name], [setup])
    for name, entry in study.published.items():
        value = entry["value"]
        text = f"{value:,}" if isinstance(value, int) else digits(value)
        unit = f" {entry['unit']}" if entry["unit"] else ""
        yield Figure(f"published_{name}", value, f"{text}{unit}", "as published", [entry])


def sentences(study: Study) -> dict[str, str]:
    """Names of whole sentences and words that a report may hold, and what they say."""
    setup = study.setup
    first = min(str(entry["utc"]) for entry in study.entries)
    words = {
        "question": str(setup["question"]),
        "method": str(setup["method"]),
        "command": str(setup["command"]),
        "where": "the virtual cluster" if setup["where"] == "virtual" else "real ranks",
        "machine": str(setup["machine"]),
        "date": shown_time(first),
        "study": study.name,
        "energy": _energy(study),
        "reference": _about_reference(study),
    }
    words |= {f"source_{name}": str(entry["source"]) for name, entry in study.published.items()}
    return words


def _energy(study: Study) -> str:
    measured = [entry for kind in KINDS for entry in study.runs[kind].values()]
    meters = {entry["meter"] for entry in measured if entry["joules"] is not None}
    if meters:
        return f"Energy was read from {' and '.join(sorted(meters))}; it counts all that ran there."
    reasons = {str(entry["no_meter"]) for entry in measured if entry["no_meter"]}
    return f"Energy was not read: {'; '.join(sorted(reasons)) or 'no record says why'}."


def _about_reference(study: Study) -> str:
    known = reference(study)
    entries = [entry for kind in KINDS for entry in known[kind].values()]
    if not entries:
        return "The kit has no reference records of such a study."
    first = entries[0]
    ranks = ", ".join(str(count) for count in sorted({entry["ranks"] for entry in entries}))
    where = f"{first.file}, {first['cpu']}, {shown_time(first['utc'])}"
    return f"The kit's own records ({where}) have {ranks} ranks."


def percent(share: float) -> str:
    """`93.1 %`."""
    return f"{100 * share:.1f} %" if math.isfinite(share) else "no number"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
