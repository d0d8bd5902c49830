"""Pictures of ranks and messages: rings, trees, a deadlock. Labs 20 to 26 draw their algorithms with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from labkit.errors import LabError
from labkit.plots.axes import done
from labkit.plots.style import COLORS, INK, new_figure, styled

# Lengths in these pictures are inches.
_RADIUS = 0.24
_APART = 1.05  # between neighbours
_MARGIN = 0.4  # from the outermost circle's middle to the edge
_LETTER = 0.085  # width of a letter of a label
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))


@styled
def messages(
    arrows: Iterable[tuple],
    ranks: int,
    *,
    layout: str = "circle",
    notes: Mapping[int, str] | None = None,
    title: str = "Messages",
    name: str | None = None,
):
    """Ranks as circles, messages as arrows.

    arrows: (source, destination), (source, destination, label) or (source, destination, label, step), steps
    from 0; arrows of one step share a color and a dash, and two that only swap ranks become one with two
    heads.
    layout: "circle", "line", or "tree" (binomial, rank 0 on top).
    notes: rank -> text beside it: what it holds, or what it waits for.
    """
    arrows = _swaps_joined([_whole(arrow, ranks) for arrow in arrows])
    notes = dict(notes or {})
    longest = max([len(label) for _, _, label, *_ in arrows], default=0)
    places = _places(ranks, layout) * (_APART if not longest else max(1.5, _LETTER * longest + 0.9))
    bends = [_bend(arrow, arrows, layout) for arrow in arrows]
    below, above = _reach(arrows, bends, places, layout)
    if below and longest:
        below += 0.25  # the labels stand between the arrows and the notes
    figure, axes = _canvas(places, (below, above), bool(notes or longest), title)
    steps = sorted({step for _, _, _, step, _ in arrows})
    for (source, destination, label, step, head), bend in zip(arrows, bends, strict=True):
        ends = places[source], places[destination]
        _arrow(axes, ends, places.mean(axis=0), label, steps.index(step), head, bend)
    for rank, place in enumerate(places):
        _circle(axes, rank, place)
        if rank in notes:
            out = place - places.mean(axis=0) if layout == "circle" else np.array([0.0, -1.0])
            _note(axes, place, out, max(_RADIUS, below) + 0.08, notes[rank])
    if len(steps) > 1:
        _step_legend(axes, steps)
    return done(figure, name or title)


@styled
def ring(ranks: int, *, label: str = "", notes=None, title: str = "Ring", name: str | None = None):
    """Every rank sends to its right neighbour, (rank + 1) mod ranks. label: for example "chunk {rank}"."""
    arrows = [(rank, (rank + 1) % ranks, label.format(rank=rank)) for rank in range(ranks) if ranks > 1]
    return messages(arrows, ranks, notes=notes, title=title, name=name)


@styled
def tree(ranks: int, *, title: str = "Binomial tree", name: str | None = None):
    """Binomial broadcast from rank 0: in step s (from 0) each rank below 2^s sends to the one 2^s above."""
    arrows = []
    for step in range((ranks - 1).bit_length()):
        arrows += [(rank, rank + 2**step, "", step) for rank in range(2**step) if rank + 2**step < ranks]
    return messages(arrows, ranks, layout="tree", title=title, name=name)


def _whole(arrow: tuple, ranks: int) -> tuple:
    source, destination, label, step = (*arrow, *("", 0)[len(arrow) - 2 :])
    if not (0 <= source < ranks and 0 <= destination < ranks and source != destination):
        raise LabError(
            f"A message from {source} to {destination} cannot be drawn: the ranks are 0 to {ranks - 1}."
        )
    return source, destination, label, step


def _swaps_joined(arrows: list[tuple]) -> list[tuple]:
    """Add the arrow's head: "-|>", or "<|-|>" for two unlabelled messages that swap ranks in one step."""
    left = dict.fromkeys(arrows)
    joined = []
    while left:
        arrow = source, destination, label, step = next(iter(left))
        del left[arrow]
        swap = not label and (destination, source, "", step) in left
        if swap:
            del left[destination, source, "", step]
        joined.append((*arrow, "<|-|>" if swap else "-|>"))
    return joined


def _places(ranks: int, layout: str) -> np.ndarray:
    """(ranks, 2) coordinates of the circles, neighbours one apart."""
    if layout == "line":
        return np.stack([np.arange(ranks), np.zeros(ranks)], axis=1)
    if layout == "tree":
        return _tree_places(ranks)
    if layout != "circle":
        raise LabError(f"A diagram's layout is circle, line or tree, not {layout!r}.")
    if ranks == 1:
        return np.zeros((1, 2))
    angle = np.pi / 2 - 2 * np.pi * np.arange(ranks) / ranks  # rank 0 on top, then clockwise
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) / (2 * np.sin(np.pi / ranks))


