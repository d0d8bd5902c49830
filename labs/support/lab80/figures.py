"""The numbers that a report may hold: each by its name, computed by a named formula from records.

    figures.all_of(study)["efficiency_weak_4"].text  ->  "93.1 %"

Names are `quantity_kind_ranks`, such as `time_strong_8`; `most` may stand for the largest number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

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


def efficiencies(times: dict[int, float], weak: bool) -> dict[int, float]:
    """ranks -> efficiency; the fewest ranks have 1."""
    fewest = min(times)
    work = times[fewest] * (1 if weak else fewest)
    return {ranks: work / (seconds * (1 if weak else ranks)) for ranks, seconds in times.items()}


def _figure(quantity: str, kind: str, ranks: int, value: float, text: str, entries: list[Entry]) -> Figure:
    return Figure(f"{quantity}_{kind}_{ranks}", value, text, FORMULAS[quantity], entries)


def _times(study: Study, kind: str) -> list[Figure]:
    runs = study.runs[kind]
    if not runs:
        return []
    times = {ranks: entry["seconds"] for ranks, entry in runs.items()}
    useful = efficiencies(times, kind == "weak")
    figures = []
    for ranks, entry in runs.items():
        both = _both(runs, ranks)
        seconds = times[ranks]
        rate = entry["images"] / seconds
        figures += [
            _figure("time", kind, ranks, seconds, human(seconds), [entry]),
            _figure("efficiency", kind, ranks, useful[ranks], percent(useful[ranks]), both),
            _figure(
                "speedup", kind, ranks, useful[ranks] * ranks, f"{digits(useful[ranks] * ranks)} times", both
            ),
            _figure("rate", kind, ranks, rate, f"{digits(rate)} images/s", [entry]),
            _figure("nodes", kind, ranks, entry["nodes"], _counted(entry["nodes"], "node"), [entry]),
        ]
    return figures


def _both(entries: dict[int, Entry], ranks: int) -> list[Entry]:
    """The record of these ranks, and the baseline's."""
    fewest = min(entries)
    return [entries[ranks]] if ranks == fewest else [entries[fewest], entries[ranks]]


def _parts(study: Study, kind: str) -> list[Figure]:
    runs = study.runs[kind]
    wholes = {ranks: sum(entry[name] or 0.0 for name in PARTS) for ranks, entry in runs.items()}
    figures = []
    for ranks, entry in runs.items():
        whole = wholes[ranks]
        if any(entry[name] is None for name in PARTS) or not whole:
            continue
        for name in PARTS:
            share = entry[name] / whole
            figures.append(_figure(name, kind, ranks, share, percent(share), [entry]))
        fewest = min(runs)
        ideal = wholes[fewest] * (1 if kind == "weak" else fewest / ranks)
        slower = (entry["compute"] - ideal) / whole
        figures.append(_figure("slower", kind, ranks, slower, percent(slower), _both(runs, ranks)))
    return figures


def _predicted(study: Study, kind: str) -> list[Figure]:
    predictions = study.predictions[kind]
    if not predictions:
        return []
    times = {ranks: entry["predicted"] for ranks, entry in predictions.items()}
    useful = efficiencies(times, kind == "weak")
    figures = []
    for ranks, entry in predictions.items():
        both = _both(predictions, ranks)
        figures += [
            _figure("predicted_time", kind, ranks, times[ranks], human(times[ranks]), [entry]),
            _figure("predicted_efficiency", kind, ranks, useful[ranks], percent(useful[ranks]), both),
        ]
        measured = study.runs[kind].get(ranks)
        if measured is not None:
            off = times[ranks] / measured["seconds"] - 1
            figures.append(_figure("error", kind, ranks, off, f"{100 * off:+.1f} %", [entry, measured]))
    return figures


