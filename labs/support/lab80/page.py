"""A report that passed its check, as one HTML page that loads nothing and is set for A4."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from labkit import paths, world
from labkit.errors import LabError, counted

from support.lab80 import figures, pictures, report, words
from support.lab80.figures import Figure
from support.lab80.records import KINDS, Entry, Study, shown_time


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
    if file.exists() and (not written.exists() or written.read_text() != file.read_text()):
        names = (folder / f"report-{number}.md" for number in count(1))
        kept = file.rename(next(name for name in names if not name.exists()))
        print(f"You had edited {paths.shown(file)}; it is kept as {paths.shown(kept)}.")
    file.write_text(text, encoding="utf-8")
    written.write_text(text, encoding="utf-8")
    made = write(text, study, folder)
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
    print("on lines of their own:", ", ".join(f"{{{name}}}" for name in report.BLOCKS))


def write(text: str, study: Study, folder: Path) -> Path:
    """Write folder/report.html; its path. LabError with all that is wrong, and no page, if anything
    is."""
    reading = report.read(text, study)
    page = folder / "report.html"
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
        link = f'<sup><a href="#n{number}">{number}</a></sup>'
        return (
            f'<span class="n" title="{title}">{"~" if figure.unsteady else ""}{text}</span>{link}'
        )

    def put(match: re.Match) -> str:
        name = reading.names[ord(match[0]) - words.FIRST]
        if name in known:
            return shown(known[name])
        if name in said:
            return html.escape(said[name])
        return pictures.block(name, study, known, shown)

    markdown = mistune.create_markdown(escape=True, plugins=["table"])
    # A table or plot in a paragraph of its own is no paragraph.
    body = re.sub(f"<p>({words.MARK})</p>", r"\1", markdown(reading.text))
    body = re.sub(words.MARK, put, body)
    entries = list(study.entries)
    entries += [entry for figure in used for entry in figure.entries if entry not in study.entries]
    entries = [entry for place, entry in enumerate(entries) if entry not in entries[:place]]
    here = Path(__file__).parent
    folder = jinja2.FileSystemLoader(here)
    environment = jinja2.Environment(
        loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        title=reading.title,
        body=jinja2.utils.markupsafe.Markup(body),
        said=said,
        study=study,
        figures=[
            (figure, [entries.index(entry) + 1 for entry in figure.entries]) for figure in used
        ],
        records=[_record(entry) for entry in entries],
        rubric=jinja2.utils.markupsafe.Markup(
            markdown((here / "rubric.md").read_text(encoding="utf-8"))
        ),
        evidence=_evidence(study),
    )


def _record(entry: Entry) -> dict[str, object]:
    """The cells of a record's row: what, where it stands, when, on what, which revision, which
    command."""
    where = [entry["host"], entry["cpu"]]
    if entry["where"] == "virtual":
        where = [f"virtual {entry['machine']}", f"computed on {entry['host']}"]
    job = f"job {entry['job']} on {entry['site']}" if entry["job"] else ""
    machine = ", ".join(
        str(part) for part in [*where, entry["device"], entry["library"], job] if part
    )
    changed = ", files changed since" if entry["changed"] else ""
    return {
        "what": (
            f"{entry['result']} {entry['name'] or entry['kind'] or ''} "
            f"{entry['ranks'] or ''}".strip()
        ),
        "value": _value(entry),
        "place": entry.place,
        "date": shown_time(entry["utc"]),
        "source": entry["source"] or machine,
        "revision": f"{entry['revision'] or 'no git'}{changed}",
        "command": entry["command"] or f"lab {str(entry['lab'])[:2]}",
    }


def _value(entry: Entry) -> str:
    if entry["seconds"] is not None and entry["seconds_runs"]:
        return (
            f"{entry['seconds']:.6g} s ({entry['seconds_q1']:.4g} to {entry['seconds_q3']:.4g}, "
            f"{entry['seconds_runs']} steps{'' if entry['seconds_steady'] else ', not steady'})"
        )
    if entry["predicted"] is not None:
        return f"{entry['predicted']:.6g} s"
    return str(entry["value"] or "")


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
        names = ", ".join(unsteady)
        sentences.append(
            f"Not steady when they were measured: {names}. The page marks their numbers with ~."
        )
    else:
        sentences.append("All times were steady when they were measured.")
    if any(entry["changed"] for entry in measured):
        sentences.append("Files of the checkout differed from the revision that is named.")
    sentences.append(
        f"Other studies in the same file: {len(study.others)}. Ask why this one was chosen, where"
        " there are some."
    )
    return sentences