def _tree_places(ranks: int) -> np.ndarray:
    """A binomial tree: the parent of a rank is the rank without its highest bit."""
    places = np.zeros((ranks, 2))
    leaves = 0.0

    def settle(rank: int) -> float:
        nonlocal leaves
        bits = range(rank.bit_length(), ranks.bit_length())
        children = [rank + 2**bit for bit in bits if rank + 2**bit < ranks]
        if children:
            x = float(np.mean([settle(child) for child in children]))
        else:
            x, leaves = leaves, leaves + 0.8
        places[rank] = x, -float(bin(rank).count("1"))
        return x

    settle(0)
    return places


def _bend(arrow, arrows, layout) -> float:
    """Curvature: straight where nothing is in the way, bent where a message back or another rank would be."""
    source, destination, *_ = arrow
    back = any((b, a) == (source, destination) for a, b, *_ in arrows)
    if layout == "line":
        return 0.5 if back or abs(source - destination) > 1 else 0.0
    return 0.25 if back else 0.0


def _reach(arrows, bends, places, layout) -> tuple[float, float]:
    """How far bent arrows of a line go below it (those to the right) and above it (those to the left)."""
    if layout != "line":
        return 0.0, 0.0
    lengths = [places[b, 0] - places[a, 0] for a, b, *_ in arrows]
    heights = [0.5 * bend * length for bend, length in zip(bends, lengths, strict=True)]
    return max([*heights, 0.0]), max([-height for height in heights] + [0.0])


def _canvas(places, reach, crowded, title):
    """A figure of one inch to the data unit (less for many ranks), no axes; `show` cuts it to size."""
    low, high = places.min(axis=0) - _MARGIN, places.max(axis=0) + _MARGIN
    low[1], high[1] = min(low[1], -reach[0] - 0.3), max(high[1], reach[1] + 0.3)
    if crowded:
        high[1] += 0.25  # text above the uppermost rank keeps clear of the title
    width, height = (high - low) * min(1.0, *(np.array([9, 7]) / (high - low)))
    figure = new_figure(width, height, layout=None)
    figure.cut_to_content = True
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    axes.set_title(title)
    return figure, axes


def _arrow(axes, ends, middle, label, index, head, bend):
    from matplotlib.patches import FancyArrowPatch

    start, end = ends
    along = (end - start) / np.hypot(*(end - start))
    aside = np.array([along[1], -along[0]]) * bend * np.hypot(*(end - start))  # the control point of arc3
    control = (start + end) / 2 + aside
    clear = _RADIUS * 1.2
    begin = start + clear * (control - start) / np.hypot(*(control - start))
    finish = end + clear * (control - end) / np.hypot(*(control - end))
    # Cutting the ends off leaves a shorter chord; arc3 bends by the chord, so bend more to pass the same
    # apex.
    apex = (start + end) / 2 + aside / 2
    chord = np.hypot(*(finish - begin))
    offset = apex - (begin + finish) / 2
    rad = 2 * float(offset @ np.array([along[1], -along[0]])) / chord
    look = {"color": COLORS[index % len(COLORS)], "linewidth": 2, "linestyle": _DASHES[index % len(_DASHES)]}
    patch = FancyArrowPatch(
        begin,
        finish,
        arrowstyle=head,
        connectionstyle=f"arc3,rad={rad}",
        mutation_scale=15,
        zorder=2,
        clip_on=False,
        **look,
    )
    axes.add_patch(patch)
    if label:
        out = (
            aside
            if bend
            else np.array([-along[1], along[0]])
            * np.sign(np.array([-along[1], along[0]]) @ (apex - middle) or 1)
        )
        _text_beside(axes, apex + 0.08 * out / np.hypot(*out), out, label)


def _circle(axes, rank, place):
    from matplotlib.patches import Circle

    axes.add_patch(Circle(place, _RADIUS, facecolor="white", edgecolor=INK, linewidth=2, zorder=3))
    axes.text(*place, str(rank), ha="center", va="center", fontsize=12, fontweight="bold", zorder=4)


def _note(axes, place, out, away, text):
    out = out / np.hypot(*out) if np.hypot(*out) else np.array([0.0, -1.0])
    _text_beside(axes, place + away * out, out, text)


def _text_beside(axes, place, out, text):
    """Text that starts at `place` and grows in the direction `out`."""
    x, y = out / np.hypot(*out)
    side = "center" if abs(x) < 0.35 else ("left" if x > 0 else "right")
    level = "center" if abs(y) < 0.35 else ("bottom" if y > 0 else "top")
    axes.text(*place, text, ha=side, va=level, fontsize=10.5, zorder=5)


def _step_legend(axes, steps):
    from matplotlib.lines import Line2D

    looks = [(COLORS[i % len(COLORS)], _DASHES[i % len(_DASHES)]) for i in range(len(steps))]
    lines = [
        Line2D([], [], color=color, linestyle=dash, label=f"step {step + 1}")
        for step, (color, dash) in zip(steps, looks, strict=True)
    ]
    axes.legend(handles=lines, loc="center left", bbox_to_anchor=(1.0, 0.5))
