"""A report that passed its check, as one HTML page that loads nothing, and as PDF where there is Chromium."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from labkit import launch
from labkit.errors import LabError, counted

from support.lab80 import figures, pictures, report, rubric, words
from support.lab80.figures import Figure
from support.lab80.records import Entry, Study, shown_time

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0  # seconds for a browser to print a page
# It prints a file, and reaches nothing.
_FLAGS = (
    "--headless", "--disable-gpu", "--disable-quic", "--disable-sync", "--disable-component-update",
    "--disable-background-networking", "--disable-extensions", "--no-first-run", "--no-pdf-header-footer",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def write(text: str, study: Study, folder: Path) -> Path:
    """Write folder/report.html; its path. LabError with all that is wrong, and no page, if anything is."""
    reading = report.read(text, study)
    page = folder / "report.html"
    if reading.problems:
        page.unlink(missing_ok=True)
        (folder / "report.pdf").unlink(missing_ok=True)
        lines = "\n".join(f"  - {sentence}" for sentence in reading.problems)
        raise LabError(f"The report is refused, for {counted(len(reading.problems), 'reason')}:\n{lines}")
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(_render(reading, study), encoding="utf-8")
    return page


class _Numbers:
    """The figures that a page shows, numbered as they come."""

    def __init__(self):
        self.used: dict[str, Figure] = {}

    def shown(self, figure: Figure) -> str:
        self.used.setdefault(figure.name, figure)
        number = list(self.used).index(figure.name) + 1
        doubt = "~" if figure.unsteady else ""
        title = html.escape(f"{figure.name}: {figure.formula}")
        text = html.escape(figure.text).replace(" ", "\N{NO-BREAK SPACE}")
        link = f'<sup><a href="#n{number}">{number}</a></sup>'
        return f'<span class="n" title="{title}">{doubt}{text}</span>{link}'


def _render(reading: report.Reading, study: Study) -> str:
    import jinja2

    known = figures.all_of(study)
    said = figures.sentences(study)
    numbers = _Numbers()
    row = study.entries.index(study.setup) + 1  # the study's own entries come first
    setup_row = f'<sup><a href="#r{row}">R{row}</a></sup>'

    def put(match: re.Match) -> str:
        name = reading.names[ord(match[0]) - words.FIRST]
        if name == "question":
            return ""  # its words follow
        if name in known:
            return numbers.shown(known[name])
        if name in said:
            return html.escape(said[name]) + (setup_row if name in ("method", "energy") else "")
        return pictures.block(name, study, known, numbers.shown)

    marks = f"[{chr(words.FIRST)}-{chr(words.FIRST + len(reading.names))}]"
    # A table or plot in a paragraph of its own is no paragraph.
    body = re.sub(f"<p>({marks})</p>", r"\1", reading.html)
    body = re.sub(marks, put, body)
    entries = _entries(study, numbers.used)
    template = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("report.html.j2")
    return template.render(
        title=reading.title,
        body=jinja2.utils.markupsafe.Markup(body),
        setup=study.setup,
        said=said,
        study=study,
        figures=[_row(figure, entries) for figure in numbers.used.values()],
        records=[_record(entry) for entry in entries],
        rows=rubric.rows(),
        evidence=rubric.evidence(study),
    )


def _entries(study: Study, used: dict[str, Figure]) -> list[Entry]:
    """Every record behind a number of the page, and the whole study; each once."""
    entries = [*study.entries, *(entry for figure in used.values() for entry in figure.entries)]
    kept: list[Entry] = []
    for entry in entries:
        if entry not in kept:
            kept.append(entry)
    return kept


def _row(figure: Figure, entries: list[Entry]) -> dict:
    records = [entries.index(entry) + 1 for entry in figure.entries]
    return {"name": figure.name, "text": figure.text, "formula": figure.formula, "records": records}


def _record(entry: Entry) -> dict:
    """The cells of a record's row: what, where it stands, when, on what, which revision, which command."""
    where = [entry["host"], entry["cpu"]]
    if entry["where"] == "virtual":
        where = [f"virtual {entry['machine']}", f"computed on {entry['host']}"]
    carried = [str(part) for part in (entry["device"], entry["library"]) if part]
    job = f"job {entry['job']} on {entry['site']}" if entry["job"] else ""
    changed = ", files changed since" if entry["changed"] else ""
    return {
        "what": f"{entry['result']} {entry['name'] or entry['kind'] or ''} {entry['ranks'] or ''}".strip(),
        "place": entry.place,
        "date": shown_time(entry["utc"]),
        "machine": ", ".join(str(part) for part in [*where, *carried, job] if part),
        "revision": f"{entry['revision'] or 'no git'}{changed}",
        "command": entry["command"]
        or ("make submit LAB=50" if entry["job"] else f"lab {str(entry['lab'])[:2]}"),
        "value": _value(entry),
        "source": entry["source"],
    }


def _value(entry: Entry) -> str:
    if entry["seconds"] is not None and entry["seconds_runs"]:
        return (
            f"{entry['seconds']:.6g} s ({entry['seconds_q1']:.4g} to {entry['seconds_q3']:.4g}, "
            f"{entry['seconds_runs']} steps{'' if entry['seconds_steady'] else ', not steady'})"
        )
    if entry["predicted"] is not None:
        return f"{entry['predicted']:.6g} s"
    return str(entry["value"]) if entry["value"] is not None else ""


def browser() -> str | None:
    """The Chromium of this machine; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def write_pdf(page: Path) -> Path | None:
    """Print the page into a PDF beside it, by Chromium without a window; None where that cannot be."""
    program = browser()
    target = page.with_suffix(".pdf")
    target.unlink(missing_ok=True)
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="labkit-print-") as profile:
        command = [program, *_FLAGS, f"--user-data-dir={profile}", f"--print-to-pdf={target}"]
        if os.getuid() == 0:
            command.append("--no-sandbox")  # Chromium has no sandbox for root
        launch.run_to_end(
            [*command, page.resolve().as_uri()],
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": profile, "XDG_CONFIG_HOME": profile, "XDG_CACHE_HOME": profile},
            start_new_session=True,
        )
    return target if target.exists() and target.stat().st_size > 0 else None
