"""Figures of lab 35."""

from authoring.figures.canvas import Canvas

VALUES = (3, -1, 1, -5, 0.5, -0.5)
BYTE = 3.1  # units


def forms() -> Canvas:
    """Six values as float32, as float16, as bits with two means, and as the top two."""
    canvas = Canvas(37)
    rows = (
        ("float32", [(f"{value:g}".replace("-", "−"), 4, "light") for value in VALUES]),
        ("float16", [(f"{value:g}".replace("-", "−"), 2, "middle") for value in VALUES]),
        ("one bit each", [("mean", 4, "warm"), ("mean", 4, "warm"), ("", 1, "strong")]),
        (
            "top 2",
            [("place 3", 4, "gray"), ("0", 4, "gray"), ("−5", 4, "light"), ("3", 4, "light")],
        ),
    )
    for place, (name, parts) in enumerate(rows):
        y = 29.5 - 8.5 * place
        canvas.text((16, y + 2.4), name, align="right", bold=True)
        x = 18.0
        for words, count, fill in parts:
            canvas.box((x, y), BYTE * count, 4.8, words, fill=fill, size=9, rounded=False)
            x += BYTE * count
        total = f"{sum(count for _, count, _ in parts)} bytes"
        if name == "one bit each":
            total += ", the last with the six bits"
        canvas.text((x + 1.2, y + 2.4), total, align="left", size=9)
    return canvas
