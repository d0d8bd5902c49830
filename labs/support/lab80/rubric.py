"""What a report is worth (rubric.yaml), and what its records say to whoever marks it."""

from __future__ import annotations

from pathlib import Path

from support.lab80.records import KINDS, Study, shown_time


def rows() -> list[dict]:
    """The rows of the rubric: what is looked at, points at most, what earns all, half and none of them."""
    import yaml

    return yaml.safe_load(Path(__file__).with_name("rubric.yaml").read_text(encoding="utf-8"))


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
