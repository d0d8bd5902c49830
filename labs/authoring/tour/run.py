"""Runs one lab of the tour as a process, watches it, and ends it with everything it started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from labkit import launch
from labkit.errors import LabError

from authoring import generate
from authoring.tour import html

RAN, FAILED, SKIPPED = "ran", "failed", "skipped"
PATIENCE = 15.0  # seconds that a lab, its kernel and its ranks get to end when they are told to


@dataclass
class Outcome:
    """How a lab went. `seconds`: from starting its process to its page; `minutes`: its header's
    promise."""

    stem: str
    title: str
    status: str
    sentence: str = ""
    seconds: float = 0.0
    minutes: int = 0
    ranks: int = 1
    needs: tuple[str, ...] = ()

    def plain(self) -> dict:
        """For tour.json."""
        return {**asdict(self), "seconds": round(self.seconds, 1)}


def run(
    root: Path,
    out: Path,
    stem: str,
    parameters: Mapping[str, object],
    lacks: str,
    tick: Callable[[int, int], None],
) -> Outcome:
    """Execute the solved lab `stem`, freshly generated from its source; its files go into `out`.

    tick(done, cells) is called a few times a second. lacks: what this machine lacks for the lab; if
    not "", the lab is skipped. It is ended after the minutes of its header.
    """
    begin = time.monotonic()
    try:
        lab = generate.load(stem, root)
        notebook = generate.solved_notebook(lab)
    except LabError as error:
        return Outcome(stem, stem, FAILED, str(error))
    head = lab.header
    outcome = Outcome(
        stem, f"{head.number} {head.title}", RAN, "", 0, head.minutes, head.ranks, head.needs
    )
    if lacks:
        outcome.status = SKIPPED
        outcome.sentence = f"It needs more than there is here. {lacks}"
        return outcome
    for folder in ("work", "notebooks", "home"):
        (out / folder).mkdir(exist_ok=True)
    made, executed = (out / folder / f"{stem}.ipynb" for folder in ("work", "notebooks"))
    made.write_text(notebook, encoding="utf-8")
    words = [made, executed, out / f"{stem}.html", outcome.title, root / "solutions"]
    words += [json.dumps(dict(parameters)), os.getpid()]
    log = out / "work" / f"{stem}.log"
    with open(log, "w") as sink:
        ended = launch.run_to_end(
            [sys.executable, "-m", "authoring.tour.lab", *map(str, words)],
            patience=PATIENCE,
            timeout=60 * head.minutes,
            tick=lambda: tick(*html.progress(executed)),
            env=_environment(out),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the tour alone, which passes it on
        )
    if ended.cause in ("SIGINT", "SIGTERM"):
        raise KeyboardInterrupt
    outcome.seconds = time.monotonic() - begin
    if ended.cause == "timeout":
        outcome.status = FAILED
        outcome.sentence = f"It took longer than the {head.minutes} minutes of its header."
    elif ended.status:
        outcome.status = FAILED
        failure = html.failure(executed) if ended.status == 1 else None
        outcome.sentence = failure or _last_line(log)
    return outcome


def _environment(out: Path) -> dict[str, str]:
    labs = str(Path(__file__).parents[2])
    own = {
        "LABKIT_HOME": str(out / "home"),
        "LABKIT_SOLVED": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's own
        "PYTHONPATH": os.pathsep.join(filter(None, [labs, os.environ.get("PYTHONPATH")])),
    }
    return {**os.environ, **own}


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "It ended without a word."
