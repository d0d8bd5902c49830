"""FACE of labkit.plots."""

from labkit.plots.axes import done, one_axes, plain_log, points
from labkit.plots.crossings import crossover
from labkit.plots.curves import bandwidth, bars, compare, efficiency, images, lines, loss, scaling, spread
from labkit.plots.diagrams import messages, ring
from labkit.plots.spans import lanes, timeline
from labkit.plots.style import COLORS, FAINT, INK, new_figure, show, styled

__all__ = [
    "COLORS",
    "FAINT",
    "INK",
    "bandwidth",
    "bars",
    "compare",
    "crossover",
    "done",
    "efficiency",
    "images",
    "lanes",
    "lines",
    "loss",
    "messages",
    "new_figure",
    "one_axes",
    "plain_log",
    "points",
    "ring",
    "scaling",
    "show",
    "spread",
    "styled",
    "timeline",
]
