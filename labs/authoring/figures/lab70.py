"""Figures of lab 70."""

from authoring.figures.canvas import Canvas


def lives() -> Canvas:
    """A job that is killed after step 13, and its second life from the checkpoint of step 10."""
    canvas = Canvas(36)
    unit = 5.2
    left = 12

    def place(step: float) -> float:
        return left + unit * step

    for row, (first, last, again) in enumerate(((1, 13, ()), (11, 15, (11, 12, 13)))):
        y = 24 - 14 * row
        name = ("first life", "second life")[row]
        canvas.text((left - 1.5, y + 2.5), name.replace(" ", "\n"), align="right")
        for step in range(first, last + 1):
            fill = "striped" if step in again else "light"
            box = (place(step - 1), y)
            canvas.box(box, unit, 5, str(step), fill=fill, size=9, rounded=False)
    for step in (5, 10):
        canvas.arrow((place(step), 33), (place(step), 29.2))
        canvas.text((place(step), 34.3), "save", size=9)
    canvas.text((place(13) + 1.5, 26.5), "killed", align="left", bold=True)
    canvas.arrow((place(10), 24), (place(10), 15.2), dashed=True)
    canvas.text((place(10) - 1.5, 19.5), "checkpoint of step 10", align="right", size=9)
    canvas.arrow((place(15), 18), (place(15), 15.2))
    canvas.text((place(15), 19.3), "save", size=9)
    canvas.bracket(place(10), place(13), 7, "done again", up=False)
    return canvas
