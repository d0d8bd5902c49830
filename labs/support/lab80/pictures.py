"""Tables and plots of a study, for its page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable

from labkit import plots
from labkit.timing import quartiles

from support.lab80.figures import Figure
from support.lab80.records import Study

_HEADS = {
    "time": "time of a step",
    "speedup": "speed-up",
    "predicted_efficiency": "efficiency, predicted",
    "reference_efficiency": "efficiency, reference",
    "joules": "energy of a step",
    "joules_image": "energy",
    "node_hours": "an epoch",
    "rate": "rate",
}
_COLUMNS = {
    "table_strong": ("time", "speedup", "efficiency", "predicted_efficiency", "reference_efficiency"),
    "table_weak": ("time", "rate", "efficiency", "predicted_efficiency", "reference_efficiency"),
    "table_parts": ("compute", "wait", "communicate"),
    "table_cost": ("nodes", "node_hours", "joules", "joules_image"),
}


def block(name: str, study: Study, figures: dict[str, Figure], shown: Callable[[Figure], str]) -> str:
    """HTML of a block by its name. shown: HTML of a figure, with its link to where it comes from."""
    if name.startswith("table_"):
        kinds = (
            [name.removeprefix("table_")] if name in ("table_strong", "table_weak") else ["strong", "weak"]
        )
        return "".join(_table(kind, _COLUMNS[name], study, figures, shown) for kind in kinds)
    return plots.styled(_PLOTS[name])(study)


def _table(kind: str, columns: tuple[str, ...], study: Study, figures, shown) -> str:
    """A row for each number of ranks; a column that no record fills is left out."""
    rows = study.ranks(kind)
    filled = [column for column in columns if any(f"{column}_{kind}_{ranks}" in figures for ranks in rows)]
    head = "".join(f"<th>{html.escape(_HEADS.get(column, column))}</th>" for column in filled)
    lines = [f"<tr><th>{kind}, ranks</th>{head}</tr>"]
    for ranks in rows:
        cells = [figures.get(f"{column}_{kind}_{ranks}") for column in filled]
        texts = "".join(f"<td>{shown(figure) if figure else ''}</td>" for figure in cells)
        lines.append(f"<tr><td>{ranks}</td>{texts}</tr>")
    return f'<table class="numbers">{"".join(lines)}</table>'


def _plot_strong(study: Study) -> str:
    fewest = study.ranks("strong")[0]
    label = "Speed-up of strong scaling against ranks"
    figure, axes = _gains(study, "strong", "Strong scaling", "speed-up (times the fewest ranks)", fewest)
    axes.plot([fewest, study.most], [fewest, study.most], color=plots.FAINT, label="ideal")
    return _picture(figure, axes, study.ranks("strong"), label)


def _plot_weak(study: Study) -> str:
    label = "Efficiency of weak scaling against ranks"
    figure, axes = _gains(study, "weak", "Weak scaling", "efficiency (%)", 100)
    axes.set_ylim(bottom=0)
    return _picture(figure, axes, study.ranks("weak"), label)


def _gains(study: Study, kind: str, title: str, ylabel: str, first: float):
    """Figure and axes: the time of the fewest ranks over times, `first` there; measured and predicted."""
    figure, axes = plots.one_axes(title, "ranks", ylabel)
    predicted = {ranks: entry["predicted"] for ranks, entry in sorted(study.predictions[kind].items())}
    if predicted:
        work = first * predicted[min(predicted)]
        heights = [work / seconds for seconds in predicted.values()]
        axes.plot(list(predicted), heights, color=plots.INK, linestyle=":", label="predicted")
    times = {ranks: quartiles(study.runs[kind][ranks]["samples"]) for ranks in study.ranks(kind)}
    work = first * times[min(times)][0]
    gains = {ranks: [work / middle, work / high, work / low] for ranks, (middle, low, high) in times.items()}
    plots.points(axes, gains, "measured", 0)
    return figure, axes


def _plot_parts(study: Study) -> str:
    figure, axes = plots.one_axes("Where the time of a step goes", "", "share of a step (%)")
    bottom: dict[str, float] = {}
    for index, part in enumerate(("compute", "wait", "communicate")):
        names, heights = [], []
        for kind in ("strong", "weak"):
            for ranks in study.ranks(kind):
                entry = study.runs[kind][ranks]
                whole = entry["compute"] + entry["wait"] + entry["communicate"]
                names.append(f"{kind}\n{ranks}")
                heights.append(100 * entry[part] / whole)
        begin = [bottom.get(name, 0.0) for name in names]
        hatch = ("", "///", "...")[index]
        axes.bar(
            names,
            heights,
            bottom=begin,
            label=part,
            color=plots.COLORS[index],
            hatch=hatch,
            edgecolor="white",
        )
        bottom = {name: low + height for name, low, height in zip(names, begin, heights, strict=True)}
    figure.legend(loc="outside lower center", ncols=3)
    return _as_html(figure, "What steps are made of, by numbers of ranks")


def _picture(figure, axes, ranks: list[int], label: str) -> str:
    if max(ranks) > 16 * min(ranks):
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
        if "speed-up" in axes.get_ylabel():
            axes.set_yscale("log", base=2)
            plots.plain_log(axes.yaxis, base=2)
    axes.set_xticks(ranks, [f"{count}" for count in ranks])
    axes.legend()
    return _as_html(figure, label)


def _as_html(figure, label: str) -> str:
    """The figure as SVG inside of the page."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg")
    svg = re.sub(r"<metadata>.*?</metadata>", "", stream.getvalue(), flags=re.DOTALL)
    return f'<figure role="img" aria-label="{html.escape(label)}">{svg[svg.index("<svg") :]}</figure>'


_PLOTS = {"plot_strong": _plot_strong, "plot_weak": _plot_weak, "plot_parts": _plot_parts}
