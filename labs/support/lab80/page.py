"""A report that passed its check, as one HTML page that loads nothing and is set for A4."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from labkit import paths, plots, world
from labkit.errors import LabError, counted

from support.lab80 import figures, report, words
from support.lab80.figures import Figure
from support.lab80.records import KINDS, PARTS, Entry, Study, shown_time


def assemble(title: str, sections: Mapping[str, str], study: Study) -> str:
    """The text of report.md: which study it is about, the title, and the sections in their
    order."""
    order = [*report.SECTIONS, *sections]
    parts = [f"---\nstudy: {study.name}\n---\n", f"# {title}\n"]
    for heading in dict.fromkeys(heading for heading in order if heading in sections):
        lines = str(sections[heading]).strip().splitlines()
        parts.append(f"## {heading}\n\n" + "\n".join(line.strip() for line in lines) + "\n")
    return "\n".join(parts)


def publish(text: str, study: Study) -> None:
    """Write report.md and its page into home()/report, and say where; on rank 0 alone.

    A report.md that somebody has edited is kept beside it.
    """
    if not world.is_root():
        return
    folder = paths.home() / "report"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "report.md"
    written = folder / ".written.md"  # what the lab wrote last
    if file.exists() and (not written.exists() or written.read_bytes() != file.read_bytes()):
        names = (folder / f"report-{number}.md" for number in count(1))
        kept = file.rename(next(name for name in names if not name.exists()))
        print(f"You had edited {paths.shown(file)}; it is kept as {paths.shown(kept)}.")
    file.write_text(text, encoding="utf-8")
    written.write_text(text, encoding="utf-8")
    made = write(text, study, file)
    print(
        f"Report: {paths.shown(file)}, page: {paths.shown(made)}. `make report` checks and renders"
        " it again."
    )


def print_figures(study: Study, ranks: int) -> None:
    """Names and values of what a report may hold; of the figures by ranks those of so many."""
    for name, figure in figures.all_of(study).items():
        of_ranks = name.split("_")[-1].isdigit() or name.endswith(("strong_most", "weak_most"))
        if not of_ranks or name.endswith(f"_{ranks}"):
            print(f"{{{name}}}".ljust(38), figure.text)
    for name, sentence in figures.sentences(study).items():
        print(f"{{{name}}}".ljust(38), sentence if len(sentence) < 70 else f"{sentence[:69]}…")
    blocks = (*report.TABLES, *report.PLOTS)
    print("each on a separate line:", ", ".join(f"{{{name}}}" for name in blocks))


def write(text: str, study: Study, file: Path) -> Path:
    """Write the page of the text of `file` beside it: report.html for report.md; its path. LabError
    with all that is wrong, and no page, if anything is."""
    reading = report.read(text, study)
    page = file.with_suffix(".html")
    if reading.problems:
        page.unlink(missing_ok=True)
        lines = "\n".join(f"  - {sentence}" for sentence in reading.problems)
        raise LabError(
            f"The report is refused, for {counted(len(reading.problems), 'reason')}:\n{lines}"
        )
    page.write_text(_render(reading, study), encoding="utf-8")
    return page


def _render(reading: report.Reading, study: Study) -> str:
    import jinja2
    import mistune

    known = figures.all_of(study)
    said = figures.sentences(study)
    used: list[Figure] = []  # those that the page shows, as they come

    def shown(figure: Figure) -> str:
        if figure not in used:
            used.append(figure)
        number = used.index(figure) + 1
        title = html.escape(f"{figure.name}: {figure.formula}")
        text = html.escape(figure.text).replace(" ", "\N{NO-BREAK SPACE}")
        doubt = "~" if figure.unsteady else ""
        link = f'<sup><a href="#n{number}">{number}</a></sup>'
        return f'<span class="n" title="{title}">{doubt}{text}</span>{link}'

    def put(match: re.Match) -> str:
        name = reading.names[ord(match[0]) - words.FIRST]
        if name in known:
            return shown(known[name])
        if name in said:
            return html.escape(said[name])
        if name in report.PLOTS:
            return _plot(name, study)
        return "".join(_table(name, kind, known, study, shown) for kind in KINDS)

    markdown = mistune.create_markdown(escape=True, plugins=["table"])
    # A table or plot in a paragraph of its own is no paragraph.
    body = re.sub(f"<p>({words.MARK})</p>", r"\1", markdown(reading.text))
    body = re.sub(words.MARK, put, body)
    entries: list[Entry] = []
    for entry in (*study.entries, *(entry for figure in used for entry in figure.entries)):
        if entry not in entries:
            entries.append(entry)
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    as_html = jinja2.utils.markupsafe.Markup
    return environment.get_template("report.html.j2").render(
        title=reading.title,
        body=as_html(body),
        said=said,
        study=study,
        figures=used,
        entries=entries,
        machine=_machine,
        shown_time=shown_time,
        rubric=as_html(markdown((here / "rubric.md").read_text(encoding="utf-8"))),
        evidence=_evidence(study),
    )


_HEADS = {
    "time": "time of a step",
    "speedup": "speed-up",
    "predicted_efficiency": "efficiency, predicted",
    "reference_efficiency": "efficiency, reference",
    "joules": "energy",
    "node_hours": "an epoch",
}
_EFFICIENCIES = ("efficiency", "predicted_efficiency", "reference_efficiency")
_COLUMNS = {  # of a table, by its name and the kind of scaling
    ("table_strong", "strong"): ("time", "speedup", *_EFFICIENCIES),
    ("table_weak", "weak"): ("time", "rate", *_EFFICIENCIES),
    **{("table_parts", kind): PARTS for kind in KINDS},
    **{("table_cost", kind): ("nodes", "node_hours", "joules") for kind in KINDS},
}


def _table(name: str, kind: str, known: Mapping[str, Figure], study: Study, shown: Callable) -> str:
    """A row for each number of ranks; a column that no record fills is left out. shown: HTML of a
    figure."""
    rows = study.ranks(kind)
    columns = [
        column
        for column in _COLUMNS.get((name, kind), ())
        if any(f"{column}_{kind}_{ranks}" in known for ranks in rows)
    ]
    if not columns:
        return ""
    head = "".join(f"<th>{_HEADS.get(column, column)}</th>" for column in columns)
    lines = [f"<tr><th>{kind}, ranks</th>{head}</tr>"]
    for ranks in rows:
        cells = [known.get(f"{column}_{kind}_{ranks}") for column in columns]
        texts = "".join(f"<td>{shown(figure) if figure else ''}</td>" for figure in cells)
        lines.append(f"<tr><td>{ranks}</td>{texts}</tr>")
    return f'<table class="numbers">{"".join(lines)}</table>'


@plots.styled
def _plot(name: str, study: Study) -> str:
    """Measured and predicted times as SVG inside of the page. The plot is shown, too."""
    kind = name.removeprefix("plot_")
    predictions = study.predictions[kind].items()
    times = {
        "measured": {ranks: run["samples"] for ranks, run in study.runs[kind].items()},
        "predicted": {ranks: entry["predicted"] for ranks, entry in predictions},
    }
    title = f"{kind.capitalize()} scaling"
    if kind == "strong":
        figure = plots.scaling(times, title=title)
    else:
        figure = plots.efficiency(times, weak=True, title=title)
    stream = io.StringIO()
    figure.savefig(stream, format="svg")
    svg = re.sub(r"<metadata>.*?</metadata>", "", stream.getvalue(), flags=re.DOTALL)
    return f'<figure role="img" aria-label="{title}">{svg[svg.index("<svg") :]}</figure>'


def _machine(entry: Entry) -> str:
    """Where a record was measured."""
    where = [entry["host"], entry["cpu"]]
    if entry["where"] == "virtual":
        where = [f"virtual {entry['machine']}", f"computed on {entry['host']}"]
    job = f"job {entry['job']} on {entry['site']}" if entry["job"] else None
    return ", ".join(filter(None, [*where, entry["device"], entry["library"], job]))


def _evidence(study: Study) -> list[str]:
    """What the records themselves say to whoever marks: a list of sentences."""
    measured = [entry for kind in KINDS for entry in study.runs[kind].values()]
    predictions = [entry for kind in KINDS for entry in study.predictions[kind].values()]
    last = shown_time(max(str(entry["utc"]) for entry in predictions))
    first = shown_time(min(str(entry["utc"]) for entry in measured))
    sentences = [f"The last prediction is of {last}, the first measurement of {first}."]
    unsteady = [
        f"{run['result']} {run['ranks']}" for run in measured if run["seconds_steady"] is False
    ]
    if unsteady:
        doubt = f"Not steady when they were measured: {', '.join(unsteady)}."
        sentences.append(f"{doubt} The page marks their numbers with ~.")
    else:
        sentences.append("All times were steady when they were measured.")
    if any(entry["changed"] for entry in measured):
        sentences.append("Files of the checkout differed from the revision that is named.")
    sentences.append(
        f"Other studies in the same file: {len(study.others)}. Ask why this one was chosen, where"
        " there are some."
    )
    return sentences
