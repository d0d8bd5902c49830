"""Figures of lab 27."""

from authoring.figures.canvas import Canvas

STEPS = (("to host", "warm"), ("message", "middle"), ("to device", "strong"))


def staging() -> Canvas:
    """The way of a message between two GPUs, and its three steps over time, whole and in chunks."""
    canvas = Canvas(53)
    canvas.group((4, 31), 40, 20, "sending rank")
    canvas.group((56, 31), 40, 20, "receiving rank")
    for left, words in ((7, "GPU memory"), (77, "GPU memory")):
        canvas.box((left, 37), 16, 6, words, fill="strong", size=9)
    for left in (27, 59):
        canvas.box((left, 37), 14, 6, "host memory", fill="warm", size=9)
    for (begin, end), words in zip(
        ((23, 27), (41, 59), (73, 77)), ("to host", "message", "to device"), strict=True
    ):
        canvas.arrow((begin, 40), (end, 40))
        canvas.text(((begin + end) / 2, 35 if words != "message" else 38.2), words, size=9)
    canvas.arrow((15, 43), (85, 43), dashed=True, bend=-0.08)
    canvas.text((50, 47.5), "CUDA-aware MPI", size=8)

    for row, (name, fill) in enumerate(STEPS):
        y = 19 - 5 * row
        canvas.line([(16, y), (56, y)])
        canvas.lane(y, name, [(16 + 12 * row, 28 + 12 * row, "", fill)], height=3.4)
        canvas.line([(62, y), (80, y)])
        canvas.lane(
            y,
            "",
            [(62 + 3 * (row + i), 65 + 3 * (row + i), str(i), fill) for i in range(4)],
            height=3.4,
            left=60,
        )
    canvas.text((16, 26), "staged in one piece", align="left", bold=True)
    canvas.text((62, 26), "pipelined in 4 chunks", align="left", bold=True)
    canvas.bracket(16, 52, 6.5, "3 steps, one after another", up=False)
    canvas.bracket(62, 80, 6.5, "half the time", up=False)
    canvas.arrow((84, 1.5), (96, 1.5))
    canvas.text((82.5, 1.5), "time", align="right", size=9)
    return canvas
