"""How every plot of the kit looks, and how it reaches the reader: once in a notebook, as a file otherwise."""

from __future__ import annotations

import io
import re
import sys
from functools import wraps

from labkit import lab, paths, world
from labkit.errors import LabError

# Okabe and Ito's colors, ordered so that neighbours differ in lightness too; marker and dash say the same in
# grey.
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

_RC = {
    "font.family": "DejaVu Sans",  # comes with matplotlib and has α, β, µ, ×, →
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 12,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "text.color": INK,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 7,
    "errorbar.capsize": 3,
    "hatch.linewidth": 0.8,
    "figure.dpi": 100,
    "figure.constrained_layout.w_pad": 0.09,  # inches
    "figure.constrained_layout.h_pad": 0.07,
    "savefig.dpi": 150,
    "figure.facecolor": "white",
}


def styled(draw):
    """Decorator: run a plotting function with the kit's style."""

    @wraps(draw)
    def with_style(*args, **kwargs):
        import matplotlib

        with matplotlib.rc_context(_RC):
            return draw(*args, **kwargs)

    return with_style


def new_figure(width: float = 7.0, height: float = 4.2, layout: str | None = "constrained"):
    """An empty figure, size in inches. Neither pyplot nor a window knows it, so only `show` shows it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    # A cell's last value is displayed; this figure was displayed already when it was made in the same cell.
    figure._ipython_display_ = lambda: _display(figure, again=False)
    return figure


def look(index: int) -> dict:
    """Color, marker and dash of the curve number `index`."""
    i = index % len(COLORS)
    return {"color": COLORS[i], "marker": MARKERS[i], "linestyle": DASHES[i]}


@styled
def show(figure, name: str) -> None:
    """Show a figure: displayed once in a notebook; in a script saved as a PNG file under home()/plots.

    Any matplotlib figure will do. Ranks above 0 do nothing.
    """
    _forget(figure)
    if not world.is_root():
        return
    if _in_notebook():
        _display(figure, again=True)
    else:
        _save(figure, name)


@styled
def png(figure) -> bytes:
    """The figure as a PNG file."""
    stream = io.BytesIO()
    cut = {"bbox_inches": "tight", "pad_inches": 0.12} if getattr(figure, "cut_to_content", False) else {}
    figure.savefig(stream, format="png", **cut)
    return stream.getvalue()


def slug(text: str) -> str:
    """`text` as part of a file name: "Loss, 4 ranks" becomes "loss-4-ranks"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "plot"


def _save(figure, name: str) -> None:
    stem = lab.current()
    file = paths.home() / "plots" / f"{stem + '-' if stem else ''}{slug(name)}.png"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(figure))
    except OSError as error:
        cure = "Set LABKIT_HOME to a folder you can write to."
        raise LabError(f"Cannot save the plot as {file} ({error.strerror}). {cure}") from error
    print(f"Plot: {_short(file)}")


def _short(file) -> str:
    try:
        return str(file.relative_to(paths.root()))
    except ValueError:
        return str(file)


def _display(figure, again: bool) -> None:
    from IPython.display import Image, display

    turn = _shell().execution_count
    if again or getattr(figure, "_shown_in", None) != turn:
        data = png(figure)
        pixels = int.from_bytes(data[16:20], "big")  # a PNG file states its width there
        display(Image(data=data, width=round(pixels * 96 / _RC["savefig.dpi"])))
    figure._shown_in = turn


def _shell():
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _in_notebook() -> bool:
    return getattr(_shell(), "kernel", None) is not None


def _forget(figure) -> None:
    """Take a pyplot figure off pyplot's list, or the notebook draws it once more at the end of the cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
