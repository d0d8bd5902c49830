"""Figures of lab 80."""

from authoring.figures.canvas import Canvas


def study() -> Canvas:
    """A scaling study, from the question to the report."""
    canvas = Canvas(34)
    stages = (
        ("question\nand its rule", "warm"),
        ("prediction", "warm"),
        ("measurement\nin rounds", "middle"),
        ("records", "gray"),
        ("report", "strong"),
    )
    for place, (name, fill) in enumerate(stages):
        left = 2 + 20 * place
        canvas.box((left, 18), 15, 9, name, fill=fill, bold=True)
        if place:
            canvas.arrow((left - 5, 22.5), (left, 22.5))
    canvas.line([(89.5, 18), (89.5, 12.5), (69.5, 12.5)], dashed=True)
    canvas.arrow((69.5, 12.5), (69.5, 18), dashed=True)
    canvas.text((79.5, 9.6), "every number names its records:", size=9)
    canvas.text((89.5, 6), "“44.5 %”", size=9, bold=True)
    canvas.text((69.5, 6), "every sample, time,\nmachine, command", size=9)
    canvas.arrow((84.5, 6), (77.5, 6), dashed=True)
    canvas.bracket(2, 37, 29.5, "before anything is measured")
    return canvas
