"""`make tour`: run every solved lab in order and write report/index.html, which opens anywhere, offline.

A failed lab does not stop the tour, but the tour then ends with status 1. The learner's own progress, records
and plots are not touched: the tour has a home of its own inside the report.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from pathlib import Path

from labkit import labfile, paths
from labkit.errors import LabError

from authoring import wrong_answers
from authoring.tour import report as tour_report
from authoring.tour import run

MARK = "tour.json"  # in every report; a folder without it is not one, and is left alone


def main(arguments: list[str] | None = None) -> int:
    """`python -m authoring tour [--labs 10,20] [--small] [--out report]`; 0: all ran, 130: Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="authoring tour", description="Run every solved lab, write a report."
    )
    parser.add_argument("--labs", default="", help="only these: numbers or stems, with commas between")
    parser.add_argument("--small", action="store_true", help="at the size of the tests: minutes, not an hour")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report (default: report)")
    options = parser.parse_args(arguments)
    root = paths.root()
    # `kill` and a batch system's end are as orderly as Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        stems = [labfile.find(lab.strip(), root) for lab in options.labs.split(",") if lab.strip()]
        if options.labs and not stems:
            raise LabError(f"LABS={options.labs} names no lab: give numbers, such as LABS=10,20.")
        stems = stems or labfile.stems(root)
        if not stems:
            raise LabError("There are no labs in solutions/.")
        out = fresh_folder(options.out or root / "report")
        try:
            return _tour(root, out, stems, options.small)
        finally:
            shutil.rmtree(out / "work", ignore_errors=True)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("The tour was stopped; what it had started has ended.", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def fresh_folder(out: Path) -> Path:
    """The empty report folder. An earlier report is replaced; another folder is refused unless empty."""
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise LabError(f"{out} is a file. Choose another --out folder.")
    if out.exists() and any(out.iterdir()):
        if not (out / MARK).exists():
            raise LabError(f"{out} holds something else than an earlier report. Choose another --out folder.")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).write_text("{}\n")
    (out / "home").mkdir()
    return out


def _tour(root: Path, out: Path, stems: list[str], small: bool) -> int:
    from labkit import doctor

    begin = time.monotonic()
    print(f"Looking at this machine, then {len(stems)} labs{' at test size' if small else ''} …", flush=True)
    report = doctor.report()
    outcomes = []
    with Display(len(stems)) as display:
        for stem in stems:
            display.begin(stem)
            verdict = report["labs"].get(stem, {})
            lacks = verdict["sentence"] if verdict.get("status") == doctor.NEEDS else ""
            parameters = wrong_answers.read(root, stem)["SMALL"] if small else {}
            outcome = run.run(root, out, stem, parameters, lacks, display.tick)
            outcomes.append(outcome)
            display.end(outcome)
            seconds = time.monotonic() - begin
            # After each lab, so that a tour that is stopped leaves a report of what it saw.
            tour_report.write(root, out, outcomes, report, seconds=seconds, small=small)
            _write_mark(out, outcomes, report, seconds, small)
    failed = [outcome.stem for outcome in outcomes if outcome.status == run.FAILED]
    print(f"{tour_report.summary(outcomes, time.monotonic() - begin)} Report: {_short(out / 'index.html')}")
    return 1 if failed else 0


def _write_mark(out: Path, outcomes: list, report: dict, seconds: float, small: bool) -> None:
    content = {
        "seconds": round(seconds, 1),
        "small": small,
        "labs": [outcome.plain() for outcome in outcomes],
        "doctor": report,
    }
    (out / MARK).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


class Display:
    """A moving line for the lab that runs, and a line that stays for each that has ended."""

    def __init__(self, labs: int):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.labs = labs
        self.number = 0
        self.console = Console(highlight=False, soft_wrap=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(20),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
        )
        self.progress = Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        )

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        self.progress.stop()

    def begin(self, stem: str) -> None:
        self.number += 1
        self.task = self.progress.add_task(f"[{self.number}/{self.labs}] {stem}", total=None, state="")

    def tick(self, done: int, cells: int) -> None:
        if cells:
            self.progress.update(self.task, completed=done, total=cells, state=f"cell {done} of {cells}")

    def end(self, outcome: run.Outcome) -> None:
        self.progress.remove_task(self.task)
        sign, color = {"ran": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}[
            outcome.status
        ]
        took = f"{outcome.seconds:6.1f} s of {outcome.minutes} min" if outcome.seconds else ""
        line = f"[{color}]{sign} {outcome.status:7}[/] {outcome.stem:34} {took}"
        self.console.print(line.rstrip())
        if outcome.sentence:
            self.console.print(f"          {outcome.sentence}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
