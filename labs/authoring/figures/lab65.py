"""Figures of lab 65."""

from authoring.figures.canvas import Canvas


def spans() -> Canvas:
    """Ranges that overlap, and ranges that do not."""
    canvas = Canvas(34)
    cases = (
        ("overlap", ((20, 52), (40, 74)), "nothing is decided"),
        ("no overlap", ((20, 40), (52, 80)), "A is slower: it is ruled out"),
    )
    for place, (title, ranges, result) in enumerate(cases):
        base = 21 - 14.5 * place
        canvas.text((2, base + 5.2), title, align="left", bold=True)
        for row, ((low, high), name) in enumerate(zip(ranges, "AB", strict=True)):
            y = base + 6.2 - 5.4 * row
            canvas.text((17, y + 1.4), name, bold=True)
            canvas.box((low, y), high - low, 2.8, fill="middle" if row else "light")
        canvas.text((83, base + 4.5), result.replace(": ", ":\n"), align="left", size=9)
    canvas.arrow((20, 2.5), (80, 2.5), width=1.2)
    canvas.text((90, 2.5), "images per second", size=9)
    return canvas
