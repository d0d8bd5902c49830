"""Plans of a pipeline, drawn."""

from __future__ import annotations

from collections.abc import Mapping

from labkit import plots

from support.lab63.plans import Played


@plots.styled
def draw(
    played: Mapping[str, Played],
    *,
    unit: str = "time (1 = one way forward)",
    name: str = "plans",
    idle: bool = True,
):
    """Pictures one above the other, a row for each rank, on one axis of time. Returns the figure.

    played: title -> what play, or sleep_through of all ranks, gave. The number in a box is its micro-batch.
    idle: whether titles say which share of the time is idle.
    """
    longest = max(result.time for result in played.values())
    rows = sum(len(result.spans) for result in played.values())
    figure = plots.new_figure(9.0, 0.9 * len(played) + 0.36 * rows + 0.4)
    heights = [len(result.spans) for result in played.values()]
    panels = figure.subplots(len(played), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, result) in zip(panels, played.items(), strict=True):
        shown = f"{title}: {100 * result.idle:.0f} % idle" if idle else title
        axes.set_title(shown, loc="left", fontsize=11)
        for rank, spans in enumerate(result.spans):
            for span in spans:
                back = span.kind == "B"
                axes.barh(
                    rank,
                    span.end - span.begin,
                    left=span.begin,
                    height=0.8,
                    color=plots.COLORS[1] if back else plots.COLORS[0],
                    hatch="//" if back else "",
                    alpha=1.0 if span.piece % 2 == 0 else 0.55,
                    edgecolor="white",
                )
                if span.end - span.begin > longest / 90:
                    middle = (span.begin + span.end) / 2
                    color = plots.INK if back or span.piece % 2 else "white"
                    axes.text(
                        middle, rank, str(span.micro), ha="center", va="center", fontsize=8, color=color
                    )
        axes.set_yticks(range(len(result.spans)))
        axes.invert_yaxis()
        axes.set_ylabel("rank")
        axes.grid(visible=False)
        axes.set_xlim(0, 1.01 * longest)
    pieces = any(span.piece for result in played.values() for spans in result.spans for span in spans)
    paler = "; paler: the second piece" if pieces else ""
    panels[-1].set_xlabel(f"{unit}; plain boxes forwards, hatched ones back{paler}")
    return plots.done(figure, name)
