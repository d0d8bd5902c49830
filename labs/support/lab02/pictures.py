"""The cost of training over the years, and what network cards allow, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labkit import plots

from support.lab02.published import Cost

_LEFT = {"VGG-16", "Neural translation"}  # these names stand left of their points, as others stand right
_LOWER = {"Seq2Seq"}


@plots.styled
def draw_costs(costs: Sequence[Cost], own: Mapping[str, float]):
    """Petaflop/s-days against the year, both published and one's own. Returns the figure.

    own: net's name -> petaflop/s-days that the learner counted; drawn as a ring around the published point.
    """
    figure, axes = plots.one_axes("Training costs more every year", "year", "petaflop/s-days", height=4.8)
    for counted, marker, label in ((True, "o", "operations counted"), (False, "s", "from GPUs and hours")):
        group = [cost for cost in costs if cost.counted == counted]
        axes.plot(
            [cost.year for cost in group],
            [cost.days for cost in group],
            linestyle="none",
            marker=marker,
            color=plots.COLORS[0 if counted else 1],
            label=f"published, {label}",
        )
    rings = [(cost.year, own[cost.net]) for cost in costs if cost.net in own]
    if rings:
        years, days = zip(*rings, strict=True)
        axes.plot(
            years,
            days,
            linestyle="none",
            marker="o",
            markersize=13,
            markerfacecolor="none",
            color=plots.INK,
            label="counted by you",
        )
    axes.set_yscale("log")
    plots.plain_log(axes.yaxis)
    for cost in costs:
        left = cost.net in _LEFT
        axes.annotate(
            cost.net,
            (cost.year, cost.days),
            xytext=(-12 if left else 10, -12 if cost.net in _LOWER else 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=9,
        )
    axes.set_xlim(2011.5, 2022)
    axes.legend(loc="upper left")
    return plots.done(figure, "training_costs")


@plots.styled
def draw_bounds(bounds: Mapping[str, Mapping[float, float]], reached: Mapping[str, tuple[float, float]]):
    """Percent of the ideal that is possible at best, against the speed of the cards. Returns the figure.

    bounds: net -> {Gb/s: percent}. reached: net -> (Gb/s, percent) that was published.
    """
    title = "What the cards allow at best, and what was reached"
    figure, axes = plots.one_axes(title, "Gb/s of a node's card", "% of the ideal")
    for index, (net, curve) in enumerate(bounds.items()):
        color = plots.COLORS[index]
        style = ("-", "--", ":")[index % 3]
        axes.plot(list(curve), list(curve.values()), style, color=color, label=f"{net}, at best")
        speed, percent = reached[net]
        marker = ("o", "s", "^")[index % 3]
        label = f"{net}, reached: {percent:.0f} %"
        axes.plot([speed], [percent], marker, color=color, markersize=9, label=label)
    axes.set_xscale("log")
    plots.plain_log(axes.xaxis)
    axes.set_ylim(0, 105)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.set_figwidth(1.25 * figure.get_figwidth())
    return plots.done(figure, "bounds")
