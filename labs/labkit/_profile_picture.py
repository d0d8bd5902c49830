"""A profiled step as a picture: for each rank a lane for each kind of work, and what of it is exposed."""

from __future__ import annotations

from labkit import _profile_parts
from labkit.axes import done
from labkit.errors import LabError
from labkit.measurement import time_unit
from labkit.style import COLORS, FAINT, INK, new_figure, styled

MOST = 8  # ranks; more cannot be read
_LOOKS = {  # part -> (words, lane, color, hatch)
    "compute": ("compute", "compute", COLORS[0], ""),
    "overlapped": ("communication under compute", "communication", COLORS[3], ""),
    "exposed": ("exposed communication", "communication", COLORS[4], "////"),
    "input": ("input wait", "input", COLORS[1], "...."),
    "idle": ("idle", "idle", "#e0e0e0", ""),
}


@styled
def draw(profile, step: int, title: str, name: str | None):
    """The lanes of `step`; of more than 8 ranks the first are shown. Returns the figure."""
    if not 0 <= step < len(profile.step.samples):
        raise LabError(f"profile.show: there is no step {step}; {len(profile.step.samples)} were recorded.")
    ranks = profile.ranks[:MOST]
    moments = [_profile_parts.pieces(one.steps[step], one.busy(step)) for one in ranks]
    shown = [part for part in _LOOKS if any(mine[part] for mine in moments)]
    kinds = list(dict.fromkeys(_LOOKS[part][1] for part in shown))
    zero = min(one.steps[step][0] for one in ranks)
    last = max(one.steps[step][1] for one in ranks) - zero
    unit, factor = time_unit(last)
    rows = len(ranks) * len(kinds)
    figure = new_figure(8.2, 1.6 + 0.28 * rows)
    axes = figure.subplots()
    axes.set(title=title, xlabel=f"time ({unit})", xlim=(0, last * factor * 1.01))
    for place, mine in enumerate(moments):
        for part in shown:
            row = place * len(kinds) + kinds.index(_LOOKS[part][1])
            _bars(axes, row, part, [(factor * (b - zero), factor * (e - b)) for b, e in mine[part]])
        if place:
            axes.axhline(place * len(kinds) - 0.5, color=FAINT, linewidth=0.8)
    axes.set_ylim(rows - 0.45, -0.55)
    names = [f"rank {one.rank} {kind}" if kind == kinds[0] else kind for one in ranks for kind in kinds]
    axes.set_yticks(range(rows), names if len(ranks) > 1 else kinds, fontsize=11 if rows <= 16 else 9)
    axes.grid(axis="y", visible=False)
    if len(ranks) < len(profile.ranks):
        axes.set_title(f"the first {len(ranks)} of {len(profile.ranks)} ranks", loc="right", fontsize=11)
    figure.legend(
        handles=[_patch(part) for part in shown], loc="outside lower center", ncols=min(3, len(shown))
    )
    return done(figure, name or title)


def _bars(axes, row: int, part: str, bars: list[tuple[float, float]]) -> None:
    _, _, color, hatch = _LOOKS[part]
    # A thin edge keeps one bar from the next; among very many the edges would hide the bars.
    edge = {
        "edgecolor": INK if hatch else "white",
        "linewidth": 0.5 if len(bars) <= 60 and part != "idle" else 0,
    }
    axes.broken_barh(bars, (row - 0.36, 0.72), facecolor=color, hatch=hatch, **edge)


def _patch(part: str):
    from matplotlib.patches import Patch

    words, _, color, hatch = _LOOKS[part]
    return Patch(facecolor=color, hatch=hatch, edgecolor=INK if hatch else FAINT, label=words)
