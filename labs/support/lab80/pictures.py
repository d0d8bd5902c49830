"""Tables and plots of a study, for its page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable

from labkit import plots

from support.lab80.figures import Figure
from support.lab80.records import KINDS, PARTS, Study

_HEADS = {
    "time": "time of a step",
    "speedup": "speed-up",
    "predicted_efficiency": "efficiency, predicted",
    "reference_efficiency": "efficiency, reference",
    "joules": "energy",
    "node_hours": "an epoch",
}
_COLUMNS = {
    "strong": ("time", "speedup", "efficiency", "predicted_efficiency", "reference_efficiency"),
    "weak": ("time", "rate", "efficiency", "predicted_efficiency", "reference_efficiency"),
    "parts": PARTS,
    "cost": ("nodes", "node_hours", "joules"),
}


def block(
    name: str, study: Study, figures: dict[str, Figure], shown: Callable[[Figure], str]
) -> str:
    """HTML of a block by its name. shown: HTML of a figure, with its link to where it comes
    from."""
    what, _, about = name.partition("_")
    if what == "plot":
        return _as_html(_plot(about, study))
    kinds = [about] if about in KINDS else KINDS
    return "".join(_table(kind, _COLUMNS[about], study, figures, shown) for kind in kinds)


def _table(kind: str, columns: tuple[str, ...], study: Study, figures, shown) -> str:
    """A row for each number of ranks; a column that no record fills is left out."""
    rows = study.ranks(kind)
    filled = [
        column for column in columns if any(f"{column}_{kind}_{ranks}" in figures for ranks in rows)
    ]
    head = "".join(f"<th>{_HEADS.get(column, column)}</th>" for column in filled)
    lines = [f"<tr><th>{kind}, ranks</th>{head}</tr>"]
    for ranks in rows:
        cells = [figures.get(f"{column}_{kind}_{ranks}") for column in filled]
        texts = "".join(f"<td>{shown(figure) if figure else ''}</td>" for figure in cells)
        lines.append(f"<tr><td>{ranks}</td>{texts}</tr>")
    return f'<table class="numbers">{"".join(lines)}</table>'


def _plot(about: str, study: Study):
    """Figure of strong scaling, of weak scaling, or of what steps are made of. It is shown, too."""
    if about == "parts":
        bars = {}
        for kind in KINDS:
            for ranks in study.ranks(kind):
                run = study.runs[kind][ranks]
                whole = sum(run[name] for name in PARTS)
                bars[f"{kind}\n{ranks}"] = {name: 100 * run[name] / whole for name in PARTS}
        return plots.bars(bars, ylabel="share of a step (%)", title="Where the time of a step goes")
    times = {
        "measured": {ranks: run["samples"] for ranks, run in study.runs[about].items()},
        "predicted": {
            ranks: entry["predicted"] for ranks, entry in study.predictions[about].items()
        },
    }
    if about == "strong":
        return plots.scaling(times, title="Strong scaling")
    return plots.efficiency(times, weak=True, title="Weak scaling")


@plots.styled
def _as_html(figure) -> str:
    """The figure as SVG inside of the page."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg")
    svg = re.sub(r"<metadata>.*?</metadata>", "", stream.getvalue(), flags=re.DOTALL)
    title = figure.axes[0].get_title(loc="left") or figure.axes[0].get_title()
    return (
        f'<figure role="img" aria-label="{html.escape(title)}">{svg[svg.index("<svg") :]}</figure>'
    )
