"""What a learner has done so far, in home()/progress.json. Several notebooks may store at once."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from labkit import lab, labfile, paths, world


def path() -> Path:
    """The file of this learner's progress."""
    return paths.home() / "progress.json"


def read() -> dict[str, dict]:
    """Exercise -> {"passed": time or None, "tries": int, "hints": int, "predictions": {…}}."""
    try:
        return _load(path())
    except OSError:  # a folder that cannot be read; saving will say so
        return {}


def entry(exercise: str) -> dict:
    """What is stored of one exercise."""
    return {**_nothing_yet(), **read().get(exercise, {})}


def _nothing_yet() -> dict:
    return {"passed": None, "tries": 0, "hints": 0, "predictions": {}}


def update(exercise: str, change: Callable[[dict], None]) -> dict | None:
    """Let `change` edit the stored entry of one exercise; alone among all processes of this learner.

    The entry as it is now; None if nothing was stored.

    Only rank 0 stores, and a run of a solved lab stores nothing. A folder that cannot be written costs a
    sentence, not the lab.
    """
    if not world.is_root() or lab.solved():
        return None
    try:
        with _locked(path()):
            everything = _load(path())
            kept = everything.setdefault(exercise, _nothing_yet())
            change(kept)
            _replace(path(), everything)
            return kept
    except OSError as error:
        print(f"Your progress could not be saved: {error}", file=sys.stderr)
        return None


def now() -> str:
    """The time, to the second."""
    return datetime.now().isoformat(timespec="seconds")


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _load(target: Path) -> dict[str, dict]:
    try:
        stored = json.loads(target.read_text(encoding="utf-8"))["exercises"]
        if not all(isinstance(kept, dict) for kept in stored.values()):
            raise ValueError("not a table of exercises")
        return stored
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        aside = target.with_name(f"progress.damaged-{datetime.now():%Y%m%d-%H%M%S}.json")
        with contextlib.suppress(FileNotFoundError):  # another notebook was quicker
            target.rename(aside)
            print(
                f"{target} could not be read; it is now {aside.name}, and progress starts afresh.",
                file=sys.stderr,
            )
        return {}


def _replace(target: Path, everything: dict[str, dict]) -> None:
    text = json.dumps({"exercises": everything}, indent=1, sort_keys=True) + "\n"
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".progress-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def show(root: Path) -> None:
    """Print a table: for each lab, exercises passed and hints used."""
    from rich.console import Console
    from rich.table import Table

    stored = read()
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
            f"[green]✓{number}[/]" if number in passed else f"[dim]·{number}[/]" for number in numbers
        )
        table.add_row(stem, marks, f"{len(passed)}/{len(numbers)}", str(hints or ""))
    Console().print(table)
    print(f"{done} of {every} exercises solved.")
