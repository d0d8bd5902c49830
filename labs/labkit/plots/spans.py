"""Who or what is busy when: rows of spans over time. Ranks of a virtual run, parts of a machine,
steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from labkit.errors import LabError
from labkit.plots.axes import done
from labkit.plots.style import COLORS, FAINT, INK, new_figure, styled
from labkit.timing import time_unit

MOST = 32  # ranks; more cannot be read
CROWDED = (
    60  # spans of one kind in a row, among which edges as wide as elsewhere would hide the spans
)


class Look(NamedTuple):
    """How spans of one kind are drawn.

    label: in the legend; "" for none. low, high: edges within the row, which reaches from -0.5 to
    0.5, downwards. edge: width of the line that keeps one span from the next, in points.
    """

    label: str
    color: str
    hatch: str = ""
    low: float = -0.36
    high: float = 0.36
    edge: float = 0.5

    @property
    def edge_color(self) -> str:
        return INK if self.hatch else "white"


Interval = tuple[float, float]  # begin, end [s]
Row = tuple[str, Mapping[str, Sequence[Interval]]]  # its name, and kind -> spans

OF_RANKS = {
    "compute": Look("computes", COLORS[0], low=-0.42, high=0.14),
    "reduce": Look("adds up", COLORS[1], "////", low=-0.42, high=0.14),
    "wait": Look("waits", "#e8e8e8", low=-0.42, high=0.14, edge=0),
    "send": Look("its bytes leave", COLORS[4], low=0.2, high=0.4),
}


@styled
def timeline(run, *, title: str = "Who does what when", name: str | None = None):
    """What every rank of a run did: computes, adds up, waits; below that, when its bytes leave.

    run: from cluster.run(fn, …, trace=True). Of more than 32 ranks, the busiest are shown.
    """
    by_rank = run.spans()
    if not run.time > 0:
        raise LabError("Nothing to draw: no virtual time passed in this run.")
    ranks = _busiest(by_rank)
    rows = [
        (str(rank), {kind: _joined(by_rank[rank], kind) for kind in OF_RANKS}) for rank in ranks
    ]
    note = f"the {len(ranks)} busiest of {run.ranks} ranks" if len(ranks) < run.ranks else ""
    figure = draw_rows(rows, OF_RANKS, title=title, xlabel="virtual time", ylabel="rank", note=note)
    return done(figure, name or title)


@styled
def lanes(rows: Mapping[str, Sequence[Interval]], *, title: str = "What is busy when"):
    """Which part of a machine is busy when, a row each (labs 15, 27, 32).

    rows: name -> [(begin, end)] in seconds.
    """
    looks = {str(place): Look("", COLORS[place]) for place in range(3)}
    colored = [
        (label, {str(place % 3): spans}) for place, (label, spans) in enumerate(rows.items())
    ]
    return done(draw_rows(colored, looks, title=title), title)


@styled
def draw_rows(
    rows: Sequence[Row],
    looks: Mapping[str, Look],
    *,
    title: str,
    xlabel: str = "time",
    ylabel: str = "",
    note: str = "",
    group: int = 0,
):
    """A figure of rows of spans, the first row on top, not yet shown.

    looks: of every kind that there may be; those that are there stand in the legend, in that order.
    note: at the upper right. group: after so many rows comes a line.
    """
    last = max(
        (end for _, kinds in rows for spans in kinds.values() for _, end in spans), default=0
    )
    if not last > 0:
        raise LabError("Nothing to draw: no time passed.")
    unit, factor = time_unit(last)
    shown = [
        look
        for kind, look in looks.items()
        if look.label and any(kinds.get(kind) for _, kinds in rows)
    ]
    figure = new_figure(8.2, max(2.1, 1.3 + 0.3 * len(rows) + 0.25 * bool(shown)))
    axes = figure.subplots()
    axes.set(
        title=title, xlabel=f"{xlabel} ({unit})", ylabel=ylabel, xlim=(0, last * factor * 1.01)
    )
    for place, (_, kinds) in enumerate(rows):
        for kind, spans in kinds.items():
            _draw(
                axes, place, looks[kind], [(begin * factor, end * factor) for begin, end in spans]
            )
        if group and place and place % group == 0:
            axes.axhline(place - 0.5, color=FAINT, linewidth=0.8)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_yticks(
        range(len(rows)), [label for label, _ in rows], fontsize=11 if len(rows) <= 16 else 9
    )
    axes.grid(axis="y", visible=False)
    if note:
        axes.set_title(note, loc="right", fontsize=11)
    if shown:
        _legend(figure, shown)
    return figure


def _draw(axes, place: int, look: Look, spans: Sequence[Interval]) -> None:
    if not spans:
        return
    axes.broken_barh(
        [(begin, end - begin) for begin, end in spans],
        (place + look.low, look.high - look.low),
        facecolor=look.color,
        hatch=look.hatch,
        edgecolor=look.edge_color,
        linewidth=look.edge if len(spans) <= CROWDED else look.edge / 5,
    )


def _legend(figure, looks: Sequence[Look]) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(
            facecolor=look.color,
            hatch=look.hatch,
            edgecolor=INK if look.hatch else FAINT,
            label=look.label,
        )
        for look in looks
    ]
    letters = sum(len(look.label) for look in looks)
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(looks) if letters < 60 else 3
    )


def _busiest(by_rank: list[list]) -> list[int]:
    """The ranks to show, in order: all, or those that compute, add up and send for the longest."""
    ranks = range(len(by_rank))
    if len(by_rank) <= MOST:
        return list(ranks)
    busy = [
        sum(span.end - span.start for span in spans if span.kind != "wait") for spans in by_rank
    ]
    return sorted(sorted(ranks, key=lambda rank: (-busy[rank], rank))[:MOST])


def _joined(spans: list, kind: str) -> list[Interval]:
    """Those of one kind; waits that follow on each other are drawn as one."""
    intervals: list[Interval] = []
    for span in spans:
        if span.kind != kind:
            continue
        if kind == "wait" and intervals and span.start <= intervals[-1][1]:
            intervals[-1] = intervals[-1][0], span.end
        else:
            intervals.append((span.start, span.end))
    return intervals
