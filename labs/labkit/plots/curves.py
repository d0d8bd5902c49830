"""Curves, bars and small pictures: times by ranks and bytes, losses, runs, predictions beside
measurements.

Every function draws, shows and returns a matplotlib figure. A value may be a number, several
samples or a timing.Measurement: then the point is the median and the bar the middle half of the
runs. `name`: of the PNG file that a script saves; the title's words if not given.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labkit.errors import LabError
from labkit.plots.axes import (
    byte_axis,
    byte_ticks,
    curves_of,
    done,
    gains,
    legend_in_order,
    models_of,
    one_axes,
    plain_log,
    points,
    rank_axis,
    sizes_of,
)
from labkit.plots.style import COLORS, DASHES, FAINT, HATCHES, INK, curve_style, new_figure, styled
from labkit.timing import digits, human, quartiles, samples_of, time_unit


@styled
def scaling(table, *, weak=False, fit=None, title="Speed-up"):
    """Speed-up against ranks, with the ideal line.

    table: ranks -> seconds, or curve's name -> such a dict, or a DataFrame with columns ranks and
    seconds. fit: a scaling.AmdahlFit, drawn dashed. weak: the work grew with the ranks. Ranks that
    reach far make both axes logarithmic.
    """
    figure, axes = one_axes(title, "ranks", "speed-up (times one rank)")
    curves = curves_of(table)
    most = max(p for times in curves.values() for p in times)
    axes.plot([1, most], [1, most], color=FAINT, linewidth=1.5, label="ideal")
    for index, (label, times) in enumerate(curves.items()):
        points(axes, gains(times, weak), label, index, joined=fit is None)
    if fit is not None:
        ranks = np.linspace(1, most, 100)
        text = f"Amdahl, serial share {fit.serial:.1%}"
        # Of the same time as the points, and not of the fitted one, or the law would pass them by.
        times = next(iter(curves.values()))
        fewest, first = next(iter(times.items()))
        law = fewest * quartiles(first)[0] / fit.time(ranks)
        axes.plot(ranks, law, color=INK, linestyle=DASHES[1], linewidth=1.5, label=text)
    rank_axis(axes, curves)
    if axes.get_xscale() == "log":
        axes.set_yscale("log", base=2)
        plain_log(axes.yaxis, base=2)
    else:
        axes.set_ylim(bottom=0)
    axes.legend(*legend_in_order(axes))
    return done(figure, title)


@styled
def efficiency(table, *, weak=False, title="Efficiency"):
    """Parallel efficiency in percent against ranks; arguments as in `scaling`."""
    figure, axes = one_axes(title, "ranks", "efficiency (%)")
    curves = curves_of(table)
    axes.axhline(100, color=FAINT, linewidth=1.5, label="ideal")
    top = 100.0
    for index, (label, times) in enumerate(curves.items()):
        percent = {
            ranks: [100 * gain / ranks for gain in gain_and_bars]
            for ranks, gain_and_bars in gains(times, weak).items()
        }
        top = max(top, *(high for _, _, high in percent.values()))
        points(axes, percent, label, index)
    rank_axis(axes, curves)
    axes.set_ylim(0, top * 1.08)
    axes.legend()
    return done(figure, title)


@styled
def bandwidth(
    table, *, model=None, factor=1.0, what="bandwidth", title="Time and bandwidth", name=None
):
    """Time and bandwidth against message size, all axes logarithmic.

    table: bytes -> seconds, or curve's name -> such a dict. model: a scaling.AlphaBetaFit or any
    function from bytes to seconds, or curve's name -> such; drawn as a line, and the measurements
    then as points alone. factor: bytes moved per byte of size, for example 2(p-1)/p for an
    allreduce. what: name of that bandwidth ("algbw", "busbw"), for the axis.
    """
    figure = new_figure(10.5, 4.2)
    left, right = figure.subplots(1, 2)
    models = models_of(model)
    sizes = sizes_of(table)
    for index, (label, times) in enumerate(curves_of(table, least=0).items()):
        microseconds = {}
        rates = {}
        for n, time in times.items():
            if n > 0:
                median, q1, q3 = quartiles(time)
                microseconds[n] = 1e6 * median, 1e6 * q1, 1e6 * q3
                rates[n] = [factor * n / seconds / 1e9 for seconds in (median, q3, q1)]
        points(left, microseconds, label, index, joined=not models)
        points(right, rates, label, index, joined=not models)
    for index, (label, predict) in enumerate(models.items()):
        seconds = np.array([float(getattr(predict, "time", predict)(n)) for n in sizes])
        line = {**curve_style(index), "marker": None, "linewidth": 1.5, "label": label}
        if len(models) == 1:
            line["color"] = INK
        left.plot(sizes, seconds * 1e6, **line)
        right.plot(sizes, factor * sizes / seconds / 1e9, **line)
    for axes, ylabel in ((left, "time (µs)"), (right, f"{what} (GB/s)")):
        axes.set(xscale="log", yscale="log", xlabel="message size (bytes)", ylabel=ylabel)
        byte_axis(axes, sizes)
        plain_log(axes.yaxis)
    left.legend(*legend_in_order(left))
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    return done(figure, name or title)


@styled
def lines(
    series,
    *,
    xlabel,
    ylabel,
    title,
    name=None,
    logx=False,
    logy=False,
    markers=None,
    xbytes=False,
    labels=None,
    from_zero=False,
):
    """Curves over x. series: name -> values (x = 0, 1, …), (x, y), or a dict x -> y (with error
    bars).

    xbytes: x of a dict are bytes, powers of two, and are written as such: 8 B, 2 KiB, 1 MiB.
    labels: name of a curve -> what stands beside each of its points, given as (x, y). from_zero:
    the y axis begins at 0.
    """
    figure, axes = one_axes(title, xlabel, ylabel)
    axes.set(xscale="log" if logx else "linear", yscale="log" if logy else "linear")
    ticks = []
    for index, (label, values) in enumerate(series.items()):
        if isinstance(values, Mapping):
            points(axes, {x: quartiles(y) for x, y in values.items()}, label, index)
            # Numbers that somebody chose, as sizes and ranks; measured ones have more digits.
            chosen = xbytes or all(float(f"{x:.4g}") == x for x in values)
            ticks = list(values) if len(values) <= 8 and chosen else []
            continue
        x, y = values if isinstance(values, tuple) else (np.arange(len(values)), values)
        style = curve_style(index)
        if not (len(x) <= 30 if markers is None else markers):
            style["marker"] = None
        axes.plot(x, y, label=label, **style)
        for place, words in zip(
            zip(x, y, strict=True), (labels or {}).get(label, ()), strict=False
        ):
            axes.annotate(words, place, (6, -13), textcoords="offset points", fontsize=10)
    if logx:
        plain_log(axes.xaxis)
    if logy:
        plain_log(axes.yaxis)
    if ticks and xbytes:
        axes.minorticks_off()
        byte_ticks(axes, ticks)
    elif ticks:
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    if from_zero:
        axes.set_ylim(bottom=0)
    if len(series) > 1:
        _legend(figure, axes, len(series))
    return done(figure, name or title)


def _legend(figure, axes, curves: int) -> None:
    """In a corner; of more than four curves beside them, as no corner is free of all, on a wider
    figure."""
    if curves <= 4:
        axes.legend()
        return
    figure.set_figwidth(1.3 * figure.get_figwidth())
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


@styled
def loss(curves, *, title="Training loss", xlabel="step", ylabel="loss", name=None):
    """Loss against step. curves: name -> losses in order. Where curves coincide, dashes show those
    below."""
    return lines(curves, xlabel=xlabel, ylabel=ylabel, title=title, name=name)


@styled
def images(pictures, labels=None, *, columns=8, title="Images"):
    """A grid of small pictures. pictures: (n, h, w) or (n, h, w, 3), or flat and square as
    data.load gives them: (n, side²), or (n, 3 side²) in colors, first all of the red.
    """
    pictures = np.asarray(pictures)
    if pictures.ndim == 2:
        pictures = _squares(pictures)
    rows = -(-len(pictures) // columns)
    figure = new_figure(1.0 * columns + 0.4, 1.25 * rows + 0.6)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for index, (axes, picture) in enumerate(zip(grid, pictures, strict=False)):
        axes.imshow(picture, cmap="gray_r", interpolation="nearest")
        label = "" if labels is None else labels[index]
        axes.set_title(str(label), loc="center", fontsize=11, pad=3, fontweight="normal")
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold")
    return done(figure, title)


def _squares(flat: np.ndarray) -> np.ndarray:
    """Flat pictures as (n, side, side), or those in colors as (n, side, side, 3)."""
    pixels = flat.shape[1]
    side = int(np.sqrt(pixels))
    if side * side == pixels:
        return flat.reshape(-1, side, side)
    side = int(np.sqrt(pixels // 3))
    if 3 * side * side != pixels:
        raise LabError(
            f"Pictures of {pixels} values are not square. Give (n, h, w), of one picture"
            " picture[None]."
        )
    return np.moveaxis(flat.reshape(-1, 3, side, side), 1, 3)


@styled
def spread(measurements, *, title="Every run", name=None, xlabel="time"):
    """Every run of each measurement as a dot, the middle half as a box, the median as a bar.

    measurements: name -> timing.Measurement or samples in seconds.
    """
    figure, axes = one_axes(title, xlabel, "", height=1.6 + 0.75 * len(measurements))
    samples = {label: samples_of(value) for label, value in measurements.items()}
    everything = np.concatenate(list(samples.values()))
    unit, factor = time_unit(np.median(everything))
    random = np.random.default_rng(0)
    for row, (label, values) in enumerate(samples.items()):
        values = values * factor
        style = curve_style(row)
        middle, low, high = quartiles(values)
        axes.barh(
            row,
            high - low,
            0.5,
            left=low,
            color=style["color"],
            alpha=0.25,
            edgecolor=style["color"],
        )
        axes.plot([middle, middle], [row - 0.3, row + 0.3], color=INK, linewidth=2.5)
        offsets = row + random.uniform(-0.18, 0.18, len(values))
        axes.plot(
            values,
            offsets,
            linestyle="",
            marker=style["marker"],
            color=style["color"],
            markersize=4.5,
        )
        steady = getattr(measurements[label], "steady", True)
        text = human(middle / factor) if steady else f"{human(middle / factor)} (not steady)"
        axes.annotate(text, (middle, row - 0.32), ha="center", va="bottom", fontsize=10.5)
    axes.set_yticks(range(len(samples)), list(samples))
    axes.set_ylim(len(samples) - 0.5, -0.75)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{xlabel} ({unit})")
    if everything.max() > 20 * everything.min() > 0:
        axes.set_xscale("log")
        axes.set_xlim(everything.min() * factor / 3, everything.max() * factor * 3)
        plain_log(axes.xaxis)
    else:
        axes.set_xlim(0, everything.max() * factor * 1.08)
    return done(figure, name or title)


@styled
def bars(parts, *, ylabel="time (ms)", title="Where the time goes", name=None):
    """Stacked bars, with the quartiles of a part at its upper end.

    parts: bar's name -> {part: value}, for example {"4 ranks": {"compute": 8.1, "communicate":
    2.0}}.
    """
    figure, axes = one_axes(title, "", ylabel)
    kinds = list(dict.fromkeys(kind for bar in parts.values() for kind in bar))
    bottom = np.zeros(len(parts))
    top = np.zeros(len(parts))
    for index, kind in enumerate(kinds):
        three = np.array([quartiles(bar.get(kind, 0.0)) for bar in parts.values()])
        style = {
            "color": COLORS[index % len(COLORS)],
            "hatch": HATCHES[index % len(HATCHES)],
            "edgecolor": "white",
        }
        axes.bar(range(len(parts)), three[:, 0], 0.6, bottom=bottom, label=kind, **style)
        for place in np.flatnonzero(np.ptp(three, axis=1)):
            middle, q1, q3 = three[place] + bottom[place]
            axes.errorbar(
                place, middle, yerr=[[middle - q1], [q3 - middle]], color=INK, linewidth=1.5
            )
        top = np.maximum(top, bottom + three.max(axis=1))
        bottom += three[:, 0]
    for place, total in enumerate(bottom):
        # Above the quartiles, which would cross it out.
        _number_at(axes, total, (place, top[place]), (0, 5), ha="center")
    axes.set_xticks(range(len(parts)), list(parts))
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.18)
    if len(kinds) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return done(figure, name or title)


@styled
def compare(
    predicted,
    measured,
    *,
    unit="",
    title="Predicted and measured",
    names=("predicted", "measured"),
    name=None,
):
    """Predictions beside measurements, in pairs of bars.

    predicted: what -> number; one that was not made (missing, None or ...) leaves its place empty.
    measured: what -> number, samples or Measurement. unit: for the axis. names: of the two, in the
    legend.
    """
    figure, axes = one_axes(title, unit, "", height=1.4 + 0.9 * len(measured))
    guess = np.array([_guess(predicted.get(key)) for key in measured])
    three = np.array([quartiles(value) for value in measured.values()])
    rows = np.arange(len(measured))
    axes.barh(
        rows - 0.2, guess, 0.36, label=names[0], color="white", edgecolor=COLORS[0], hatch="///"
    )
    axes.barh(rows + 0.2, three[:, 0], 0.36, label=names[1], color=COLORS[0], edgecolor=COLORS[0])
    for row, (middle, q1, q3) in enumerate(three):
        if q3 > q1:
            axes.errorbar(
                middle, row + 0.2, xerr=[[middle - q1], [q3 - middle]], color=INK, linewidth=1.5
            )
        _number_at(axes, middle, (q3, row + 0.2), (7, 0), va="center")
        if np.isfinite(guess[row]):
            _number_at(axes, guess[row], (guess[row], row - 0.2), (7, 0), va="center")
    axes.set_yticks(rows, list(measured))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    every = np.concatenate([guess[np.isfinite(guess)], three[:, 0]])
    axes.margins(x=0.15)
    if every.min() > 0 and every.max() > 50 * every.min():
        axes.set_xscale("log")
        plain_log(axes.xaxis)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return done(figure, name or title)


def _guess(value) -> float:
    return float("nan") if value is None or value is ... else float(value)


def _number_at(axes, value, place, offset, **align):
    axes.annotate(digits(value), place, offset, textcoords="offset points", fontsize=11, **align)
