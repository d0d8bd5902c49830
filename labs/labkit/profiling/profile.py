"""A recorded step, to read: the table of its parts, its operators, its picture, its trace for Perfetto."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labkit.errors import LabError
from labkit.plots import COLORS, FAINT, INK, done, new_figure, styled
from labkit.profiling import parts
from labkit.profiling import parts as profiling_parts
from labkit.profiling.spans import COMMUNICATION, Span
from labkit.timing import Measurement, Ratio, human, time_unit

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class RankTrace:
    """One rank's steps as (begin, end) and the spans of each, in seconds since rank 0's first step began."""

    rank: int
    host: str
    steps: list[tuple[float, float]]
    spans: list[list[Span]]

    def parts(self, step: int) -> dict[str, float]:
        """part -> seconds of one step."""
        return profiling_parts.parts(self.steps[step], self.busy(step))

    def busy(self, step: int) -> dict[str, list[tuple[float, float]]]:
        """kind -> when it is on, of one step."""
        return profiling_parts.busy(self.spans[step])


@dataclass(frozen=True)
class Profile:
    """What `profiling.record` saw.

    step: Measurement of the recorded steps, each as long as on its slowest rank.
    overhead: Ratio of the recorded steps to those without recording; None if that was not asked.
    clock_error: seconds by which the ranks' clocks may differ in here at most. notes: what to know besides.
    """

    ranks: list[RankTrace]
    step: Measurement
    overhead: Ratio | None
    clock_error: float
    kind: str = "spans"
    notes: list[str] = field(default_factory=list)

    @cached_property
    def middle(self) -> list[int]:
        """The middle half of the steps by their length (all, of fewer than 4), the median step first."""
        order = np.argsort(self.step.samples, kind="stable").tolist()
        cut = len(order) // 4
        kept = order[cut : len(order) - cut]
        return sorted(kept, key=lambda one: abs(order.index(one) - (len(order) - 1) / 2))

    def table(self) -> pandas.DataFrame:
        """By rank, seconds per step: compute, communication, overlapped, exposed, input, idle, step.

        The mean over the middle half of the steps: as robust as medians, and other than those the parts
        compute + exposed + input + idle sum to the step. A rank that is ready before the slowest is idle.
        """
        import pandas

        rows = {
            one.rank: pandas.DataFrame([one.parts(step) for step in self.middle]).mean() for one in self.ranks
        }
        return pandas.DataFrame(rows).T[list(profiling_parts.PARTS)].rename_axis("rank")

    def operators(self, most: int = 10) -> pandas.DataFrame:
        """What took longest: name, kind, library, calls and seconds per step, mean over ranks and `middle`.

        Seconds are those of the operation itself, without what it called. share: of the time of these steps;
        with several threads at work the shares may sum to more than 1.
        """
        import pandas

        total: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0, 0.0])
        for one in self.ranks:
            for span, seconds in (
                own for step in self.middle for own in profiling_parts.own(one.spans[step])
            ):
                entry = total[span.name or span.kind, span.kind, span.library]
                entry[0] += 1
                entry[1] += seconds
        runs = len(self.ranks) * len(self.middle)
        rows = [
            {"name": name, "kind": kind, "library": library, "calls": calls / runs, "seconds": seconds / runs}
            for (name, kind, library), (calls, seconds) in total.items()
        ]
        columns = ["name", "kind", "library", "calls", "seconds"]
        frame = pandas.DataFrame(rows, columns=columns).sort_values("seconds", ascending=False)
        whole = np.mean([self.step.samples[step] for step in self.middle])  # not the median: see `table`
        return frame.assign(share=frame["seconds"] / whole).head(most).reset_index(drop=True)

    def show(self, title: str = "Where the step time goes", *, step: int | None = None, name=None):
        """A picture of one step (the median one): for each rank a lane for each kind."""
        pass

        return draw(self, self.middle[0] if step is None else step, title, name)

    def save(self, path: str | Path = "trace.json") -> Path:
        """Write all ranks' steps as Chrome's trace events; `make trace FILE=…` opens it in Perfetto."""
        from labkit.profiling import trace

        return trace.save(self, path)

    def __str__(self) -> str:
        slowest = self.table().mean()
        shares = ", ".join(
            f"{part} {slowest[part] / slowest['step']:.0%}"
            for part in ("compute", "exposed", "input", "idle")
            if part != "exposed" or slowest[COMMUNICATION] > 0
        )
        cost = f"; recording: {self.overhead}" if self.overhead is not None else ""
        clocks = f"; clocks of the ranks within {human(self.clock_error)}" if len(self.ranks) > 1 else ""
        return f"step {self.step}: {shares}{cost}{clocks}"


# A profiled step as a picture: for each rank a lane for each kind of work, and what of it is exposed.


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
    moments = [parts.pieces(one.steps[step], one.busy(step)) for one in ranks]
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
