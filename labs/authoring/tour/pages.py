"""The tour's pages: each executed lab, and index.html with how each went and what it drew. They
load nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from labkit import paths

from authoring import offline

# nbconvert's page without the scripts that it would fetch: require.js, MathJax, mermaid, widgets.
_TEMPLATE = """\
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block body_header -%}
{{ super() }}
<p style="font-family: sans-serif"><a href="index.html">← All labs</a></p>
{%- endblock -%}
{%- block extra_css -%}
<style>
main { max-width: 60rem; margin: auto; padding: 0 .5rem; }
.jp-Cell .jp-InputPrompt, .jp-Cell .jp-OutputPrompt { display: none; }
.jp-InputArea-editor { overflow-x: auto; }
.jp-OutputArea-output pre { overflow-x: auto; white-space: pre; }
img { max-width: 100%; height: auto; }
.math { max-width: none; }
</style>
{%- endblock -%}
"""
_OTHER_LAB = re.compile(r'href="(\d\d_\w+)\.ipynb"')


def write_lab(book, page: Path, title: str) -> None:
    """An executed notebook as a page with all images, styles and formulas in it."""
    from jinja2 import DictLoader

    book.metadata["title"] = title
    exporter = offline.exporter(
        extra_loaders=[DictLoader({"offline.html.j2": _TEMPLATE})],
        template_file="offline.html.j2",
        embed_images=True,
    )
    # The notebook ran elsewhere; its concept figures are found from here.
    beside = {"metadata": {"path": str(paths.root() / "notebooks")}}
    text, _ = exporter.from_notebook_node(book, resources=beside)
    text = _OTHER_LAB.sub(r'href="\1.html"', text)
    page.write_text(offline.without_comments(text), encoding="utf-8")


def write_index(out: Path, outcomes: Iterable, summary: str, report: dict, small: bool) -> None:
    """Write out/index.html anew from what there is so far. outcomes: the tour's. report: the
    doctor's."""
    template = offline.template(Path(__file__).with_name("tour.html.j2"))
    labs = []
    for outcome in outcomes:
        has_page = (out / f"{outcome.stem}.html").exists()
        drawn = pictures(out / "notebooks" / f"{outcome.stem}.ipynb") if has_page else []
        labs.append({"outcome": outcome, "has_page": has_page, "pictures": drawn})
    page = template.render(
        when=f"{datetime.now():%Y-%m-%d %H:%M}",
        host=report["machine"]["host"],
        advice=report["advice"],
        summary=summary,
        small=small,
        labs=labs,
    )
    (out / "index.html").write_text(page, encoding="utf-8")


def pictures(notebook: Path) -> list[tuple[str, str]]:
    """(nearest heading above it, PNG in base64) of every plot in an executed notebook."""
    import nbformat

    heading = ""
    plots = []
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            titles = re.findall(r"^#{1,6} +(.+)$", cell.source, re.MULTILINE)
            heading = titles[-1].strip() if titles else heading
        for output in cell.get("outputs", []):
            png = output.get("data", {}).get("image/png")
            if png:
                plots.append((heading, png.replace("\n", "")))
    return plots
