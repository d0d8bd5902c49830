"""Figures of lab 15."""

from authoring.figures.canvas import Canvas


def prefetch() -> Canvas:
    """Input and compute of three steps: in turns, hidden, and exposed."""
    canvas = Canvas(54)
    canvas.text((2, 51.5), "without prefetch", bold=True, align="left")
    turns = []
    for step in range(3):
        begin = 16 + 22 * step
        turns.append((begin, begin + 8, f"input {step}", "warm"))
        turns.append((begin + 8, begin + 22, f"compute {step}", "middle"))
    canvas.lane(45, "step", turns)
    canvas.text((2, 39), "with prefetch, input shorter than compute", bold=True, align="left")
    computes = [(24 + 14 * i, 38 + 14 * i, f"compute {i}", "middle") for i in range(3)]
    canvas.lane(32.5, "step", computes)
    inputs = [(16, 24, "input 0", "warm"), (24, 32, "input 1", "warm"), (38, 46, "input 2", "warm")]
    canvas.lane(27, "thread", inputs)
    canvas.text((2, 20.5), "with prefetch, input longer than compute", bold=True, align="left")
    spans = []
    for step in range(3):
        begin = 36 + 20 * step
        spans.append((begin, begin + 14, f"compute {step}", "middle"))
        if step < 2:
            spans.append((begin + 14, begin + 20, "wait", "striped"))
    canvas.lane(14, "step", spans)
    longer = [(16 + 20 * i, 36 + 20 * i, f"input {i}", "warm") for i in range(3)]
    canvas.lane(8.5, "thread", longer)
    canvas.arrow((16, 3), (92, 3), "time", shift=(41, 0))
    return canvas
