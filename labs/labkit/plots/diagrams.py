"""Ranks as circles and messages as arrows: rings and trees. Labs 21 and 23 draw their algorithms
so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from labkit.plots.axes import done
from labkit.plots.style import COLORS, INK, new_figure, styled

# Lengths in these pictures are inches.
RADIUS = 0.24
APART = 1.05  # between neighbours
MARGIN = 0.4  # from the outermost circle's middle to the edge
LETTER = 0.085  # width of a letter of a label
ASIDE = 0.08  # from the line between two ranks, where messages pass each other
LARGEST = (9, 7)  # width and height of a figure
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))


class Arrow(NamedTuple):
    """A message; both_ways: two ranks swap theirs."""

    source: int
    destination: int
    label: str = ""
    step: int = 0
    both_ways: bool = False


@styled
def messages(
    arrows: Iterable[tuple],
    ranks: int,
    *,
    layout: str = "circle",
    title: str = "Messages",
    name: str | None = None,
):
    """Ranks as circles, messages as arrows.

    arrows: (source, destination), (source, destination, label) or (source, destination, label,
    step), steps from 0; arrows of one step share a color and a dash, and two without labels that
    only swap ranks become one with two heads. layout: "circle", or "tree" (binomial, rank 0 on
    top).
    """
    arrows = _swaps_joined([Arrow(*arrow) for arrow in arrows])
    longest = max([len(arrow.label) for arrow in arrows], default=0)
    places = _places(ranks, layout) * (max(1.5, LETTER * longest + 0.9) if longest else APART)
    figure, axes = _canvas(places, title, room_above=0.25 if longest else 0.0)
    looks = _looks(sorted({arrow.step for arrow in arrows}))
    for arrow in arrows:
        passed = any(other[:2] == (arrow.destination, arrow.source) for other in arrows)
        _draw_arrow(axes, arrow, places, ASIDE if passed else 0.0, looks[arrow.step])
    for rank, place in enumerate(places):
        _draw_rank(axes, rank, place)
    if len(looks) > 1:
        _legend(axes, looks)
    return done(figure, name or title)


@styled
def ring(ranks: int, *, label: str = "", title: str = "Ring", name: str | None = None):
    """Every rank sends to its right neighbour, (rank + 1) mod ranks. label: for example "chunk
    {rank}"."""
    arrows = [
        (rank, (rank + 1) % ranks, label.format(rank=rank)) for rank in range(ranks) if ranks > 1
    ]
    return messages(arrows, ranks, title=title, name=name)


def _swaps_joined(arrows: list[Arrow]) -> list[Arrow]:
    """Each arrow once, and two messages without labels that swap ranks in one step as one."""
    left = dict.fromkeys(arrows)
    joined = []
    while left:
        arrow = next(iter(left))
        del left[arrow]
        back = Arrow(arrow.destination, arrow.source, step=arrow.step)
        swap = not arrow.label and back in left
        if swap:
            del left[back]
        joined.append(arrow._replace(both_ways=swap))
    return joined


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


def _canvas(places: np.ndarray, title: str, room_above: float):
    """A figure of one inch to the data unit (less for many ranks), no axes; `show` cuts it to
    size."""
    low = places.min(axis=0) - MARGIN
    high = places.max(axis=0) + MARGIN + [0, room_above]  # labels keep clear of the title
    width, height = (high - low) * min(1.0, *(LARGEST / (high - low)))
    figure = new_figure(width, height, layout=None)
    figure.cut_to_content = True
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    axes.set_title(title)
    return figure, axes


def _draw_arrow(axes, arrow: Arrow, places: np.ndarray, aside: float, look: dict) -> None:
    """aside: how far to the right, seen in the message's direction."""
    from matplotlib.patches import FancyArrowPatch

    start = places[arrow.source]
    end = places[arrow.destination]
    along = (end - start) / np.hypot(*(end - start))
    right = np.array([along[1], -along[0]])
    clear = 1.2 * RADIUS * along
    patch = FancyArrowPatch(
        start + clear + aside * right,
        end - clear + aside * right,
        arrowstyle="<|-|>" if arrow.both_ways else "-|>",
        mutation_scale=15,
        zorder=2,
        clip_on=False,
        linewidth=2,
        **look,
    )
    axes.add_patch(patch)
    if arrow.label:
        middle = (start + end) / 2
        inward = not aside and right @ (middle - places.mean(axis=0)) < 0
        outward = -right if inward else right
        _text_beside(axes, middle + (aside + 0.08) * outward, outward, arrow.label)


def _draw_rank(axes, rank: int, place: np.ndarray) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(place, RADIUS, facecolor="white", edgecolor=INK, linewidth=2, zorder=3))
    axes.text(*place, str(rank), ha="center", va="center", fontsize=12, fontweight="bold", zorder=4)


def _text_beside(axes, place: np.ndarray, outward: np.ndarray, text: str) -> None:
    """Text that starts at `place` and grows outward (a vector of length 1)."""
    x, y = outward
    side = "center" if abs(x) < 0.35 else ("left" if x > 0 else "right")
    level = "center" if abs(y) < 0.35 else ("bottom" if y > 0 else "top")
    axes.text(*place, text, ha=side, va=level, fontsize=10.5, zorder=5)


def _legend(axes, looks: dict[int, dict]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], label=f"step {step + 1}", **look) for step, look in looks.items()]
    axes.legend(handles=lines, loc="center left", bbox_to_anchor=(1.0, 0.5))
