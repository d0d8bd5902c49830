"""Figures of lab 80."""

from authoring.figures.canvas import Canvas


def study() -> Canvas:
    """A scaling study, from the question to the report."""
    canvas = Canvas(30)
    stages = (
        ("question\nand its rule", "warm"),
        ("prediction", "warm"),
        ("measurement\nin rounds", "middle"),
        ("records", "gray"),
        ("report", "strong"),
    )
    for place, (name, fill) in enumerate(stages):
        left = 2 + 20 * place
        canvas.box((left, 14), 15, 9, name, fill=fill, bold=True)
        if place:
            canvas.arrow((left - 5, 18.5), (left, 18.5))
    canvas.line([(89.5, 14), (89.5, 8), (69.5, 8)], dashed=True)
    canvas.arrow((69.5, 8), (69.5, 14), dashed=True)
    canvas.text((79.5, 5.4), "every number names its record", size=9)
    canvas.bracket(2, 37, 25.5, "before anything is measured")
    return canvas
