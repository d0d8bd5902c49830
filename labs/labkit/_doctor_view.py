"""The doctor's report as tables: rich on a terminal and in a notebook, plain lines where rich is missing."""

from __future__ import annotations

from labkit import _facts, _fitness

_COLORS = {_fitness.RUNS: "green", _fitness.REDUCED: "yellow", _fitness.NEEDS: "red"}


def rows(report: dict) -> list[tuple[str, str, str, bool]]:
    """(group, label, value or "not found (for …)", found?) of every fact."""
    table = []
    for fact in _facts.FACTS:
        value = _facts.get(report, fact.key)
        text = report["missing"][fact.key] if value is None else words(value)
        table.append((_facts.GROUPS[fact.key.split(".")[0]], fact.label, text, value is not None))
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


def show(report: dict) -> None:
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
