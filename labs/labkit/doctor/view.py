"""The doctor's report as tables, in a notebook or on the terminal."""

from __future__ import annotations

from labkit import world
from labkit.doctor import facts, findings, fitness

_COLORS = {fitness.RUNS: "green", fitness.REDUCED: "yellow", fitness.NEEDS: "red"}
_WIDTH = 110  # characters, where no terminal says


def show() -> None:
    """Print the report of this machine: facts, advice and labs."""
    if not world.is_root():
        return
    report = findings.report()
    console = _console()
    console.print(_fact_table(report))
    for sentence in report["advice"]:
        console.print("[bold yellow]![/] " + _escaped(sentence))
    console.print(_lab_table(report["labs"]))
    console.print(f"[dim]Found out in {report['seconds']} s.[/]")


def readable(value) -> str:
    """A value as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        settings = [f"{name}={setting}" for name, setting in value.items()]
        return ", ".join(settings) or "nothing; each library takes every core"
    if isinstance(value, list):
        texts = [_device(item) if isinstance(item, dict) else item for item in value]
        counted = []
        for text in dict.fromkeys(texts):
            count = texts.count(text)
            counted.append(f"{count} × {text}" if count > 1 else text)
        return ("\n" if any(len(text) > 12 for text in counted) else ", ").join(counted)
    return str(value)


def _device(device: dict) -> str:
    return f"{device['name']}, {device['memory_gib']} GiB"


def _console():
    from rich.console import Console

    return Console(width=None if Console().is_terminal else _WIDTH)


def _fact_table(report: dict):
    from rich.table import Table

    table = Table(
        title="What is here", title_justify="left", show_header=False, box=None, pad_edge=False
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    last = ""
    for fact in facts.FACTS:
        group = facts.GROUPS[fact.key.split(".")[0]]
        if group != last:
            table.add_row(f"[bold cyan]{group}[/]")
            last = group
        value = facts.get(report, fact.key)
        text = (
            f"[dim]{_escaped(report['missing'][fact.key])}[/]"
            if value is None
            else _escaped(readable(value))
        )
        table.add_row(f"  {fact.label}", text)
    return table


def show_labs(labs: dict[str, dict], title: str) -> None:
    """Print what runs: stem -> {"status", "sentence"}."""
    _console().print(_lab_table(labs, title))


def _lab_table(labs: dict[str, dict], title: str = "What runs here"):
    from rich.table import Table

    table = Table(
        title=f"\n{title}", title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for name in ("Lab", "", "How, or what it needs"):
        table.add_column(name, no_wrap=name != "How, or what it needs")
    for stem, lab in labs.items():
        color = _COLORS[lab["status"]]
        table.add_row(stem, f"[{color}]{lab['status']}[/]", _escaped(lab["sentence"]))
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
