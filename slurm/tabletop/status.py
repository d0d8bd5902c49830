"""One screen: the nodes of a cluster, their links, and its jobs."""

from __future__ import annotations

from slurm.tabletop import config
from slurm.tabletop.settings import spell_rate
from slurm.tabletop.table import Tabletop, also_name

QUEUE = "%.8i %.20j %.11T %.10M %.6D %R"  # number, name, state, time, nodes, where or why not


def links(table: Tabletop) -> dict[int, int | None]:
    """Each node's link [bit/s] as it is held now; None for a node that failed."""
    script = 'for f in *.rate; do echo "$f $(<"$f") $([[ -e ${f%.rate}.pid ]]; echo $?)"; done'
    rates: dict[int, int | None] = {}
    for line in table.inside(
        ["bash", "-c", f"cd {config.RUN}/nodes; {script}"]
    ).stdout.splitlines():
        name, rate, gone = line.split()
        node = int(name.removeprefix("node").removesuffix(".rate"))
        rates[node] = None if gone == "1" else int(rate)
    return rates


def _link(table: Tabletop, node: int, rate: int | None) -> str:
    if rate is None:
        return f"unplugged   (make tabletop-heal NODE={node}{also_name(table.name)})"
    slowed = rate != table.settings.rate
    return spell_rate(rate) + (
        f"   slowed from {spell_rate(table.settings.rate)}" if slowed else ""
    )


def screen(table: Tabletop) -> str:
    """The text that `make tabletop-status` shows."""
    lines = table.run(["sinfo", "-h", "-N", "-o", "%N %T"]).stdout.splitlines()
    states = dict(line.split() for line in lines)
    lines = [
        f"Tabletop cluster '{table.name}': {table.settings}",
        f"To use it: source {table.state}/env.sh",
        "",
        f"{'node':<8} {'state':<12} {'address':<12} link, each way",
    ]
    for node, rate in sorted(links(table).items()):
        state = states.get(f"node{node}", "unknown")
        lines.append(
            f"{f'node{node}':<8} {state:<12} {config.address(node):<12} {_link(table, node, rate)}"
        )
    queue = table.run(["squeue", "-o", QUEUE]).stdout.rstrip()
    lines += ["", queue if "\n" in queue else "No job runs or waits."]
    return "\n".join(lines)
