"""One step of all ranks as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from labkit import plots

from support.lab53.work import Span

LOOKS = {
    "input": plots.Look("input", plots.COLORS[1], "...."),
    "compute": plots.Look("compute", plots.COLORS[0]),
    "exchange": plots.Look("in the exchange, waiting", "#e0e0e0", edge=0),
    "send": plots.Look("in the exchange, sending", plots.COLORS[4], "////"),
}


@plots.styled
def draw_step(spans: Sequence[Span], title: str):
    """A row for each rank, from the first one's begin on. Returns the figure."""
    zero = min(span.begin for span in spans)
    ranks = 1 + max(span.rank for span in spans)
    rows = []
    for rank in range(ranks):
        kinds = {
            kind: [
                (span.begin - zero, span.end - zero)
                for span in spans
                if span.rank == rank and span.kind == kind
            ]
            for kind in LOOKS
        }
        rows.append((str(rank), kinds))
    return plots.done(plots.draw_rows(rows, LOOKS, title=title, ylabel="rank"), title)
