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
from pathlib import Path

from labkit import doctor, labfile, paths
from labkit.errors import LabError, exit_status

from authoring import wrong_answers
from authoring.tour import report as tour_report
from authoring.tour import run

MARK = "tour.json"
_SIGNS = {run.RAN: "✓", run.FAILED: "✗", run.SKIPPED: "–"}


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


def _tour(options: argparse.Namespace) -> int:
    root = paths.root()
    stems = [labfile.find(lab.strip(), root) for lab in options.labs.split(",") if lab.strip()]
    if options.labs and not stems:
        raise LabError(f"LABS={options.labs} names no lab: give numbers, such as LABS=10,20.")
    stems = stems or labfile.stems(root)
    if not stems:
        raise LabError("There are no labs in solutions/.")
    out = fresh_folder(options.out or root / "report")
    try:
        return _run(root, out, stems, options.small)
    except KeyboardInterrupt:
        print("The tour was stopped; what it had started has ended.", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(out / "work", ignore_errors=True)


def _run(root: Path, out: Path, stems: list[str], small: bool) -> int:
    begin = time.monotonic()
    print(
        f"Looking at this machine, then {len(stems)} labs{' at test size' if small else ''} …",
        flush=True,
    )
    report = doctor.report()
    outcomes = []
    for stem in stems:
        verdict = report["labs"].get(stem, {})
        lacks = verdict["sentence"] if verdict.get("status") == doctor.NEEDS else ""
        parameters = wrong_answers.read(root, stem)["SMALL"] if small else {}
        head = f"[{len(outcomes) + 1}/{len(stems)}] {stem}"
        outcomes.append(
            run.run(root, out, stem, parameters, lacks, lambda *far, head=head: _tick(head, *far))
        )
        _show(outcomes[-1])
        # After each lab, so that a tour that is stopped leaves a report of what it saw.
        seconds = time.monotonic() - begin
        tour_report.write(root, out, outcomes, report, seconds=seconds, small=small)
        content = {"seconds": round(seconds, 1), "small": small, "doctor": report}
        content["labs"] = [outcome.plain() for outcome in outcomes]
        (out / MARK).write_text(
            json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    print(
        f"{tour_report.summary(outcomes, time.monotonic() - begin)} Report:"
        f" {paths.shown(out / 'index.html')}"
    )
    return 1 if any(outcome.status == run.FAILED for outcome in outcomes) else 0


def _tick(head: str, done: int, cells: int) -> None:
    """On a terminal a line that moves: how far the lab is that runs."""
    if sys.stdout.isatty():
        print(f"\r\033[K{head}: cell {done} of {cells}", end="", flush=True)


def _show(outcome: run.Outcome) -> None:
    """A line that stays, for a lab that has ended."""
    took = f"{outcome.seconds:6.1f} s of {outcome.minutes} min" if outcome.seconds else ""
    line = f"{_SIGNS[outcome.status]} {outcome.status:7} {outcome.stem:34} {took}".rstrip()
    print(f"{chr(13)}\033[K{line}" if sys.stdout.isatty() else line)
    if outcome.sentence:
        print(f"          {outcome.sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
