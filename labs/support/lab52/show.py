"""Lab 52's tables and its picture: predicted against published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from labkit import plots

from support.lab52.rows import Row

Steps = Callable[[Row], float]  # seconds of a step, as predicted
HARD = 0.75  # of the ideal: rows that reach less are hard to foretell
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def _percent(step: Steps, row: Row) -> float:
    """How many percent more images per second are predicted than were published."""
    return 100 * (row.step / step(row) - 1)


def print_systems(parts: Mapping[str, Sequence[Row]], step: Steps) -> None:
    """A line for each system: rows, median and worst error, and what "as fast as alone" would be off by.

    parts: what the rows were used for -> rows, as {"fitted": …, "unseen": …}; each part has a last line for
    all of it. Errors are percent of the published images per second.
    """
    print(f"{'':7}  {'system':25} {'rows':>4}  {'median':>7}  {'worst':>7}  {'ideal: median':>13}")
    for part, rows in parts.items():
        names = list(dict.fromkeys(row.system for row in rows))
        for name in names:
            _print_line(part, name, [row for row in rows if row.system == name], step)
        if len(names) > 1:
            _print_line(part, f"all {len(names)} systems", rows, step)


def _print_line(part: str, name: str, rows: Sequence[Row], step: Steps) -> None:
    errors = [_percent(step, row) for row in rows]
    ideal = [_percent(lambda row: row.alone, row) for row in rows]
    worst = max(errors, key=abs)
    print(
        f"{part:7}  {name:25} {len(rows):4}  {np.median(np.abs(errors)):5.1f} %  {worst:+5.0f} %"
        f"  {np.median(np.abs(ideal)):11.1f} %"
    )


def print_rows(rows: Sequence[Row], step: Steps) -> None:
    """A line for each row: images per second predicted; published, and the error, if somebody measured it."""
    longest = max(len(str(row)) for row in rows)
    print(f"{'':{longest}}  {'predicted':>10}  {'published':>10}  {'error':>6}")
    for row in rows:
        line = f"{row!s:{longest}}  {row.images(step(row)):10,.0f}"
        if row.step is not None:
            line += f"  {row.images(row.step):10,.0f}  {_percent(step, row):+4.0f} %"
        print(line)


def print_rivals(rows: Sequence[Row], rivals: Mapping[str, Steps]) -> None:
    """A line for each way to predict: median, nine in ten, and worst error; and the median of the hard rows.

    Nine of ten rows are off by no more than "nine in ten". Hard rows reach less than HARD of the ideal.
    """
    hard = [row for row in rows if row.alone < HARD * row.step]
    first = max(len(name) for name in rivals)
    print(f"{'':{first}}  {'median':>8}  {'nine in ten':>11}  {'worst':>9}  {len(hard):3} hard rows: median")
    for name, step in rivals.items():
        sizes = np.abs([_percent(step, row) for row in rows])
        median = np.median([abs(_percent(step, row)) for row in hard])
        print(
            f"{name:{first}}  {np.median(sizes):6.1f} %  {np.quantile(sizes, 0.9):9.0f} %  "
            f"{sizes.max():7.0f} %  {median:19.0f} %"
        )


@plots.styled
def draw(parts: Mapping[str, Sequence[Row]], step: Steps, title: str):
    """Predicted against published efficiency, both axes logarithmic. Returns the figure.

    The first part's points are hollow, those of the others filled. The grey band is 10 % to both sides.
    """
    figure, axes = plots.one_axes(title, "published: % of the ideal", "predicted: % of the ideal", height=5.4)
    figure.set_figwidth(9.5)
    ends = np.array([0.8, 115.0])
    axes.fill_between(ends, 0.9 * ends, 1.1 * ends, color=plots.FAINT, alpha=0.4, label="within 10 %")
    axes.plot(ends, ends, color=plots.INK, linewidth=1.2)
    systems = list(dict.fromkeys(row.system for rows in parts.values() for row in rows))
    for number, (part, rows) in enumerate(parts.items()):
        for place, name in enumerate(systems):
            own = [row for row in rows if row.system == name]
            if own:
                color = plots.COLORS[place % len(plots.COLORS)]
                axes.plot(
                    [100 * row.alone / row.step for row in own],
                    [100 * row.alone / step(row) for row in own],
                    linestyle="",
                    marker=MARKERS[place % len(MARKERS)],
                    markersize=7,
                    color=color,
                    markerfacecolor="none" if number == 0 else color,
                    label=f"{part}: {name}",
                )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        plots.plain_log(axis)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plots.done(figure, "predicted_and_published")
