"""How far a learner is: events are written to their log, and its lines add up to their progress."""

from __future__ import annotations

import contextlib
from datetime import datetime
from pathlib import Path

from labkit import labfile
from labkit.errors import LabError
from labkit.journal import log, sharing


def note(event: str, *, said: str = "", **fields) -> None:
    """Write down an event: `start` (lab=), `passed`, `failed` (exercise=, said=), `hint` (hints=)
    and so on.

    See labkit.journal.log for all of them; how often an exercise was tried is added here. said:
    what the check answered. Raises LabError, or another OSError, where the log cannot be written;
    what cannot be shared is lost without a word.
    """
    with log.alone():
        if event in ("passed", "failed"):
            fields["tries"] = entry(fields["exercise"])["tries"] + 1
        line = log.event(event, said, **fields)
        log.append(line)
        with contextlib.suppress(LabError, OSError):
            sharing.forward(line)


def progress() -> dict[str, dict]:
    """Exercise -> {"passed": time or None, "tries": int, "hints": int, "predictions": {…}}.

    {} where the log cannot be read; who writes it says so.
    """
    try:
        return _added_up(log.read())
    except (LabError, OSError):
        return {}


def _added_up(lines: list[dict]) -> dict[str, dict]:
    known: dict[str, dict] = {}
    for line in lines:
        kind = line["event"]
        if kind == "progress":
            known = {number: _nothing_yet() | kept for number, kept in line["exercises"].items()}
        if "exercise" not in line:
            continue
        kept = known.setdefault(line["exercise"], _nothing_yet())
        if kind in ("passed", "failed"):
            kept["tries"] += 1
        if kind == "passed" and not kept["passed"]:
            kept["passed"] = datetime.fromtimestamp(line["at"]).isoformat(timespec="seconds")
        if kind == "hint":
            kept["hints"] = max(kept["hints"], line["hints"])
        if kind == "guess":
            kept["predictions"].update(line["values"])
    return known


def entry(exercise: str) -> dict:
    """What the log says of one exercise."""
    return progress().get(exercise, _nothing_yet())


def _nothing_yet() -> dict:
    return {"passed": None, "tries": 0, "hints": 0, "predictions": {}}


def show(root: Path) -> None:
    """Print a table: for each lab of a checkout, exercises passed and hints used.

    Raises LabError, or another OSError, where the log cannot be read.
    """
    from rich.console import Console
    from rich.table import Table

    stored = _added_up(log.read())
    table = Table(title="Your progress")
    for name in ("Lab", "Solved", "Exercises", "Hints used"):
        table.add_column(name, justify="left" if name == "Lab" else "right")
    done = every = 0
    for stem in labfile.stems(root):
        text = (labfile.folder(root) / f"{stem}.py").read_text(encoding="utf-8")
        numbers = [exercise.number for exercise in labfile.exercises_in(text)]
        passed = [number for number in numbers if stored.get(number, {}).get("passed")]
        hints = sum(stored.get(number, {}).get("hints", 0) for number in numbers)
        done = done + len(passed)
        every = every + len(numbers)
        marks = " ".join(
            f"[green]✓{number}[/]" if number in passed else f"[dim]·{number}[/]"
            for number in numbers
        )
        table.add_row(stem, marks, f"{len(passed)}/{len(numbers)}", str(hints or ""))
    Console().print(table)
    print(f"{done} of {every} exercises solved.")
