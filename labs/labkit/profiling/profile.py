"""A recorded step, to read: the table of its parts, its operators, its picture, its trace for
Perfetto."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labkit.plots import COLORS, Look, done, draw_rows
from labkit.profiling import parts, trace
from labkit.profiling.spans import COMMUNICATION, Span
from labkit.timing import Measurement, Ratio, human

if TYPE_CHECKING:
    import pandas

MOST = 8  # ranks in a picture; more cannot be read
LOOKS = {  # of the parts of a step
    "compute": Look("compute", COLORS[0]),
    "overlapped": Look("communication under compute", COLORS[3]),
    "exposed": Look("exposed communication", COLORS[4], "////"),
    "input": Look("input wait", COLORS[1], "...."),
    "idle": Look("idle", "#e0e0e0", edge=0),
}
LANES = {  # of a rank, and the parts in each
    "compute": ("compute",),
    "communication": ("overlapped", "exposed"),
    "input": ("input",),
    "idle": ("idle",),
}


@dataclass(frozen=True)
class RankTrace:
    """One rank's steps as (begin, end) and the spans of each, in seconds since rank 0's first step
    began."""

    rank: int
    host: str
    steps: list[tuple[float, float]]
    spans: list[list[Span]]

    def parts(self, step: int) -> dict[str, float]:
        """part -> seconds of one step."""
        return parts.parts(self.steps[step], self.busy(step))

    def pieces(self, step: int) -> dict[str, list[parts.Interval]]:
        """part -> its moments in one step."""
        return parts.pieces(self.steps[step], self.busy(step))

    def busy(self, step: int) -> dict[str, list[parts.Interval]]:
        """kind -> when it is on, of one step."""
        return parts.busy(self.spans[step])


@dataclass(frozen=True)
class Profile:
    """What `profiling.record` saw.

    step: Measurement of the recorded steps, each as long as on its slowest rank.
    overhead: Ratio of the recorded steps to those without recording; None if that was not asked.
    clock_error: seconds by which the ranks' clocks may differ in here at most.
    """

    ranks: list[RankTrace]
    step: Measurement
    overhead: Ratio | None
    clock_error: float

    @cached_property
    def middle(self) -> list[int]:
        """The middle half of the steps by their length (all, of fewer than 4), the median step
        first."""
        order = np.argsort(self.step.samples, kind="stable").tolist()
        cut = len(order) // 4
        kept = order[cut : len(order) - cut]
        return sorted(kept, key=lambda step: abs(order.index(step) - (len(order) - 1) / 2))

    def table(self) -> pandas.DataFrame:
        """By rank, seconds per step: compute, communication, overlapped, exposed, input, idle,
        step.

        The mean over the middle half of the steps: as robust as medians, and other than those the
        parts compute + exposed + input + idle sum to the step. A rank that is ready before the
        slowest is idle.
        """
        import pandas

        means = {
            rank.rank: pandas.DataFrame([rank.parts(step) for step in self.middle]).mean()
            for rank in self.ranks
        }
        return pandas.DataFrame(means).T[list(parts.PARTS)].rename_axis("rank")

    def operators(self, most: int = 10) -> pandas.DataFrame:
        """What took longest: name, kind, library, calls and seconds per step, mean over ranks and
        `middle`.

        Seconds are those of the operation itself, without what it called. share: of the time of
        these steps; with several threads at work the shares may sum to more than 1.
        """
        import pandas

        rows = []
        for rank in self.ranks:
            for step in self.middle:
                for span, seconds in parts.own(rank.spans[step]):
                    rows.append((span.name or span.kind, span.kind, span.library, seconds))
        calls = pandas.DataFrame(rows, columns=["name", "kind", "library", "seconds"])
        by_name = calls.groupby(["name", "kind", "library"], sort=False)["seconds"]
        frame = by_name.agg(calls="size", seconds="sum").reset_index()
        frame[["calls", "seconds"]] /= len(self.ranks) * len(self.middle)
        # No median: see `table`.
        mean_step = np.mean([self.step.samples[step] for step in self.middle])
        frame["share"] = frame["seconds"] / mean_step
        return frame.sort_values("seconds", ascending=False).head(most).reset_index(drop=True)

    def show(self, title: str = "Where the step time goes"):
        """A picture of the median step: for each of the first 8 ranks a lane for each kind."""
        step = self.middle[0]
        ranks = self.ranks[:MOST]
        zero = min(rank.steps[step][0] for rank in ranks)
        pieces = [_shifted(rank.pieces(step), zero) for rank in ranks]
        lanes = [
            lane
            for lane, of_lane in LANES.items()
            if any(each[part] for each in pieces for part in of_lane)
        ]
        rows = []
        for rank, of_rank in zip(ranks, pieces, strict=True):
            for lane in lanes:
                label = f"rank {rank.rank} {lane}" if lane == lanes[0] and len(ranks) > 1 else lane
                rows.append((label, {part: of_rank[part] for part in LANES[lane]}))
        note = (
            f"the first {len(ranks)} of {len(self.ranks)} ranks"
            if len(ranks) < len(self.ranks)
            else ""
        )
        return done(draw_rows(rows, LOOKS, title=title, note=note, group=len(lanes)), title)

    def save(self, path: str | Path = "trace.json") -> Path:
        """Write all ranks' steps as a trace; `make trace FILE=…` opens it in Perfetto."""
        return trace.save(self, path)

    def __str__(self) -> str:
        slowest = self.table().mean()
        shares = ", ".join(
            f"{part} {slowest[part] / slowest['step']:.0%}"
            for part in ("compute", "exposed", "input", "idle")
            if part != "exposed" or slowest[COMMUNICATION] > 0
        )
        cost = f"; recording: {self.overhead}" if self.overhead is not None else ""
        clocks = (
            f"; clocks of the ranks within {human(self.clock_error)}" if len(self.ranks) > 1 else ""
        )
        return f"step {self.step}: {shares}{cost}{clocks}"


def _shifted(
    pieces: dict[str, list[parts.Interval]], zero: float
) -> dict[str, list[parts.Interval]]:
    return {
        part: [(begin - zero, end - zero) for begin, end in moments]
        for part, moments in pieces.items()
    }