def _reference(study: Study, kind: str) -> list[Figure]:
    known = reference(study)[kind]
    runs = study.runs[kind]
    if not known or not runs or min(known) != min(runs):
        return []
    theirs = efficiencies({ranks: entry["seconds"] for ranks, entry in known.items()}, kind == "weak")
    ours = efficiencies({ranks: entry["seconds"] for ranks, entry in runs.items()}, kind == "weak")
    figures = []
    for ranks in sorted(set(known) & set(runs)):
        of_kit = _both(known, ranks)
        off = 100 * (ours[ranks] - theirs[ranks])
        figures += [
            _figure("reference_efficiency", kind, ranks, theirs[ranks], percent(theirs[ranks]), of_kit),
            _figure("difference", kind, ranks, off, f"{off:+.1f} points", [*of_kit, *_both(runs, ranks)]),
        ]
    return figures


def _costs(study: Study, kind: str) -> list[Figure]:
    figures = []
    for ranks, entry in study.runs[kind].items():
        steps = (study.setup["epoch"] or 0) / entry["images"]
        hours = entry["nodes"] * entry["seconds"] * steps / 3600
        used = [entry, study.setup]
        figures.append(_figure("node_hours", kind, ranks, hours, f"{digits(hours)} node-hours", used))
        joules = entry["joules"]
        if joules is not None:
            each = joules / entry["images"]
            figures += [
                _figure("joules", kind, ranks, joules, f"{digits(joules)} J", [entry]),
                _figure("joules_image", kind, ranks, each, f"{digits(each)} J an image", [entry]),
            ]
    return figures


def _answers(study: Study, kind: str) -> list[Figure]:
    """Up to how many ranks it is worth it, measured and predicted; the soonest and the cheapest."""
    figures = []
    sources: tuple[tuple[str, dict[int, Entry], Callable[[Entry], float]], ...] = (
        ("answer", study.runs[kind], lambda entry: entry["seconds"]),
        ("predicted_answer", study.predictions[kind], lambda entry: entry["predicted"]),
    )
    for name, entries, seconds in sources:
        if entries:
            useful = efficiencies({ranks: seconds(entry) for ranks, entry in entries.items()}, kind == "weak")
            most = up_to(useful, study.setup["enough"])
            text = _counted(most, "rank")
            used = [*entries.values(), study.setup]
            figures.append(Figure(f"{name}_{kind}", most, text, ONES[name], used))
    runs = study.runs[kind]
    if runs:
        soonest = min(runs, key=lambda ranks: runs[ranks]["seconds"] / runs[ranks]["images"])
        hours = {ranks: entry["nodes"] * entry["seconds"] / entry["images"] for ranks, entry in runs.items()}
        cheapest = min(runs, key=lambda ranks: (hours[ranks], -ranks))
        for name, ranks in (("soonest", soonest), ("cheapest", cheapest)):
            entries = list(runs.values())
            figures.append(Figure(f"{name}_{kind}", ranks, _counted(ranks, "rank"), ONES[name], entries))
    return figures


def up_to(useful: dict[int, float], enough: float) -> int:
    """The largest number of ranks before the first whose efficiency is not enough."""
    best = min(useful)
    for ranks in sorted(useful):
        if useful[ranks] < enough:
            break
        best = ranks
    return best


def _ones(study: Study) -> list[Figure]:
    setup = study.setup
    figures = [
        Figure("ranks_most", study.most, _counted(study.most, "rank"), ONES["ranks_most"], [setup]),
        Figure("images", setup["images"], f"{setup['images']:,} images", ONES["images"], [setup]),
        Figure("epoch", setup["epoch"], f"{setup['epoch']:,} images", ONES["epoch"], [setup]),
        Figure("rounds", setup["rounds"], _counted(setup["rounds"], "round"), ONES["rounds"], [setup]),
        Figure("enough", setup["enough"], percent(setup["enough"]), ONES["enough"], [setup]),
    ]
    for name, entry in study.published.items():
        value = entry["value"]
        text = f"{value:,}" if isinstance(value, int) else digits(value)
        unit = f" {entry['unit']}" if entry["unit"] else ""
        figures.append(Figure(f"published_{name}", value, f"{text}{unit}", "as published", [entry]))
    return figures


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
