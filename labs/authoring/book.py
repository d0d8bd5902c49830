"""`make book`: the labs as a web book, with their outputs and plots, from the notebooks of a tour.

Sphinx makes the pages, their navigation and the search; they load nothing from anywhere. Answers
are folded. The book goes to any static host, or opens from the folder.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import tempfile
from pathlib import Path

from labkit import labfile, paths
from labkit.errors import LabError, exit_status

from authoring import links, overview, tour

MARK = "book.json"
PAGES = {"glossary": links.GLOSSARY, "formulas": "docs/FORMULAS.md"}
# Where the text points from notebooks/, and where that lies in the book.
_MOVED = {
    f"../{links.FIGURES}/": "figures/",
    "../notebooks/": "",
    "../docs/FORMULAS.md": "formulas.md",
    f"../{links.GLOSSARY}": "glossary.md",
}
_BESIDE = re.compile(r"\[(?P<words>[^\]]*)\]\((?P<target>\.\./[^)]+|\d\d_\w+\.ipynb)\)")
_SETTINGS = {
    "project": "High-Performance Distributed Deep Learning Labs",
    "html_title": "High-Performance Distributed Deep Learning Labs",
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_copyright": False,
    "html_show_sourcelink": False,
    "html_use_index": False,
    "extensions": ["myst_nb", "sphinx-mathjax-offline"],
    "myst_enable_extensions": ["dollarmath"],
    "myst_heading_anchors": 3,
    "myst_heading_slug_func": "authoring.book.anchor",
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "suppress_warnings": ["misc.highlighting_failure"],  # a program may have … in it
    "nb_code_prompt_show": "Show the answer",
    "nb_code_prompt_hide": "Hide the answer",
}


def anchor(heading: str) -> str:
    """A heading's name in links, as JupyterLab has it."""
    return heading.replace(" ", "-")


def main(arguments: list[str] | None = None) -> int:
    """`python -m authoring book [--report report] [--out book]`; 0: book/index.html is there."""
    parser = argparse.ArgumentParser(
        prog="authoring book", description="The labs of a tour as a web book."
    )
    parser.add_argument(
        "--report", type=Path, default=None, help="folder of the tour (default: report)"
    )
    parser.add_argument("--out", type=Path, default=None, help="folder of the book (default: book)")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _book(options))


def _book(options: argparse.Namespace) -> int:
    root = paths.root()
    report = options.report or root / "report"
    executed = {path.stem: path for path in sorted(report.glob("notebooks/[0-9][0-9]_*.ipynb"))}
    if not executed:
        raise LabError(
            f"{paths.shown(report)} holds no executed labs. `make tour` runs them all, which takes"
            " about an hour; `make tour SMALL=1` takes minutes, with smaller measurements."
        )
    missing = [stem for stem in labfile.stems(root) if stem not in executed]
    if missing:
        print(f"Not in this tour, so not in the book: {', '.join(missing)}.")
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "source", Path(folder) / "book"
        _write_source(root, source, executed)
        _build(source, built, Path(folder) / "doctrees")
        # Only now, because an earlier book goes.
        out = tour.fresh_folder(options.out or root / "book", MARK, "book")
        shutil.copytree(built, out, dirs_exist_ok=True)
    print(f"{len(executed)} labs: {paths.shown(out / 'index.html')}")
    return 0


def _write_source(root: Path, source: Path, executed: dict[str, Path]) -> None:
    """What Sphinx reads: the notebooks with links that hold in the book, and pages around them.

    LabError for a notebook that is none.
    """
    shutil.copytree(root / links.FIGURES, source / "figures")
    for stem, path in executed.items():
        try:
            notebook = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise LabError(
                f"{paths.shown(path)} is no whole notebook ({error}). Delete it for a book of the"
                " other labs, or `make tour` writes them all again."
            ) from None
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = _moved("".join(cell["source"]), executed)
        (source / f"{stem}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    for name, path in PAGES.items():
        text = (root / path).read_text(encoding="utf-8")
        (source / f"{name}.md").write_text(_moved(text, executed), encoding="utf-8")
    (source / "index.md").write_text(_index(executed), encoding="utf-8")


def _moved(text: str, executed: dict[str, Path]) -> str:
    """A text with links that hold in the book; one to what is not there becomes its words."""
    for before, after in _MOVED.items():
        text = text.replace(f"]({before}", f"]({after}")

    def link(found: re.Match) -> str:
        return found[0] if Path(found["target"]).stem in executed else found["words"]

    return _BESIDE.sub(link, text)


def _index(executed: dict[str, Path]) -> str:
    """The first page: what the book is, and the labs in the order of the course and library."""
    content = overview.read()
    by_number = {stem[:2]: stem for stem in executed}
    groups = {
        "The course": [content["begin"], *content["course"]],
        **content["library"],
        overview.FURTHER: overview.further(content, by_number),
    }
    lines = [f"# {_SETTINGS['project']}", "", (Path(__file__).with_name("book.md")).read_text()]
    for group, numbers in groups.items():
        stems = [by_number[number] for number in numbers if number in by_number]
        if not stems:
            continue
        lines += ["", "```{toctree}", ":maxdepth: 1", f":caption: {group}", "", *stems, "```"]
    lines += ["", "```{toctree}", ":maxdepth: 1", ":caption: To look up", "", *PAGES, "```", ""]
    return "\n".join(lines)


def _build(source: Path, out: Path, doctrees: Path) -> None:
    from sphinx.application import Sphinx

    warnings = io.StringIO()
    sphinx = Sphinx(
        source, None, out, doctrees, "html", confoverrides=_SETTINGS, status=None, warning=warnings
    )
    sphinx.build()
    if sphinx.statuscode or warnings.getvalue():
        raise LabError(f"Sphinx is not content with the labs' text:\n{warnings.getvalue()}")
