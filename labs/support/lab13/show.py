"""Lab 13's picture: throughput by processes and threads."""

from __future__ import annotations

import numpy as np
from labkit import plots


@plots.styled
def heat_map(cells, *, cores: int, title="Threads × processes", unit="images/s", name=None):
    """Throughput of cells: (processes, threads) -> (median, q1, q3). Framed: those that use all `cores`."""
    rows = sorted({processes for processes, _ in cells})
    columns = sorted({threads for _, threads in cells})
    table = np.full((len(rows), len(columns)), np.nan)
    for (processes, threads), (median, _, _) in cells.items():
        table[rows.index(processes), columns.index(threads)] = median
    height = 1.9 + 0.85 * len(rows)
    figure, axes = plots.one_axes(title, "threads of each process", "processes", height=height)
    image = axes.imshow(table, cmap="cividis", vmin=0, aspect="auto", origin="lower")
    best = np.nanmax(table)
    size = 11 if len(columns) <= 4 else 7.5
    for (processes, threads), (median, q1, q3) in cells.items():
        x = columns.index(threads)
        y = rows.index(processes)
        mark = " (best)" if median == best else ""
        text = f"{_short(median)}{mark}\n{_short(q1)} to {_short(q3)}"
        ink = "black" if median > best / 2 else "white"
        axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=size)
        if processes * threads == cores:
            _frame(axes, x, y)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.grid(visible=False)
    figure.colorbar(image, label=f"{unit}: median, middle half")
    return plots.done(figure, name or title)


def _frame(axes, x: int, y: int) -> None:
    from matplotlib.patches import Rectangle

    edge = {"fill": False, "edgecolor": plots.COLORS[4], "linewidth": 3}
    axes.add_patch(Rectangle((x - 0.48, y - 0.47), 0.96, 0.94, **edge))


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
