"""Figures of lab 24."""

from authoring.figures.canvas import Canvas

EIGHTH = 1 / 8
WAYS = (  # name, the part of the vector in each step of 8 ranks, words
    ("tree", [1] * 6, "6 steps of whole vectors"),
    ("ring", [EIGHTH] * 14, "14 steps of an eighth"),
    ("recursive doubling", [1] * 3, "3 steps of whole vectors"),
    ("Rabenseifner", [0.5, 0.25, EIGHTH, EIGHTH, 0.25, 0.5], "6 steps of a half to an eighth"),
)


def steps() -> Canvas:
    """The steps of four allreduces on 8 ranks, and how long the message of each step is."""
    canvas = Canvas(40)
    for row, (name, parts, words) in enumerate(WAYS):
        base = 31 - 9 * row
        canvas.text((20.5, base + 1.5), name, align="right")
        for step, part in enumerate(parts):
            fill = "strong" if row > 1 else "middle"
            canvas.box((22 + 4 * step, base), 3.4, 6.5 * part, fill=fill, rounded=False)
        if name == "ring":
            canvas.text((22, base + 3), words, align="left", size=9)
        else:
            canvas.text((24 + 4 * len(parts), base + 1.5), words, align="left", size=9)
    canvas.arrow((64, 1.6), (76, 1.6))
    canvas.text((62.5, 1.6), "step by step", align="right", size=9)
    return canvas
