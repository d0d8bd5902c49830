"""Ranks as circles and messages as arrows. Labs 21 and 24 draw their algorithms so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from labkit.errors import LabError
from labkit.plots.axes import done
from labkit.plots.style import COLORS, DASHES, INK, new_figure, styled

# Lengths in these pictures are inches.
RADIUS = 0.24
APART = 1.05  # between neighbours
MARGIN = 0.4  # from the outermost circle's middle to the edge
LARGEST = (9, 7)  # width and height of a figure

Arrow = tuple[int, int, int]  # source, destination, step


@styled
def messages(
    arrows: Iterable[Arrow],
    ranks: int,
    *,
    layout: str = "circle",
    title: str = "Messages",
):
    """Ranks as circles, messages as arrows.

    arrows: (source, destination, step), steps from 0. Arrows of one step share a color and a dash;
    two that swap become one with two heads. layout: "circle", or "tree" (binomial, rank 0 on top).
    """
    arrows = list(dict.fromkeys(arrows))
    places = _places(ranks, layout) * APART
    figure, axes = _canvas(places, title)
    looks = _looks(sorted({step for _, _, step in arrows}))
    for source, destination, step in arrows:
        if min(source, destination) < 0 or max(source, destination) >= ranks:
            raise LabError(
                f"There is no message from {source} to {destination}: {ranks} ranks go from 0 to"
                f" {ranks - 1}."
            )
        swap = (destination, source, step) in arrows
        if not swap or source < destination:
            style = "<|-|>" if swap else "-|>"
            _draw_arrow(axes, places[source], places[destination], style, looks[step])
    for rank, place in enumerate(places):
        _draw_rank(axes, rank, place)
    if len(looks) > 1:
        _legend(axes, looks)
    return done(figure, title)


def _looks(steps: Sequence[int]) -> dict[int, dict]:
    """step -> color and dash."""
    return {
        step: {"color": COLORS[index % len(COLORS)], "linestyle": DASHES[index % len(DASHES)]}
        for index, step in enumerate(steps)
    }


def _places(ranks: int, layout: str) -> np.ndarray:
    """(ranks, 2) coordinates of the circles, neighbours one apart."""
    if layout == "tree":
        return _tree_places(ranks)
    if ranks == 1:
        return np.zeros((1, 2))
    angle = np.pi / 2 - 2 * np.pi * np.arange(ranks) / ranks  # rank 0 on top, then clockwise
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) / (2 * np.sin(np.pi / ranks))


def _tree_places(ranks: int) -> np.ndarray:
    """A binomial tree: the parent of a rank is the rank without its highest bit."""
    places = np.zeros((ranks, 2))
    leaves = 0

    def place(rank: int) -> float:
        """Place a rank above the middle of its children, or beside the last leaf. Returns its x."""
        nonlocal leaves
        bits = range(rank.bit_length(), ranks.bit_length())
        children = [rank + 2**bit for bit in bits if rank + 2**bit < ranks]
        if children:
            x = float(np.mean([place(child) for child in children]))
        else:
            x = 0.8 * leaves
            leaves += 1
        places[rank] = x, -rank.bit_count()
        return x

    place(0)
    return places


def _canvas(places: np.ndarray, title: str):
    """A figure of one inch to the data unit (less for many ranks), no axes; `show` cuts it to
    size."""
    low = places.min(axis=0) - MARGIN
    high = places.max(axis=0) + MARGIN
    width, height = (high - low) * min(1.0, *(LARGEST / (high - low)))
    figure = new_figure(width, height, layout=None)
    figure.cut_to_content = True
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    axes.set_title(title)
    return figure, axes


def _draw_arrow(axes, start: np.ndarray, end: np.ndarray, style: str, look: dict) -> None:
    from matplotlib.patches import FancyArrowPatch

    clear = 1.2 * RADIUS * (end - start) / np.hypot(*(end - start))
    patch = FancyArrowPatch(
        start + clear,
        end - clear,
        arrowstyle=style,
        mutation_scale=15,
        zorder=2,
        clip_on=False,
        linewidth=2,
        **look,
    )
    axes.add_patch(patch)


def _draw_rank(axes, rank: int, place: np.ndarray) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(place, RADIUS, facecolor="white", edgecolor=INK, linewidth=2, zorder=3))
    axes.text(*place, str(rank), ha="center", va="center", fontsize=12, fontweight="bold", zorder=4)


def _legend(axes, looks: dict[int, dict]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], label=f"step {step + 1}", **look) for step, look in looks.items()]
    axes.legend(handles=lines, loc="center left", bbox_to_anchor=(1.0, 0.5))
