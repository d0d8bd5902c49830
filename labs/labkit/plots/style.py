"""How every plot of the kit looks, and how it reaches the reader: once in a notebook, as a file
otherwise."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from functools import cache, wraps
from pathlib import Path

from labkit import lab, paths, world
from labkit.errors import LabError

# Okabe and Ito's colors, in an order in which neighbours differ in lightness too; in grey, marker
# and dash tell them apart.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#CC79A7", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (5, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 3)),
    (0, (2, 4)),
)
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo")
INK, FAINT = "#333333", "#999999"

_saved: Counter[Path] = Counter()  # plots by the file that they were to be saved as

STYLE = Path(__file__).with_name("labkit.mplstyle")


@cache
def rules():
    """matplotlib's parameters as the style file sets them."""
    from matplotlib import rc_params_from_file

    return rc_params_from_file(STYLE, use_default_template=False)


def styled(draw):
    """Decorator: run a plotting function in the kit's style."""

    @wraps(draw)
    def with_style(*args, **kwargs):
        import matplotlib

        with matplotlib.rc_context(rules()):
            return draw(*args, **kwargs)

    return with_style


def new_figure(width: float = 7.0, height: float = 4.2, layout: str | None = "constrained"):
    """An empty figure, size in inches. Neither pyplot nor a window knows it, so only `show` shows
    it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    # A cell's last value is displayed; this figure was displayed already when it was made in the
    # same cell.
    figure._ipython_display_ = lambda: _display(figure, again=False)
    return figure


def curve_style(index: int) -> dict:
    """Color, marker and dash of the curve number `index`."""
    i = index % len(COLORS)
    return {"color": COLORS[i], "marker": MARKERS[i], "linestyle": DASHES[i]}


@styled
def show(figure, name: str) -> None:
    """Show a figure: displayed once in a notebook; in a script saved as a PNG file under
    home()/plots, a program's second one of that name as name-2.

    Any matplotlib figure will do. Ranks above 0 do nothing.
    """
    _forget(figure)
    if not world.is_root():
        return
    if world.in_kernel():
        _display(figure, again=True)
    else:
        _save(figure, name)


@styled
def png(figure) -> bytes:
    """The figure as a PNG file."""
    stream = io.BytesIO()
    cut_to_content = getattr(figure, "cut_to_content", False)
    figure.savefig(
        stream, format="png", bbox_inches="tight" if cut_to_content else None, pad_inches=0.12
    )
    return stream.getvalue()


def slug(text: str) -> str:
    """`text` as part of a file name: "Loss, 4 ranks" becomes "loss-4-ranks"."""
    return re.sub(r"[\W_]+", "-", text.lower()).strip("-") or "plot"


def _save(figure, name: str) -> None:
    parts = [lab.current(), slug(name)] if lab.current() else [slug(name)]
    file = paths.home() / "plots" / f"{'-'.join(parts)}.png"
    _saved[file] += 1
    if _saved[file] > 1:  # the program has one of that name
        file = file.with_stem(f"{file.stem}-{_saved[file]}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(figure))
    except OSError as error:
        cure = "Set LABKIT_HOME to a folder you can write to."
        raise LabError(f"Cannot save the plot as {file} ({error.strerror}). {cure}") from error
    print(f"Plot: {paths.shown(file)}")


def _display(figure, again: bool) -> None:
    """Display the figure; not again, if this cell has displayed it already."""
    from IPython import get_ipython
    from IPython.display import Image, display

    cell = get_ipython().execution_count
    if again or getattr(figure, "shown_in_cell", None) != cell:
        data = png(figure)
        pixels = int.from_bytes(data[16:20], "big")  # a PNG file states its width there
        display(Image(data=data, width=round(pixels * 96 / rules()["savefig.dpi"])))
    figure.shown_in_cell = cell


def _forget(figure) -> None:
    """Take a pyplot figure off pyplot's list, or the notebook draws it once more at the end of the
    cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
