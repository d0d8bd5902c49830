"""What a trial's engines and its network did, as rows for plots.lanes."""

from __future__ import annotations

from support.lab27.checks import Trial


def busy(trial: Trial, name: str, rank: int = 0) -> dict[str, list[tuple[float, float]]]:
    """When each engine and the network of a rank were busy, in a traced trial.

    Returns {"to host, name": [(start, end)], "message, name": …, "to device, name": …}, in virtual seconds.
    """
    _, _, copies = trial.run.results[rank]
    spans: dict[str, list] = {"to host": [], "message": [], "to device": []}
    for engine, _, start, end in copies:
        spans[engine].append((start, end))
    for owner, kind, start, end, *_ in trial.run.trace:
        if owner == rank and kind == "send":
            spans["message"].append((start, end))
    return {f"{step}, {name}": times for step, times in spans.items()}
