"""An executed notebook as one HTML file that loads nothing from anywhere, and the pictures in
it."""

from __future__ import annotations

import re
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
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def write(notebook: Path, page: Path, title: str) -> None:
    """Convert an executed notebook to a page with all images, styles and formulas in it."""
    import nbformat
    from jinja2 import DictLoader

    node = nbformat.read(notebook, as_version=4)
    node.metadata["title"] = title
    exporter = offline.exporter(
        extra_loaders=[DictLoader({"offline.html.j2": _TEMPLATE})],
        template_file="offline.html.j2",
        embed_images=True,
    )
    # The notebook ran elsewhere; its concept figures are found from here.
    beside = {"metadata": {"path": str(paths.root() / "notebooks")}}
    text, _ = exporter.from_notebook_node(node, resources=beside)
    text = _OTHER_LAB.sub(r'href="\1.html"', text)
    page.write_text(offline.without_comments(text), encoding="utf-8")


def pictures(notebook: Path) -> list[tuple[str, str]]:
    """(nearest heading above it, PNG in base64) of every plot in an executed notebook."""
    heading = ""
    plots = []
    for cell in _cells(notebook):
        if cell["cell_type"] == "markdown":
            titles = re.findall(r"^#{1,6} +(.+)$", _joined(cell["source"]), re.MULTILINE)
            heading = titles[-1].strip() if titles else heading
        for output in cell.get("outputs", []):
            png = output.get("data", {}).get("image/png")
            if png:
                plots.append((heading, _joined(png).replace("\n", "")))
    return plots


def failure(notebook: Path) -> str | None:
    """What the first cell that failed said, without the traceback; None if none did."""
    for cell in _cells(notebook):
        for output in cell.get("outputs", []):
            if output.get("output_type") == "error":
                lines = _ANSI.sub("", "\n".join(output.get("traceback", []))).strip().splitlines()
                # A LabError shows its sentences alone; other errors end with "Kind: message".
                sentences = lines if not any("Traceback" in line for line in lines) else lines[-1:]
                return " ".join(" ".join(sentences).split()) or output.get("ename")
    return None


def progress(notebook: Path) -> tuple[int, int]:
    """(code cells that have run, code cells) of a notebook that papermill is working on."""
    code = [cell for cell in _cells(notebook) if cell["cell_type"] == "code"]
    return sum(cell.get("execution_count") is not None for cell in code), len(code)


def _cells(notebook: Path) -> list[dict]:
    import json

    try:
        return json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):  # not there yet, or being written this moment
        return []


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
