"""What one can read in a figure, and where it stands."""

import re
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

CROWDED = "A figure with text that cannot be read:"


def renderer_of(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def drawn_texts(figure):
    """Every text one can read in the figure: (text, its box in pixels)."""
    renderer = renderer_of(figure)
    texts = list(figure.texts)  # a title of the whole figure is among them
    for axes in figure.axes:
        texts += axes.texts
        if axes.axison:
            texts += [axes.xaxis.label, axes.yaxis.label]
            texts += tick_labels(axes.xaxis) + tick_labels(axes.yaxis)
        texts += [text for text in axes.get_children() if isinstance(text, Text)]  # titles
        texts += axes.get_legend().get_texts() if axes.get_legend() else []
    shown = {id(text): text for text in texts if text.get_text().strip() and text.get_visible()}
    return [(text.get_text(), text.get_window_extent(renderer)) for text in shown.values()]


def tick_labels(axis):
    low, high = sorted(axis.get_view_interval())
    margin = 1e-9 * (high - low)
    ticks = axis.get_major_ticks()
    return [tick.label1 for tick in ticks if low - margin <= tick.get_loc() <= high + margin]


def faults(figure, numbers: bool = True) -> list[str]:
    """Each text of a figure that lies on another or leaves the figure: a sentence.

    numbers: look at numbers, too, whose places are those of the data.
    """
    found = []
    texts = [(text, box) for text, box in drawn_texts(figure) if box.width and box.height]
    if not numbers:
        number = re.compile(r"[-−+×%\d.,e\s]+|\$.*\$")
        texts = [(text, box) for text, box in texts if not number.fullmatch(text)]
    edges = figure.bbox.padded(1)
    for text, box in texts:
        # What is saved "tight" is as large as what is in it.
        inside = (
            edges.x0 <= box.x0 and edges.y0 <= box.y0 and box.x1 <= edges.x1 and box.y1 <= edges.y1
        )
        if not inside and not getattr(figure, "cut_to_content", False):
            found.append(f"{text!r} leaves it")
    for (text, box), (other, box_of_other) in combinations(texts, 2):
        if box.padded(-1).overlaps(box_of_other.padded(-1)):
            found.append(f"{text!r} lies on {other!r}")
    return found


def watch_figures() -> None:
    """Print a line for each figure with text that cannot be read, once it is shown in this
    kernel."""
    from labkit.plots import style

    plain = style.png

    def looked_at(figure) -> bytes:
        for fault in faults(figure, numbers=False):  # those go where the measurements are
            print(f"{CROWDED} {fault}")
        return plain(figure)

    style.png = looked_at
