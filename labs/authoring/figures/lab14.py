"""Figures of lab 14."""

from authoring.figures.canvas import Canvas

FORMATS = (("float32", 8, 23), ("float16", 5, 10), ("bfloat16", 8, 7))


def bits() -> Canvas:
    """Sign, exponent and fraction of three formats, a box for each bit."""
    canvas = Canvas(37)
    left, wide = 17, 2.5
    for row, (name, exponent, fraction) in enumerate(FORMATS):
        y = 26 - 11.5 * row
        canvas.text((left - 1.5, y + 2.1), name, align="right", bold=True)
        for bit in range(1 + exponent + fraction):
            fill = "gray" if bit == 0 else "warm" if bit <= exponent else "middle"
            canvas.box((left + wide * bit, y), wide, 4.2, fill=fill, rounded=False)
        begin = left + wide
        middle = begin + wide * exponent
        end = middle + wide * fraction
        canvas.text((left + wide / 2, y + 6.6), "sign", size=9)
        canvas.bracket(begin + 0.5, middle - 0.3, y + 5.2, f"exponent: {exponent}")
        canvas.bracket(middle + 0.3, end, y + 5.2, f"fraction: {fraction}")
    return canvas


def segments() -> Canvas:
    """Three segments of three layers: after the forward pass, and within the backward pass."""
    canvas = Canvas(36)
    rows = ((22, "forward\npass", ("", "", "")), (6, "backward\npass", ("", "again", "freed")))
    for y, name, states in rows:
        canvas.text((13, y + 3), name, align="right", bold=True)
        for segment in range(3):
            left = 16 + 27 * segment
            if states[segment] != "freed":
                canvas.box((left, y), 5, 6, "x", fill="strong")
                canvas.arrow((left + 5, y + 3), (left + 8.5, y + 3))
            for layer in range(3):
                again = states[segment] == "again"
                number = str(3 * segment + layer + 1)
                place = (left + 8.5 + 4.6 * layer, y)
                fill = "middle" if again else "plain"
                canvas.box(place, 4.6, 6, number, fill=fill, rounded=False, dashed=not again)
            if segment < 2 and states[segment + 1] != "freed":
                canvas.arrow((left + 22.3, y + 3), (left + 27, y + 3))
    canvas.text((56, 31.5), "kept: the inputs x of the segments", size=9)
    canvas.text((29, 15), "not yet reached", size=9)
    canvas.text((56, 15), "run again, outputs kept", size=9)
    canvas.text((86, 15), "finished and freed", size=9)
    canvas.text((50, 2), "dashed: outputs that are not in memory", size=9)
    return canvas
