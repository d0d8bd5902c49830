"""What concept figures are drawn with: boxes, circles, arrows, rows of spans, brackets."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.plots import INK

WIDTH = 100  # units
INCHES = 9  # as a notebook shows it
SIZE = 10.5  # points of ordinary text
SMALL = 9

# name -> color of the face, hatching, color of the text
FILLS = {
    "plain": ("white", "", INK),
    "light": ("#DCEAF5", "", INK),
    "middle": ("#9CC4E4", "", INK),
    "strong": ("#1F6396", "", "white"),
    "warm": ("#FBE3BC", "", INK),
    "striped": ("#FBE3BC", "////", INK),
    "gray": ("#E4E4E4", "", INK),
}

Point = tuple[float, float]


class Canvas:
    """An empty figure of `height` units. Every method draws at once, later ones above."""

    def __init__(self, height: float):
        from matplotlib.figure import Figure

        inch = INCHES / WIDTH
        self.figure = Figure(figsize=(INCHES, height * inch), facecolor="white")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, WIDTH), ylim=(0, height))
        self.axes.set_axis_off()
        self._inch = inch

    def text(
        self,
        at: Point,
        words: str,
        *,
        size: float = SIZE,
        align: str = "center",
        bold: bool = False,
        color: str = INK,
        ground: bool = False,
    ) -> None:
        """Words at a point, centered upright; align: where the point is, "left", "center" or
        "right" of them. ground: white behind the words, for stripes."""
        self.axes.text(
            *at,
            words,
            size=size,
            ha=align,
            va="center",
            weight="bold" if bold else "normal",
            color=color,
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5} if ground else None,
        )

    def box(
        self,
        corner: Point,
        width: float,
        height: float,
        words: str = "",
        *,
        fill: str = "light",
        size: float = SIZE,
        bold: bool = False,
        rounded: bool = True,
        dashed: bool = False,
    ) -> None:
        """A box from its lower left corner, with words in its middle."""
        from matplotlib.patches import FancyBboxPatch

        face, hatch, ink = FILLS[fill]
        style = "round,pad=0,rounding_size=0.8" if rounded else "square,pad=0"
        self.axes.add_patch(
            FancyBboxPatch(
                corner,
                width,
                height,
                boxstyle=style,
                facecolor=face,
                edgecolor=INK,
                hatch=hatch,
                linewidth=1.1,
                linestyle=(0, (4, 2)) if dashed else "-",
                zorder=2,
            )
        )
        if words:
            middle = (corner[0] + width / 2, corner[1] + height / 2)
            self.text(middle, words, size=size, bold=bold, color=ink, ground=bool(hatch))

    def group(self, corner: Point, width: float, height: float, title: str) -> None:
        """A dashed outline around what belongs together, such as a node; its title inside, at the
        top."""
        from matplotlib.patches import Rectangle

        self.axes.add_patch(
            Rectangle(
                corner,
                width,
                height,
                facecolor="#F7F7F7",
                edgecolor="#777777",
                linestyle=(0, (4, 2)),
                zorder=1,
            )
        )
        top = corner[1] + height - 1.9
        self.text((corner[0] + width / 2, top), title, size=SIZE, bold=True)

    def circle(
        self, middle: Point, words: str, *, radius: float = 2.4, fill: str = "plain"
    ) -> None:
        """A circle, as ranks are drawn."""
        from matplotlib.patches import Circle

        face, hatch, ink = FILLS[fill]
        self.axes.add_patch(
            Circle(middle, radius, facecolor=face, edgecolor=INK, hatch=hatch, lw=1.4, zorder=3)
        )
        self.text(middle, words, bold=True, color=ink)

    def arrow(
        self,
        start: Point,
        end: Point,
        words: str = "",
        *,
        shift: Point = (0, 1.6),
        both: bool = False,
        dashed: bool = False,
        bend: float = 0.0,
        width: float = 1.6,
        size: float = SMALL,
    ) -> None:
        """An arrow; its words stand at its middle plus `shift`. bend: how far it is curved."""
        from matplotlib.patches import FancyArrowPatch

        self.axes.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="<|-|>" if both else "-|>",
                connectionstyle=f"arc3,rad={bend}",
                mutation_scale=12,
                linewidth=width,
                linestyle=(0, (4, 2)) if dashed else "-",
                color=INK,
                shrinkA=0,
                shrinkB=0,
                zorder=4,
            )
        )
        if words:
            middle = ((start[0] + end[0]) / 2 + shift[0], (start[1] + end[1]) / 2 + shift[1])
            self.text(middle, words, size=size)

    def line(self, points: Sequence[Point], *, dashed: bool = False, width: float = 1.2) -> None:
        """A line through points."""
        style = (0, (4, 2)) if dashed else "-"
        self.axes.plot(*zip(*points, strict=True), color=INK, lw=width, ls=style, zorder=1.5)

    def lane(
        self,
        y: float,
        label: str,
        spans: Sequence[tuple[float, float, str, str]],
        *,
        height: float = 4.2,
        left: float = 16,
    ) -> None:
        """A row over time: its label left of `left`, then spans (begin, end, words, fill) in
        units."""
        self.text((left - 1.5, y + height / 2), label, align="right")
        for begin, end, words, fill in spans:
            self.box((begin, y), end - begin, height, words, fill=fill, size=SMALL, rounded=False)

    def bracket(self, begin: float, end: float, y: float, words: str, *, up: bool = True) -> None:
        """A bracket from begin to end at y, its words above it, or below."""
        tip = -0.9 if up else 0.9
        self.line([(begin, y + tip), (begin, y), (end, y), (end, y + tip)])
        self.text(((begin + end) / 2, y - 1.9 * tip), words, size=SMALL)
