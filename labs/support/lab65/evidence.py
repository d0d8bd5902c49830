"""What runs say of each way, as spans between the lowest and the highest that was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from support.lab65.processes import ERROR, Run
from support.lab65.ways import WAYS, alone_of

# Words of an error's line that tells of another process, the most telling first.
CAUSES = ("remote target", "by peer", "been shut down")
# What is measured of each way -> is more of it better?
COLUMNS = {
    "lines changed": False,
    "images/s": True,
    "start-up (s)": False,
    "memory (MB)": False,
    "others end after (s)": False,
}


class Decision(NamedTuple):
    """A line of a decision table: what I need, among whom, what I take (None: nothing decides), by what."""

    need: str
    among: str
    take: str | None
    column: str


def evidence(
    runs: Mapping[str, Sequence[Run]], lines: Mapping[str, int], read_run: Callable, batch: int
) -> dict[str, dict[str, tuple[float, float]]]:
    """{column: {way: (low, high)}}. lines: changed in each way. read_run: the learner's, of exercise 65.2.

    images/s: the quartiles of all steps of all rounds. The rest: the least and the most, of rounds and ranks.
    Where others did not end, "others end after" is infinite. Runs on one device have no lines.
    """
    spans: dict[str, dict[str, tuple[float, float]]] = {column: {} for column in COLUMNS}
    for name, rounds in runs.items():
        start_ups = []
        speeds = []
        for run in rounds:
            start_up, of_steps = read_run(run.reports[0].started, [one.moments for one in run.reports], batch)
            start_ups.append(start_up)
            speeds += list(of_steps)
        memory = [report.megabytes for run in rounds for report in run.reports]
        spans["images/s"][name] = tuple(float(value) for value in np.percentile(speeds, [25, 75]))
        spans["start-up (s)"][name] = _span(start_ups)
        spans["memory (MB)"][name] = _span(memory)
        if name in WAYS:
            spans["lines changed"][name] = _span([lines[name]])
            spans["others end after (s)"][name] = _span(_delays(rounds))
    return spans


def _span(values: Sequence[float]) -> tuple[float, float]:
    return float(min(values)), float(max(values))


def _delays(rounds: Sequence[Run]) -> list[float]:
    """Seconds from a death until each of the others had ended; inf for one that had not."""
    return [
        np.inf if report.ended is None else report.ended - run.killed
        for run in rounds
        for report in run.reports[:-1]
    ]


def after_death(runs: Mapping[str, Sequence[Run]]):
    """A DataFrame, a row for each way: how the others ended, how soon, with which error, and what was left.

    What was left: processes and temporary files, of the one that was killed, and of the others.
    """
    import pandas

    rows = []
    for name, rounds in runs.items():
        if name not in WAYS:
            continue
        others = [report for run in rounds for report in run.reports[:-1]]
        statuses = sorted({"still there" if one.status is None else str(one.status) for one in others})
        errors = sorted({_error(one.words) for one in others})
        row = {"way": name, "others' exit status": ", ".join(statuses), "after (s)": max(_delays(rounds))}
        row["their error"] = ", ".join(errors)
        row["left by them"] = sum(len(report.left) for report in others)
        row["left by the dead"] = sum(len(run.reports[-1].left) for run in rounds)
        rows.append(row)
    return pandas.DataFrame(rows).set_index("way")


def _error(words: str) -> str:
    """The error's name: of the last line that has one."""
    names = ERROR.findall(words)
    return names[-1] if names else "none"


def last_words(runs: Mapping[str, Sequence[Run]], way: str, most: int = 200) -> str:
    """The line in which the first of the others tells why it ends, from the error on, cut to `most`."""
    lines = [line.strip() for line in runs[way][0].reports[0].words.splitlines()]
    for cause in CAUSES:
        telling = [line for line in lines if cause in line]
        if telling:
            line = telling[-1]
            return line[max(0, line.index(cause) - most // 2) :][:most]
    return "nothing"


def apart(runs: Mapping[str, Sequence[Run]], way: str, steps: int) -> tuple[float, float]:
    """How far the losses of the first steps are apart: of a way from one device's, and of these in a step.

    A way's loss is the mean over its ranks: each has equally many images. The second number is the largest
    change of the one device's loss from a step to the next, to compare the first with.
    """
    together = np.mean([report.losses[:steps] for report in runs[way][0].reports], axis=0)
    alone = np.array(runs[alone_of(way)][0].reports[0].losses[:steps])
    return float(np.abs(together - alone).max()), float(np.abs(np.diff(alone)).max())


def not_ruled_out(spans: Mapping[str, tuple[float, float]], more_is_better: bool) -> list[str]:
    """The ways whose span reaches the worse end of the best one, or beyond: the right answer of 65.3."""
    if more_is_better:
        bar = max(low for low, _ in spans.values())
        return [way for way, (_, high) in spans.items() if high >= bar]
    bar = min(high for _, high in spans.values())
    return [way for way, (low, _) in spans.items() if low <= bar]


def show(spans: Mapping[str, Mapping[str, tuple[float, float]]]):
    """The evidence as a DataFrame of texts: `low to high`, or one number."""
    import pandas

    frame = {column: {way: _text(*span) for way, span in row.items()} for column, row in spans.items()}
    return pandas.DataFrame(frame).fillna("")


def _text(low: float, high: float) -> str:
    digits = 0 if max(abs(low), abs(high) if np.isfinite(high) else 0) >= 20 else 1
    if low == high and float(low).is_integer():
        return f"{low:.0f}"
    return f"{low:,.{digits}f} to {high:,.{digits}f}"
