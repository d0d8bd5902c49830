"""What several plots share: reading a table of times, points with error bars, axes of ranks and
bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labkit.errors import LabError
from labkit.plots.style import curve_style, new_figure, show
from labkit.scaling import ordered, speedup
from labkit.timing import quartiles


def one_axes(title, xlabel, ylabel, height=4.2):
    """A figure with one titled plot: (figure, axes)."""
    figure = new_figure(height=height)
    axes = figure.subplots()
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def done(figure, name):
    """Show the figure and give it back."""
    show(figure, name)
    return figure


def curves_of(table, least=1) -> dict:
    """curve's name -> ordered {ranks or bytes: time}, from any of the shapes a table comes in."""
    if hasattr(table, "columns"):
        table = {"measured": _from_frame(table)}
    if not table:
        raise LabError("There is nothing to plot yet: measure first.")
    if not all(isinstance(value, Mapping) for value in table.values()):
        table = {"measured": table}
    return {label: ordered(times, least) for label, times in table.items()}


def _from_frame(frame) -> dict:
    """ranks -> seconds from records; of several records of one number of ranks the latest
    counts."""
    missing = {"ranks", "seconds"} - set(frame.columns)
    if missing:
        raise LabError(f"The table has no column {' and no '.join(sorted(missing))} to plot.")
    times = {}
    for row in frame.to_dict("records"):
        middle = row["seconds"]
        low = row.get("seconds_q1", middle)
        high = row.get("seconds_q3", middle)
        if middle == middle:  # a missing number is not equal to itself
            # Five numbers whose median and quartiles are these.
            times[int(row["ranks"])] = (
                [low, low, middle, high, high] if low == low and high == high else middle
            )
    return times


def gains(times, weak) -> dict:
    """ranks -> (median, low, high) of the speed-up against the fewest ranks, taken to be
    efficient."""
    speedups = {}
    for ranks, gain in speedup(times, weak).items():
        middle, q1, q3 = quartiles(times[ranks])
        speedups[ranks] = (gain, gain * middle / q3, gain * middle / q1)
    return speedups


def points(axes, values, label, index, joined=True):
    """A curve of x -> (median, low, high) with error bars; not joined where a model's line runs
    through."""
    x = list(values)
    middle, low, high = np.array(list(values.values()), dtype=float).T
    error = [middle - low, high - middle] if np.any(high > low) else None
    style = curve_style(index)
    if not joined:
        style["linestyle"] = ""
    axes.errorbar(x, middle, yerr=error, label=label, markeredgecolor="white", **style)


def rank_axis(axes, curves):
    """Ticks where there are measurements; a logarithmic axis to base 2 when they reach far."""
    ranks = sorted({p for times in curves.values() for p in times})
    if far(ranks):
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    axes.set_xticks(ranks, [f"{p:g}" for p in ranks])


def far(ranks) -> bool:
    """True when ranks reach so far that a linear axis would crowd the small ones."""
    return max(ranks) > 16 * min(ranks)


def sizes_of(table) -> np.ndarray:
    """Every size above 0 in a table of times by bytes, filled up for a smooth model line."""
    sizes = [n for times in curves_of(table, least=0).values() for n in times if n > 0]
    if not sizes:
        raise LabError("There is nothing to plot: no message has a byte.")
    return np.geomspace(min(sizes), max(sizes), 100)


def models_of(model) -> dict:
    """name -> model, whether none, one or several were given."""
    if model is None:
        return {}
    return model if isinstance(model, Mapping) else {"model": model}


def byte_axis(axes, sizes):
    """Ticks at powers of two, written as people say them: 1 B, 1 KiB, 1 MiB."""
    first = int(np.floor(np.log2(sizes[0])))
    last = int(np.ceil(np.log2(sizes[-1])))
    step = max(1, int(np.ceil((last - first) / 6)))  # 7 of them at most: more would touch
    powers = range(first, last + 1, step)
    axes.minorticks_off()
    axes.set_xticks([2.0**power for power in powers], [_bytes(power) for power in powers])


def byte_ticks(axes, sizes):
    """A tick at every one of these sizes, which are powers of two; many of them in smaller
    letters."""
    labels = [_bytes(int(size).bit_length() - 1) for size in sizes]
    axes.set_xticks(sizes, labels, fontsize=10.5 if len(sizes) > 7 else None)


def _bytes(power: int) -> str:
    thousands = min(power // 10, 3)
    return f"{2 ** (power - 10 * thousands)} {('B', 'KiB', 'MiB', 'GiB')[thousands]}"


def plain_log(axis, base=10):
    """Numbers on a logarithmic axis as 0.1, 1, 10, and as powers only where zeros would be many to
    count."""
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter, NullLocator

    low, high = sorted(axis.get_view_interval())
    narrow = base == 10 and low > 0 and high / low < 30
    axis.set_major_locator(LogLocator(base=base, subs=(1, 2, 5) if narrow else (1,)))
    axis.set_minor_formatter(NullFormatter())
    if base == 10:
        # Infinite thresholds: a label at every tick that there is.
        axis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf)))
    else:
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())


def legend_in_order(axes) -> tuple[list, list]:
    """Handles and labels, the measured points before the lines of models."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: not hasattr(handles[i], "has_yerr"))
    return [handles[i] for i in order], [labels[i] for i in order]
