"""What this machine and site really have, and which lab runs here: `make doctor`. Lab 00 teaches to read it.

Nothing fails because something is missing: what was not found is said with what it would enable. What might
crash or hang is asked in processes of its own, all at once, with a time limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from labkit import labfile, paths, world
from labkit.doctor import facts, fitness, machine
from labkit.doctor import findings as doctor_findings
from labkit.errors import LabError, NotHere

_report: dict | None = None


def report(*, fresh: bool = False, limit: float = 60.0) -> dict:
    """Everything found, as plain data: report()["mpi"]["version"] is "5.0.2", or None where it was not found.

    Groups and keys: labkit.doctor.facts.FACTS. Beside them: "missing" (key -> sentence), "advice" (sentences on
    what will go wrong), "labs" (stem -> {"status", "sentence", "needs", "ranks", "minutes"}), "seconds" (that
    this took). The first call takes a few seconds, later ones in the same process return the same report;
    `fresh=True` looks again. `limit`: seconds after which a probe without an answer is given up.
    """
    global _report
    if _report is None or fresh:
        _report = _examine(limit)
    return _report


def needs(stem: str) -> tuple[str, str]:
    """("runs here" | "runs reduced" | "needs", a sentence) for one lab on this machine."""
    labs = report()["labs"]
    if stem not in labs:
        raise LabError(f"There is no lab {stem!r}. These exist: {', '.join(labs) or 'none yet'}.")
    return labs[stem]["status"], labs[stem]["sentence"]


def show() -> None:
    """The report as tables, in a notebook or on the terminal."""
    if world.is_root():
        show_report(report())


def require(names: str) -> None:
    """Raise NotHere that names what is missing of `names`, a comma list of needs as in a lab's header."""
    wanted = tuple(word.strip() for word in names.split(",") if word.strip())
    known = ("cpu", "mpi", "horovod", "torch", "tensorflow", "slurm", "gpu", "nccl")
    for word in wanted:
        if word not in known:
            raise LabError(f"--require knows {', '.join(known)}, but not {word!r}.")
    missing, reduced = fitness.lacking(labfile.Header(wanted, 1, 0), report())
    if missing or reduced:
        raise NotHere("Missing here: " + " ".join(missing + reduced))


def _examine(limit: float) -> dict:
    begin = time.perf_counter()
    found = facts.empty()
    started = machine.start()
    try:
        machine.machine(found)
        machine.network(found)
        machine.slurm(found)
        facts.put(found, "libraries.cuda_toolkit", machine.toolkit())
        doctor_findings.versions(found)
    finally:
        findings, reasons = machine.collect(started, limit)
    doctor_findings.fill(found, findings)
    found["missing"] = doctor_findings.missing(found, reasons)
    found["advice"] = doctor_findings.advice(found, reasons)
    found["labs"] = {}
    for stem, header in labfile.headers(paths.root()).items():
        status, sentence = fitness.judge(header, found)
        found["labs"][stem] = {"status": status, "sentence": sentence, **header._asdict()}
    found["seconds"] = round(time.perf_counter() - begin, 1)
    return found


def main(arguments: list[str] | None = None) -> int:
    """`python -m labkit doctor [--json] [--require mpi,horovod] [--limit SECONDS]`."""
    parser = argparse.ArgumentParser(
        prog="labkit doctor", description="What is here, and which lab runs here."
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument(
        "--require", default="", metavar="NEEDS", help="status 1 if one of mpi,horovod,… is missing"
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds to wait for a probe (default 60)")
    options = parser.parse_args(arguments)
    try:
        report(limit=options.limit)
        if options.json:
            print(json.dumps(report(), indent=2, ensure_ascii=False))
        else:
            show()
        require(options.require)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


# The doctor's report as tables: rich on a terminal and in a notebook, plain lines where rich is missing.


_COLORS = {fitness.RUNS: "green", fitness.REDUCED: "yellow", fitness.NEEDS: "red"}


def rows(report: dict) -> list[tuple[str, str, str, bool]]:
    """(group, label, value or "not found (for …)", found?) of every fact."""
    table = []
    for fact in facts.FACTS:
        value = facts.get(report, fact.key)
        text = report["missing"][fact.key] if value is None else words(value)
        table.append((facts.GROUPS[fact.key.split(".")[0]], fact.label, text, value is not None))
    return table


def words(value) -> str:
    """A value as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return (
            ", ".join(f"{name}={one}" for name, one in value.items())
            or "nothing; each library takes every core"
        )
    if isinstance(value, list):
        texts = [f"{one['name']}, {one['memory_gib']} GiB" if isinstance(one, dict) else one for one in value]
        counted = [
            f"{texts.count(one)} × {one}" if texts.count(one) > 1 else one for one in dict.fromkeys(texts)
        ]
        return ("\n" if any(len(one) > 12 for one in counted) else ", ").join(counted)
    return str(value)


def show_report(report: dict) -> None:
    """Print facts, advice and labs."""
    try:
        from rich.console import Console
    except ImportError:
        _plain(report)
        return
    console = Console(width=None if Console().is_terminal else 110)
    console.print(_fact_table(report))
    for sentence in report["advice"]:
        console.print("[bold yellow]![/] " + _escaped(sentence))
    if report["labs"]:
        console.print(_lab_table(report["labs"]))
    console.print(f"[dim]Found out in {report['seconds']} s.[/]")


def _fact_table(report: dict):
    from rich.table import Table

    table = Table(title="What is here", title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    last = ""
    for group, label, text, found in rows(report):
        if group != last:
            table.add_row(f"[bold cyan]{group}[/]")
        table.add_row(f"  {label}", _escaped(text) if found else f"[dim]{_escaped(text)}[/]")
        last = group
    return table


def show_labs(labs: dict[str, dict], title: str) -> None:
    """Print what runs: stem -> {"status", "sentence"}."""
    try:
        from rich.console import Console
    except ImportError:
        print(title)
        _plain_labs(labs)
        return
    Console(width=None if Console().is_terminal else 110).print(_lab_table(labs, title))


def _lab_table(labs: dict[str, dict], title: str = "What runs here"):
    from rich.table import Table

    table = Table(title=f"\n{title}", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("Lab", "", "How, or what it needs"):
        table.add_column(name, no_wrap=name != "How, or what it needs")
    for stem, lab in labs.items():
        color = _COLORS[lab["status"]]
        table.add_row(stem, f"[{color}]{lab['status']}[/]", _escaped(lab["sentence"]))
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _plain(report: dict) -> None:
    for group, label, text, _ in rows(report):
        print(f"{group:32} {label:26} {text}")
    for sentence in report["advice"]:
        print(f"! {sentence}")
    _plain_labs(report["labs"])


def _plain_labs(labs: dict[str, dict]) -> None:
    for stem, lab in labs.items():
        print(f"{stem:34} {lab['status']:13} {lab['sentence']}")
