"""What a report is worth: rows that somebody can mark, 20 points in all.

What the checker refuses needs no mark: such a report is not rendered.
"""

from __future__ import annotations

from typing import NamedTuple

from support.lab80.records import KINDS, Study, shown_time


class Row(NamedTuple):
    """A row of the rubric: what is looked at, points at most, what earns all, half and none of them."""

    what: str
    points: int
    all: str
    half: str
    none: str


ROWS = (
    Row(
        "Question",
        2,
        "A decision hangs on it, and a rule that settles it was chosen before",
        "It can be answered, but no rule was chosen",
        "“How does it scale?”",
    ),
    Row(
        "Prediction",
        3,
        "From a model that is named, with the numbers that went into it and where they come from",
        "A model, but not where its numbers come from",
        "A guess",
    ),
    Row(
        "Measurement",
        3,
        "In turns, enough ranks to show where it bends, spread looked at, unsteady times said to be so",
        "One of these is missing",
        "One run of each",
    ),
    Row(
        "Strong and weak",
        2,
        "Says what stays the same in each, gives the time beside each share, and tells the two apart",
        "Shares without times",
        "The two are mixed up",
    ),
    Row(
        "Where the time goes",
        3,
        "What is lost is traced to sending, waiting or slower computing, by figures",
        "Parts are named, but not what they mean",
        "“Communication overhead”",
    ),
    Row(
        "Prediction against measurement",
        3,
        "Says by how much it was off, why, and how that could be tested",
        "By how much alone",
        "Not mentioned",
    ),
    Row(
        "Cost",
        2,
        "Says at which number of ranks a result is cheapest and at which it is soonest, and chooses",
        "Figures without a choice",
        "Not mentioned",
    ),
    Row(
        "Limits",
        2,
        "Names what was not varied or not measured, and which sentence of the report hangs on it",
        "General words",
        "None",
    ),
)


def evidence(study: Study) -> list[str]:
    """What the records themselves say to whoever marks: a list of sentences."""
    measured = [entry for kind in KINDS for entry in study.runs[kind].values()]
    predictions = [entry for kind in KINDS for entry in study.predictions[kind].values()]
    unsteady = [entry for entry in measured if entry["seconds_steady"] is False]
    sentences = []
    if predictions and measured:
        last = shown_time(max(str(entry["utc"]) for entry in predictions))
        first = shown_time(min(str(entry["utc"]) for entry in measured))
        sentences.append(f"The last prediction is of {last}, the first measurement of {first}.")
    if unsteady:
        names = ", ".join(f"{entry['result']} {entry['ranks']}" for entry in unsteady)
        sentences.append(f"Not steady when they were measured: {names}. The page marks their numbers with ~.")
    else:
        sentences.append("All times were steady when they were measured.")
    if any(entry["changed"] for entry in measured):
        sentences.append("Files of the checkout differed from the revision that is named.")
    count = len(study.others)
    others = "no other study is" if not count else f"{count} other stud{'y is' if count == 1 else 'ies are'}"
    sentences.append(
        f"In the same file {others} on record; ask why this one was chosen, where there are more."
    )
    return sentences


def total() -> int:
    """Points of all rows."""
    return sum(row.points for row in ROWS)
