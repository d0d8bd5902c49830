"""Figures of lab 61."""

from authoring.figures.canvas import Canvas


def servers() -> Canvas:
    """Two workers with two parameter servers, and two workers in a ring."""
    canvas = Canvas(38)
    canvas.text((28, 35.5), "parameter servers", bold=True)
    canvas.text((81, 35.5), "a ring", bold=True)
    canvas.box((5, 22), 20, 8, "server 0\nfc6 and others", fill="strong")
    canvas.box((32, 22), 20, 8, "server 1\nother variables", fill="light")
    for worker, left in enumerate((5, 32)):
        canvas.box((left, 4), 20, 7, f"worker {worker}", fill="warm")
    for start, end, width in (
        ((15, 11), (15, 22), 4.5),
        ((42, 11), (42, 22), 1.2),
        ((36, 11), (21, 22), 4.5),
        ((21, 11), (36, 22), 1.2),
    ):
        canvas.arrow(start, end, both=True, width=width)
    for worker, left in enumerate((62, 84)):
        canvas.box((left, 13), 14, 7, f"worker {worker}", fill="warm")
    canvas.arrow((76, 18.5), (84, 18.5), width=2.4)
    canvas.arrow((84, 14.5), (76, 14.5), width=2.4)
    canvas.text((80, 23), "as many bytes\nin each direction", size=9)
    canvas.text((28, 1.2), "wide arrows: most of the bytes", size=9)
    return canvas
