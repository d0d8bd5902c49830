"""The numbers that a report may hold: each by its name, computed by a named formula from records.

    figures.all_of(study)["efficiency_weak_4"].text  ->  "93.1 %"

Names are `quantity_kind_ranks`, such as `time_strong_8`; `most` may stand for the largest number of
ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from labkit import scaling
from labkit.errors import counted
from labkit.timing import digits, human

from support.lab80.records import KINDS, PARTS, Entry, Study, reference, shown_time


def percent(share: float) -> str:
    """`93.1 %`."""
    return f"{100 * share:.1f} %"


# Quantity of a number of ranks -> (its formula, how it is printed)
QUANTITIES = {
    "time": ("median of the samples of a step", human),
    "efficiency": (
        "strong: t(b) · b / (p · t(p)); weak: t(b) / t(p); b is the fewest ranks measured",
        percent,
    ),
    "speedup": ("efficiency · p", lambda value: f"{digits(value)} times"),
    "rate": ("images of the job / t(p)", lambda value: f"{digits(value)} images/s"),
    "compute": ("mean compute of the ranks / mean step", percent),
    "wait": (
        "mean time in the allreduce less that of the rank that came last / mean step",
        percent,
    ),
    "communicate": ("time in the allreduce of the rank that came last / mean step", percent),
    "slower": ("(mean compute - ideal step) / mean step; the ideal is as for efficiency", percent),
    "predicted_time": ("as it was predicted", human),
    "predicted_efficiency": ("efficiency of the predicted times", percent),
    "error": ("predicted / measured time - 1", lambda value: f"{100 * value:+.1f} %"),
    "reference_efficiency": ("efficiency of the kit's own records", percent),
    "nodes": ("nodes in use", lambda value: counted(value, "node")),
    "node_hours": (
        "nodes · t(p) · images of an epoch / images of the job / 3600 s",
        lambda value: f"{digits(value)} node-hours",
    ),
    "joules": (
        "joules of all nodes during the timed steps / their images",
        lambda value: f"{digits(value)} J an image",
    ),
}
# Number of ranks that is an answer -> its formula
ANSWERS = {
    "answer": "the largest number of ranks, from the fewest on, up to which efficiency is enough",
    "predicted_answer": "the same by the predictions",
    "soonest": "the number of ranks with the shortest epoch",
    "cheapest": (
        "the number of ranks with the fewest node-hours for an epoch; of equal ones the most ranks"
    ),
}


@dataclass(frozen=True)
class Figure:
    """A number of the report: its name, value, text as it is printed, formula, and the records
    behind it."""

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
    """Every figure that this study's records support, by name. Without its record there is no
    figure."""
    figures = {figure.name: figure for figure in _ones(study)}
    for kind in KINDS:
        for quantity, ranks, value, entries in (*_measured(study, kind), *_compared(study, kind)):
            formula, printed = QUANTITIES[quantity]
            figure = Figure(f"{quantity}_{kind}_{ranks}", value, printed(value), formula, entries)
            figures[figure.name] = figure
            if ranks == study.most:
                figures[f"{quantity}_{kind}_most"] = figure
        for answer, ranks, entries in _answers(study, kind):
            name = f"{answer}_{kind}"
            figures[name] = Figure(name, ranks, counted(ranks, "rank"), ANSWERS[answer], entries)
    return figures


def _efficiency(entries: dict[int, Entry], kind: str, seconds: str = "seconds") -> dict[int, float]:
    """ranks -> efficiency of the times in a field of these records; {} where there are none."""
    times = {ranks: entry[seconds] for ranks, entry in entries.items()}
    return scaling.efficiency(times, weak=kind == "weak") if times else {}


def _both(entries: dict[int, Entry], ranks: int) -> list[Entry]:
    """The baseline's record, and that of these ranks."""
    return [entries[count] for count in sorted({min(entries), ranks})]


def _measured(study: Study, kind: str) -> Iterator[tuple[str, int, float, list[Entry]]]:
    """(quantity, ranks, value, records) of what was measured."""
    runs = study.runs[kind]
    fewest = min(runs)
    alone = sum(runs[fewest][name] for name in PARTS)
    for ranks, share in _efficiency(runs, kind).items():
        entry = runs[ranks]
        both = _both(runs, ranks)
        seconds, images, nodes = entry["seconds"], entry["images"], entry["nodes"]
        yield "time", ranks, seconds, [entry]
        yield "efficiency", ranks, share, both
        yield "speedup", ranks, share * ranks, both
        yield "rate", ranks, images / seconds, [entry]
        yield "nodes", ranks, nodes, [entry]
        whole = sum(entry[name] for name in PARTS)
        for name in PARTS:
            yield name, ranks, entry[name] / whole, [entry]
        ideal = alone if kind == "weak" else alone * fewest / ranks
        yield "slower", ranks, (entry["compute"] - ideal) / whole, both
        hours = nodes * seconds * study.setup["epoch"] / images / 3600
        yield "node_hours", ranks, hours, [entry, study.setup]
        if entry["joules"] is not None:
            yield "joules", ranks, entry["joules"] / images, [entry]


