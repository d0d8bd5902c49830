"""Figures of lab 22."""

from authoring.figures.canvas import Canvas


def rounds() -> Canvas:
    """One round of ping-pong and one round of the bandwidth test, over time."""
    canvas = Canvas(32)
    for left, title in ((9, "ping-pong: latency"), (57, "a window: bandwidth")):
        canvas.text((left + 20.5, 29.5), title, bold=True)
        for rank, y in enumerate((23, 10)):
            canvas.text((left - 1, y), f"rank {rank}", align="right", size=9)
            canvas.line([(left, y), (left + 40, y)])
    canvas.arrow((12, 23), (27, 10), "ball", shift=(4, 2))
    canvas.arrow((28, 10), (43, 23), "ball", shift=(4.5, -2))
    canvas.bracket(12, 43, 6.5, "one round; half of it counts", up=False)
    for message in range(5):
        canvas.arrow((60 + 3 * message, 23), (67 + 3 * message, 10))
    canvas.text((80, 17), "…", size=12)
    canvas.arrow((84, 10), (91, 23), "reply", shift=(4, -2), dashed=True)
    canvas.bracket(60, 91, 6.5, "one round; all bytes of the window count", up=False)
    canvas.arrow((88, 1.3), (98, 1.3))
    canvas.text((86.5, 1.3), "time", align="right", size=9)
    return canvas
