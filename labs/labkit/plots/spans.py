"""A run of the virtual cluster as a picture: one row a rank, what it did when."""

from __future__ import annotations

from labkit.errors import LabError
from labkit.plots.axes import done
from labkit.plots.style import COLORS, FAINT, INK, new_figure, styled
from labkit.timing import time_unit

MOST = 32  # rows; more cannot be read
# kind -> (words, color, hatch, lowest and highest edge within the row)
_LOOKS = {
    "compute": ("computes", COLORS[0], "", (-0.42, 0.14)),
    "reduce": ("adds up", COLORS[1], "////", (-0.42, 0.14)),
    "wait": ("waits", "#e8e8e8", "", (-0.42, 0.14)),
    "send": ("its bytes leave", COLORS[4], "", (0.2, 0.4)),
}


@styled
def timeline(run, *, title: str = "Who does what when", name: str | None = None):
    """What every rank of a run did: computes, adds up, waits; below that, when its bytes leave.

    run: from cluster.run(fn, …, trace=True). Of more than 32 ranks, the busiest are shown.
    """
    from labkit import virtual

    rows = virtual.spans(run)
    if not run.time > 0:
        raise LabError("Nothing to draw: no virtual time passed in this run.")
    ranks = _busiest(rows)
    unit, factor = time_unit(run.time)
    figure = new_figure(8.2, 1.5 + 0.3 * len(ranks) + 0.5 * (len(ranks) < 4))
    axes = figure.subplots()
    axes.set(title=title, xlabel=f"virtual time ({unit})", ylabel="rank")
    kinds = [kind for kind in _LOOKS if any(span.kind == kind for rank in ranks for span in rows[rank])]
    for row, rank in enumerate(ranks):
        for kind in kinds:
            _draw(axes, row, kind, _joined(rows[rank], kind), factor)
    axes.set_xlim(0, run.time * factor * 1.01)
    axes.set_ylim(len(ranks) - 0.45, -0.55)
    axes.set_yticks(range(len(ranks)), [str(rank) for rank in ranks], fontsize=11 if len(ranks) <= 16 else 9)
    axes.grid(axis="y", visible=False)
    if len(ranks) < run.ranks:
        axes.set_title(f"the {len(ranks)} busiest of {run.ranks} ranks", loc="right", fontsize=11)
    handles = [_patch(kind) for kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(kinds))
    return done(figure, name or title)


@styled
def lanes(rows, *, title: str = "What is busy when", name: str | None = None):
    """Which part of a machine is busy when, a row each (lab 27). rows: name -> [(start, end)] in seconds."""
    last = max((end for spans in rows.values() for _, end in spans), default=0)
    if not last > 0:
        raise LabError("Nothing to draw: no time passed.")
    unit, factor = time_unit(last)
    figure = new_figure(8.2, 1.3 + 0.36 * len(rows))
    axes = figure.subplots()
    axes.set(title=title, xlabel=f"time ({unit})", xlim=(0, last * factor * 1.01))
    for row, spans in enumerate(rows.values()):
        bars = [(start * factor, (end - start) * factor) for start, end in spans]
        axes.broken_barh(bars, (row - 0.35, 0.7), facecolor=COLORS[row % 3], edgecolor="white", linewidth=0.8)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=11)
    axes.grid(axis="y", visible=False)
    return done(figure, name or title)


def _busiest(rows: list[list]) -> list[int]:
    """The ranks to show, in order: all, or those that compute, add up and send for the longest."""
    if len(rows) <= MOST:
        return list(range(len(rows)))
    busy = [sum(span.end - span.start for span in mine if span.kind != "wait") for mine in rows]
    return sorted(sorted(range(len(rows)), key=lambda rank: (-busy[rank], rank))[:MOST])


def _joined(spans: list, kind: str) -> list[tuple[float, float]]:
    """(start, end) of one kind; waits that follow on each other are drawn as one."""
    found: list[list] = []
    for span in spans:
        if span.kind == kind:
            if kind == "wait" and found and span.start <= found[-1][1]:
                found[-1][1] = span.end
            else:
                found.append([span.start, span.end])
    return [(start, end) for start, end in found]


def _draw(axes, row: int, kind: str, spans: list[tuple[float, float]], factor: float) -> None:
    if not spans:
        return
    _, color, hatch, (low, high) = _LOOKS[kind]
    bars = [(start * factor, (end - start) * factor) for start, end in spans]
    # A thin edge keeps one message from the next; among very many the edges would hide the bars.
    width = 0 if kind == "wait" else 0.5 if len(bars) <= 60 else 0.1
    edge = "white" if kind != "reduce" else INK
    style = {"facecolor": color, "hatch": hatch, "edgecolor": edge, "linewidth": width}
    axes.broken_barh(bars, (row + low, high - low), **style)


def _patch(kind: str):
    from matplotlib.patches import Patch

    words, color, hatch, _ = _LOOKS[kind]
    return Patch(facecolor=color, hatch=hatch, edgecolor=INK if kind == "reduce" else FAINT, label=words)
