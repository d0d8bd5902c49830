"""A map of message sizes and ranks: which algorithm is best where. Labs 24 to 26."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle

import numpy as np

from labkit.errors import LabError
from labkit.plots.axes import byte_axis, byte_ticks, done, one_axes
from labkit.plots.style import COLORS, styled
from labkit.timing import quartiles


@styled
def crossover(times, *, title: str = "Who is fastest", ylabel: str = "ranks", names=None):
    """A field for every (bytes, ranks), with the color and the letter of the fastest algorithm
    there.

    times: algorithm -> {(bytes, ranks): seconds}. Where others are as fast, their letters follow:
    `Ra=Ri`. Of samples or a Measurement, as fast means that the middle halves of the runs overlap.
    names: all algorithms, in an order that gives each its color and letters; maps with the same
    agree.
    """
    candidates = list(names or times)
    colors = dict(zip(candidates, cycle(COLORS)))  # of all, so that two maps agree
    best = _fastest(times)
    equals = _equals(times, best)
    shown = {*best.values(), *(other for others in equals.values() for other in others)}
    winners = [name for name in candidates if name in shown]
    letters = letters_of(candidates if names else winners)
    sizes = sorted({size for size, _ in best})
    ranks = sorted({p for _, p in best})
    figure, axes = one_axes(title, "message size", ylabel, height=max(3.4, 1.6 + 0.42 * len(ranks)))
    axes.set(xscale="log", yscale="log")
    across = _edges(sizes)
    up = _edges(ranks)
    fontsize = 11 if len(sizes) <= 16 and len(ranks) <= 14 else 8 if len(sizes) <= 26 else 6
    for (size, p), winner in best.items():
        column = sizes.index(size)
        row = ranks.index(p)
        corners = across[column], up[row], across[column + 1], up[row + 1]
        text = "=".join(letters[name] for name in [winner, *equals.get((size, p), [])])
        _field(
            axes, corners, colors[winner], text, fontsize if len(text) <= 2 else min(fontsize, 8)
        )
    axes.set_xlim(across[0], across[-1])
    axes.set_ylim(up[0], up[-1])
    if sizes[-1] > 16 * sizes[0]:
        byte_axis(axes, sizes)
        if all(math.log2(n).is_integer() for n in sizes):
            byte_ticks(axes, sizes[:: -(-len(sizes) // 9)])
    else:
        axes.set_xticks(sizes, [f"{n:g} B" for n in sizes])
    axes.set_yticks(ranks, [f"{p:g}" for p in ranks])
    axes.minorticks_off()
    axes.set_xlim(across[0], across[-1])
    axes.grid(visible=False)
    _legend(figure, {name: colors[name] for name in winners}, letters)
    return done(figure, title)


def _fastest(times: Mapping[str, Mapping]) -> dict:
    """{(bytes, ranks): algorithm}."""
    if not times:
        raise LabError("There is nothing to map yet: no algorithm has times.")
    seconds: dict = {}
    for name, by_place in times.items():
        for place, time in by_place.items():
            seconds.setdefault(place, {})[name] = quartiles(time)[0]
    if any(size <= 0 for size, _ in seconds):
        raise LabError("The map's sizes are above 0, as its axis is logarithmic.")
    return {place: min(of_all, key=of_all.get) for place, of_all in seconds.items()}


def _equals(times: Mapping[str, Mapping], best: Mapping) -> dict:
    """{(bytes, ranks): the algorithms that are as fast as the fastest}, but for that one itself."""
    equals: dict = {}
    for place, winner in best.items():
        slowest_of_winner = quartiles(times[winner][place])[2]
        for name, by_place in times.items():
            fastest = quartiles(by_place[place])[1] if place in by_place else math.inf
            if name != winner and fastest <= slowest_of_winner * (1 + 1e-9):
                equals.setdefault(place, []).append(name)
    return equals


def letters_of(names: list[str]) -> dict[str, str]:
    """As many first letters of each name as tell it from the others: R, or Ra and Ri; else its
    number."""
    letters = {}
    for number, name in enumerate(names, start=1):
        others = [str(other).lower() for other in names if other != name]
        starts = [str(name)[:length] for length in (1, 2, 3)]
        telling = [
            start
            for start in starts
            if not any(other.startswith(start.lower()) for other in others)
        ]
        letters[name] = telling[0].capitalize() if telling else str(number)
    return letters


def _edges(values: list[float]) -> np.ndarray:
    """Borders of the fields on a logarithmic axis: halfway between neighbours."""
    if len(values) == 1:
        return np.array([values[0] / 2, values[0] * 2], dtype=float)
    logs = np.log(np.array(values, dtype=float))
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp([2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]])


def _field(axes, corners: tuple, color: str, letter: str, fontsize: int) -> None:
    from matplotlib.patches import Rectangle

    left, low, right, high = corners
    axes.add_patch(
        Rectangle(
            (left, low), right - left, high - low, facecolor=color, edgecolor="white", linewidth=0.8
        )
    )
    place = float(np.sqrt(left * right)), float(np.sqrt(low * high))
    axes.text(*place, letter, color=_ink_on(color), ha="center", va="center", fontsize=fontsize)


def _ink_on(color: str) -> str:
    """Black or white, whichever is read on that color."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else "black"


def _legend(figure, colors: dict[str, str], letters: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=color, label=f"{letters[name]}: {name}") for name, color in colors.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
