"""Pages that load nothing from anywhere: Markdown and notebooks as HTML, formulas as pictures
within it.

The same text always gives the same bytes.
"""

from __future__ import annotations

import base64
import html
import io
import re
from pathlib import Path

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def to_html(markdown: str) -> str:
    """Markdown with formulas, as nbconvert reads a notebook's prose."""
    from nbconvert.filters.markdown_mistune import MarkdownWithMath

    # A list in a lab may follow its sentence directly, as in Jupyter.
    return MarkdownWithMath(
        renderer=_renderer_class()(escape=False, exclude_anchor_links=True)
    ).render(markdown)


def template(file: Path, **filters):
    """A page's template, by jinja. Its filter `prose` reads Markdown; filters: others, or another
    `prose`."""
    import jinja2

    loader = jinja2.FileSystemLoader(file.parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"prose": to_html, **filters}
    return environment.get_template(file.name)


def exporter(**options):
    """nbconvert's exporter to HTML, with formulas that need no script."""
    from jinja2 import pass_context
    from nbconvert.exporters import HTMLExporter

    class Exporter(HTMLExporter):
        @pass_context
        def markdown2html(self, context, source):
            return to_html(source)

    return Exporter(**options)


def without_comments(page: str) -> str:
    """A page whose styles have lost their comments: JupyterLab's are long, and of no use in a
    page."""
    return re.sub(
        r"<style.*?</style>", lambda style: _COMMENT.sub("", style[0]), page, flags=re.DOTALL
    )


def _renderer_class():
    from nbconvert.filters.markdown_mistune import IPythonRenderer

    class Renderer(IPythonRenderer):
        def inline_math(self, body: str) -> str:
            return formula(body)

        def block_math(self, body: str) -> str:
            return f'<p style="text-align: center">{formula(body)}</p>'

    return Renderer


def formula(tex: str) -> str:
    """A formula as an inline image, by matplotlib; as code where it uses more LaTeX than matplotlib
    knows."""
    import matplotlib
    from matplotlib import mathtext
    from matplotlib.font_manager import FontProperties

    size = 10  # points
    picture = io.BytesIO()
    text = " ".join(tex.split())
    try:
        # Without a salt of its own, matplotlib names the letters anew in each run.
        with matplotlib.rc_context({"svg.hashsalt": "labs"}):
            depth = mathtext.math_to_image(
                f"${text}$", picture, FontProperties(size=size), dpi=72, format="svg"
            )
    except ValueError:
        return f"<code>{html.escape(text)}</code>"
    svg = re.sub(r"<metadata>.*?</metadata>", "", picture.getvalue().decode(), flags=re.DOTALL)
    height = float(re.search(r'height="([\d.]+)pt"', svg)[1])
    data = base64.b64encode(svg[svg.index("<svg") :].encode()).decode()
    style = f"height: {height / size:.2f}em; vertical-align: {-depth / size:.2f}em"
    return (
        f'<img class="math" style="{style}" alt="{html.escape(text)}"'
        f' src="data:image/svg+xml;base64,{data}">'
    )
