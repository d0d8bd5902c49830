"""Threads, cores and ranks: lab 13's tools. On which cores threads may run, and what that does to a step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from labkit import plots

from support.lab13.checks import (
    expect_amdahl,
    expect_bind,
    expect_bound,
    expect_cores,
    expect_splits,
    expect_step,
)
from support.lab13.ranks import grid, masks, move, place, policies, threads, usable, ways

__all__ = ["describe", "grid", "heat_map", "masks", "move", "place", "policies", "threads"]
__all__ += [
    "usable",
    "ways",
    "expect_amdahl",
    "expect_bind",
    "expect_bound",
    "expect_cores",
    "expect_splits",
    "expect_step",
]

_NODES = Path("/sys/devices/system/node")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def describe() -> str:
    """The cores that this process may use, by NUMA node, and whether some are two threads of one core."""
    mine, lines = usable(), []
    for node in sorted(_NODES.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        here = [core for core in _numbers((node / "cpulist").read_text()) if core in mine]
        if here:
            lines.append(f"NUMA node {node.name[4:]}: {_ranges(here)}")
    if not lines:
        lines = [f"{_ranges(mine)} (this system tells no NUMA nodes)"]
    pairs = {tuple(_numbers(Path(_SIBLINGS.format(core)).read_text())) for core in mine if _tells(core)}
    twice = [pair for pair in sorted(pairs) if len(set(pair) & set(mine)) > 1]
    more = f" Hardware threads of one core: {', '.join(map(_ranges, twice[:2]))} …" if twice else ""
    return f"{len(mine)} usable: {'; '.join(lines)}.{more}"


def _tells(core: int) -> bool:
    return Path(_SIBLINGS.format(core)).exists()


def _numbers(text: str) -> list[int]:
    """Linux's lists: "0-3,8" is 0 1 2 3 8."""
    ends = [part.split("-") for part in text.strip().split(",") if part]
    return [number for pair in ends for number in range(int(pair[0]), int(pair[-1]) + 1)]


def _ranges(numbers: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if part[1:] else str(part[0]) for part in parts)


@plots.styled
def heat_map(cells, *, cores: int, title="Threads × processes", unit="images/s", name=None):
    """Throughput of cells: (processes, threads) -> (median, q1, q3). Framed: those that use all `cores`."""
    rows, columns = (sorted({cell[axis] for cell in cells}) for axis in (0, 1))
    table = np.full((len(rows), len(columns)), np.nan)
    for (processes, count), (middle, _, _) in cells.items():
        table[rows.index(processes), columns.index(count)] = middle
    figure, plot = plots.one_axes(
        title, "threads of each process", "processes", height=1.9 + 0.85 * len(rows)
    )
    image = plot.imshow(table, cmap="cividis", vmin=0, aspect="auto", origin="lower")
    middle_color, size = np.nanmax(table) / 2, 11 if len(columns) <= 4 else 7.5
    for (processes, count), (middle, q1, q3) in cells.items():
        x, y = columns.index(count), rows.index(processes)
        best = " (best)" if middle == np.nanmax(table) else ""
        text = f"{_short(middle)}{best}\n{_short(q1)} to {_short(q3)}"
        ink = "black" if middle > middle_color else "white"
        plot.text(x, y, text, ha="center", va="center", color=ink, fontsize=size)
        if processes * count == cores:
            frame = {"fill": False, "edgecolor": plots.COLORS[4], "linewidth": 3}
            plot.add_patch(_rectangle((x - 0.48, y - 0.47), 0.96, 0.94, **frame))
    plot.set_xticks(range(len(columns)), columns)
    plot.set_yticks(range(len(rows)), rows)
    plot.grid(visible=False)
    figure.colorbar(image, label=f"{unit}: median, middle half")
    return plots.done(figure, name or title)


def _rectangle(*where, **look):
    from matplotlib.patches import Rectangle

    return Rectangle(*where, **look)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
