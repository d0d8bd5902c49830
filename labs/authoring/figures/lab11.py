"""Figures of lab 11."""

from authoring.figures.canvas import Canvas


def graph() -> Canvas:
    """Four operations, launched one by one by Python, and run as a graph."""
    canvas = Canvas(42)
    canvas.text((2, 39.5), "define-by-run: line by line", bold=True, align="left")
    python, work = [], []
    for place in range(4):
        begin = 16 + 18 * place
        python.append((begin, begin + 12, "Python", "warm"))
        work.append((begin + 12, begin + 18, str(place + 1), "middle"))
    canvas.lane(33, "Python", python)
    canvas.lane(27, "operations", work)
    canvas.text((2, 20.5), "define-and-run: as a graph", bold=True, align="left")
    canvas.lane(14, "Python", [(16, 28, "one call", "warm")])
    graph = [(28 + 6 * place, 34 + 6 * place, str(place + 1), "middle") for place in range(4)]
    canvas.lane(8, "operations", graph)
    canvas.arrow((16, 3), (92, 3), "time", shift=(41, 0))
    canvas.bracket(53, 88, 13, "time saved")
    return canvas
