"""Figures of lab 01."""

from authoring.figures.canvas import Canvas


def waits() -> Canvas:
    """A call that is launched while the device works on something earlier, timed in three ways."""
    canvas = Canvas(52)
    earlier, work = "earlier work", "this call's work"
    canvas.text((2, 49.5), "one wait, or none", bold=True, align="left")
    canvas.lane(42, "CPU", [(26, 30, "", "strong"), (30, 76, "wait", "gray")])
    canvas.lane(37, "device", [(16, 44, earlier, "warm"), (44, 76, work, "light")])
    canvas.arrow((28, 49), (28, 46.4), "launch", shift=(5.5, 0.6))
    canvas.bracket(26, 30, 35, "no wait: only the launch", up=False)
    canvas.bracket(
        26, 76, 30, "one wait: this call's work, and a part of the earlier work", up=False
    )
    canvas.text((2, 24), "two waits", bold=True, align="left")
    spans = [(26, 44, "wait", "gray"), (44, 48, "", "strong"), (48, 80, "wait", "gray")]
    canvas.lane(16, "CPU", spans)
    canvas.lane(11, "device", [(16, 44, earlier, "warm"), (48, 80, work, "light")])
    canvas.arrow((46, 23), (46, 20.4), "launch", shift=(5.5, 0.6))
    canvas.bracket(44, 80, 8.5, "this call: its launch and its work", up=False)
    canvas.arrow((16, 2.5), (90, 2.5), "time", shift=(40, 0))
    return canvas