def _compared(study: Study, kind: str) -> Iterator[tuple[str, int, float, list[Entry]]]:
    """(quantity, ranks, value, records) of predictions and of the kit's own records."""
    runs = study.runs[kind]
    predictions = study.predictions[kind]
    for ranks, share in _efficiency(predictions, kind, "predicted").items():
        entry = predictions[ranks]
        yield "predicted_time", ranks, entry["predicted"], [entry]
        yield "predicted_efficiency", ranks, share, _both(predictions, ranks)
        if ranks in runs:
            error = entry["predicted"] / runs[ranks]["seconds"] - 1
            yield "error", ranks, error, [entry, runs[ranks]]
    known = reference(study)[kind]
    if known and min(known) == min(runs):
        for ranks, share in _efficiency(known, kind).items():
            if ranks in runs:
                yield "reference_efficiency", ranks, share, _both(known, ranks)


def _answers(study: Study, kind: str) -> Iterator[tuple[str, int, list[Entry]]]:
    """Up to how many ranks it is worth it, measured and predicted; the soonest and the cheapest."""
    runs = study.runs[kind]
    predictions = study.predictions[kind]
    enough = study.setup["enough"]
    used = [*runs.values()]
    yield "answer", up_to(_efficiency(runs, kind), enough), [*used, study.setup]
    most = up_to(_efficiency(predictions, kind, "predicted"), enough)
    yield "predicted_answer", most, [*predictions.values(), study.setup]
    seconds = {ranks: entry["seconds"] / entry["images"] for ranks, entry in runs.items()}
    yield "soonest", min(seconds, key=seconds.get), used
    cheapest = min(runs, key=lambda ranks: (runs[ranks]["nodes"] * seconds[ranks], -ranks))
    yield "cheapest", cheapest, used


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
    images = f"{setup['images']:,} images"
    enough = "the least efficiency that counts as worth it, chosen before"
    for name, value, text, formula in (
        ("ranks_most", study.most, counted(study.most, "rank"), "the largest number of ranks"),
        ("images", setup["images"], images, "images of the job (strong), of each rank (weak)"),
        ("epoch", setup["epoch"], f"{setup['epoch']:,} images", "images of an epoch"),
        ("enough", setup["enough"], percent(setup["enough"]), enough),
    ):
        yield Figure(name, value, text, formula, [setup])
    for name, entry in study.published.items():
        value = entry["value"]
        text = f"{value:,}" if isinstance(value, int) else digits(value)
        yield Figure(
            f"published_{name}", value, f"{text} {entry['unit']}".strip(), "as published", [entry]
        )


def sentences(study: Study) -> dict[str, str]:
    """Names of whole sentences and words that a report may hold, and what they say."""
    setup = study.setup
    words = {name: str(setup[name]) for name in ("question", "method", "command", "machine")}
    words |= {
        "where": "the virtual cluster" if setup["where"] == "virtual" else "real ranks",
        "date": shown_time(setup["utc"]),
        "energy": _energy(study),
        "reference": _about_reference(study),
    }
    return words | {
        f"source_{name}": str(entry["source"]) for name, entry in study.published.items()
    }


def _energy(study: Study) -> str:
    measured = [entry for kind in KINDS for entry in study.runs[kind].values()]
    meters = {str(entry["meter"]) for entry in measured if entry["joules"] is not None}
    if meters:
        return f"Energy was read from {' and '.join(sorted(meters))}; it counts all that ran there."
    reasons = {str(entry["no_meter"]) for entry in measured}
    return f"Energy was not read: {'; '.join(sorted(reasons))}."


def _about_reference(study: Study) -> str:
    entries = [entry for kind in reference(study).values() for entry in kind.values()]
    if not entries:
        return "The kit has no reference records of such a study."
    first = entries[0]
    ranks = ", ".join(str(count) for count in sorted({entry["ranks"] for entry in entries}))
    file, _, _ = first.place.rpartition(":")
    where = f"{file}, {first['cpu']}, {shown_time(first['utc'])}"
    return f"The kit's own records ({where}) have {ranks} ranks."
