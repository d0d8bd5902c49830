"""Figures of lab 26."""

from authoring.figures.canvas import Canvas


def ways() -> Canvas:
    """Two nodes of four ranks: through a leader, or all ranks of a node with a chunk each."""
    canvas = Canvas(43)
    for left, title in ((2, "two levels"), (53, "two dimensions")):
        canvas.text((left + 22, 41), title, bold=True)
        for node, base in ((0, 25), (1, 2)):
            canvas.group((left, base), 44, 13, f"node {node}")
            for place in range(4):
                fill = "strong" if place == 0 and left == 2 else "plain"
                middle = (left + 7 + 10 * place, base + 4)
                canvas.circle(middle, str(4 * node + place), fill=fill)
    for y in (29, 6):
        canvas.arrow((16.6, y), (11.4, y), both=True)
        canvas.arrow((36.6, y), (31.4, y), both=True)
        canvas.arrow((27.6, y + 1.8), (10.4, y + 1.8), both=True, bend=0.28)
        for place in range(3):
            x = 60 + 10 * place
            canvas.arrow((x + 2.4, y), (x + 7.6, y), both=True)
    canvas.arrow((9, 26.6), (9, 8.4), both=True, width=3.2)
    canvas.text((11.5, 20), "a whole vector,\nonly between leaders", align="left", size=9)
    for place in range(4):
        canvas.arrow((60 + 10 * place, 26.6), (60 + 10 * place, 8.4), both=True, width=1.3)
    canvas.text((75, 20), "a quarter\neach", size=9)
    return canvas
