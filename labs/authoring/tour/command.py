"""`make tour`: run every solved lab in order and write report/index.html, which opens anywhere,
offline.

A failed lab does not stop the tour, but the tour then ends with status 1. The learner's own
progress, records and plots are not touched: the tour has a home of its own inside the report.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from labkit import copies, doctor, labfile, paths
from labkit.errors import LabError, exit_status

from authoring import generate, kernel, wrong_answers
from authoring.cells import solved_cells
from authoring.tour import pages

MARK = "tour.json"
RAN, FAILED, SKIPPED = "ran", "failed", "skipped"
_SIGNS = {RAN: "✓", FAILED: "✗", SKIPPED: "–"}


@dataclass
class Outcome:
    """How a lab went. `seconds`: until its page was written; `minutes`: its header's promise."""

    stem: str
    title: str
    status: str
    sentence: str = ""
    seconds: float = 0.0
    minutes: int = 0


def main(arguments: list[str] | None = None) -> int:
    """`python -m authoring tour [--labs 10,20] [--small] [--out report]`; 0: all ran, 130:
    Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="authoring tour", description="Run every solved lab, write a report."
    )
    parser.add_argument(
        "--labs", default="", help="only these: numbers or stems, with commas between"
    )
    parser.add_argument(
        "--small", action="store_true", help="at the size of the tests: minutes, not an hour"
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="folder of the report (default: report)"
    )
    options = parser.parse_args(arguments)
    # `kill` and a batch system's end are as orderly as Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return exit_status(lambda: _tour(options))
    finally:
        signal.signal(signal.SIGTERM, before)


def fresh_folder(out: Path, mark: str = MARK, what: str = "report") -> Path:
    """The empty folder of a report or a guide. An earlier one is replaced; another folder must be
    empty.

    mark: the file by which an earlier one is known. what: "report", for the sentence.
    """
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise LabError(f"{out} is a file. Choose another --out folder.")
    if out.exists() and any(out.iterdir()):
        if not (out / mark).exists():
            raise LabError(
                f"{out} holds something else than an earlier {what}. Choose another --out folder."
            )
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / mark).write_text("{}\n")
    return out


def run(
    root: Path,
    out: Path,
    stem: str,
    parameters: Mapping[str, object],
    tick: Callable[[int, int], None],
) -> Outcome:
    """Execute the solved lab `stem`, freshly generated from its source; its files go into `out`.

    parameters: those that differ from the lab's own. tick(done, cells) is called a few times a
    second. It is ended after the minutes of its header.
    """
    begin = time.monotonic()
    try:
        lab = generate.load(stem, root)
        cells = solved_cells(lab, parameters)
    except LabError as error:
        return Outcome(stem, stem, FAILED, str(error))
    head = lab.header
    outcome = Outcome(stem, f"{head.number} {head.title}", RAN, minutes=head.minutes)
    env = {"LABKIT_HOME": str(out / "home"), "LABKIT_SOLVED": "1"}
    book, error = kernel.run(stem, cells, root, seconds=60 * head.minutes, env=env, tick=tick)
    if error:
        outcome.status = FAILED
        outcome.sentence = _sentence(error)
    (out / "notebooks").mkdir(exist_ok=True)
    executed = out / "notebooks" / f"{stem}.ipynb"
    executed.write_text(copies.notebook_text(book), encoding="utf-8")
    pages.write_lab(book, out / f"{stem}.html", outcome.title)
    outcome.seconds = round(time.monotonic() - begin, 1)
    return outcome


def _sentence(error: Exception) -> str:
    """What an error says: of a LabError in a cell its sentences, of another one its kind, too."""
    if "Traceback" in getattr(error, "traceback", ""):
        return f"{error.ename}: {error.evalue}"
    return " ".join(getattr(error, "evalue", str(error)).split())


def _tour(options: argparse.Namespace) -> int:
    root = paths.root()
    small = options.small
    chosen = [labfile.find(lab.strip(), root) for lab in options.labs.split(",") if lab.strip()]
    if options.labs and not chosen:
        raise LabError(f"LABS={options.labs} names no lab: give numbers, such as LABS=10,20.")
    stems = chosen or labfile.stems(root)
    out = fresh_folder(options.out or root / "report")
    at_size = " at test size" if small else ""
    print(f"Looking at this machine, then {len(stems)} labs{at_size} …", flush=True)
    try:
        return _run_all(root, out, stems, small)
    except KeyboardInterrupt:
        print("The tour was stopped; what it had started has ended.", file=sys.stderr)
        return 130


def _run_all(root: Path, out: Path, stems: list[str], small: bool) -> int:
    begin = time.monotonic()
    report = doctor.report()
    outcomes: list[Outcome] = []
    for stem in stems:
        verdict = report["labs"].get(stem, {})
        if verdict.get("status") == doctor.NEEDS:
            lacks = f"It needs more than there is here. {verdict['sentence']}"
            outcomes.append(Outcome(stem, stem, SKIPPED, lacks))
        else:
            parameters = wrong_answers.read(root, stem)["SMALL"] if small else {}
            tick = partial(_tick, f"[{len(outcomes) + 1}/{len(stems)}] {stem}")
            outcomes.append(run(root, out, stem, parameters, tick))
        _show(outcomes[-1])
        # After each lab, so that a tour that is stopped leaves a report of what it saw.
        said = summary(outcomes, time.monotonic() - begin)
        pages.write_index(out, outcomes, said, report, small)
        content = {"small": small, "doctor": report, "labs": [asdict(each) for each in outcomes]}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (out / MARK).write_text(text, encoding="utf-8")
    print(f"{said} Report: {paths.shown(out / 'index.html')}")
    return 1 if any(outcome.status == FAILED for outcome in outcomes) else 0


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """ "9 of 10 labs ran in 7 min 12 s; failed: 40_horovod_pytorch." """
    ran = [outcome for outcome in outcomes if outcome.status == RAN]
    minutes, rest = divmod(int(seconds), 60)
    text = f"{len(ran)} of {len(outcomes)} labs ran in {minutes} min {rest} s"
    for status in (FAILED, SKIPPED):
        stems = [outcome.stem for outcome in outcomes if outcome.status == status]
        text += f"; {status}: {', '.join(stems)}" if stems else ""
    return text + "."


def _tick(head: str, done: int, cells: int) -> None:
    """On a terminal a line that moves: how far the lab is that runs."""
    if sys.stdout.isatty():
        print(f"\r\033[K{head}: cell {done} of {cells}", end="", flush=True)


def _show(outcome: Outcome) -> None:
    """A line that stays, for a lab that has ended."""
    took = f"{outcome.seconds:6.1f} s of {outcome.minutes} min" if outcome.seconds else ""
    line = f"{_SIGNS[outcome.status]} {outcome.status:7} {outcome.stem:34} {took}".rstrip()
    print(f"\r\033[K{line}" if sys.stdout.isatty() else line, flush=True)
    if outcome.sentence:
        print(f"          {outcome.sentence}", flush=True)
