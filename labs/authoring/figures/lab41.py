"""Figures of lab 41."""

from authoring.figures.canvas import Canvas


def broadcast() -> Canvas:
    """When the ranks become equal in fit: after the first step, or before it."""
    canvas = Canvas(41)
    canvas.text((2, 38.5), "the callback alone", align="left", bold=True)
    canvas.text((2, 17.5), "begin_equal before fit", align="left", bold=True)
    for rank in range(2):
        y = 30.5 - 6 * rank
        own = "light" if rank == 0 else "striped"
        spans = [(16, 40, "step 1", own), (54, 74, "step 2", "light"), (74, 94, "step 3", "light")]
        canvas.lane(y, f"rank {rank}", spans, left=15)
        y = 9.5 - 6 * rank
        spans = [
            (begin, begin + 20, f"step {n}", "light") for n, begin in ((1, 34), (2, 54), (3, 74))
        ]
        canvas.lane(y, f"rank {rank}", spans, left=15)
    canvas.box((42, 24.5), 10, 10.2, "broad-\ncast", fill="strong", size=9)
    canvas.box((18, 3.5), 12, 10.2, "broadcast", fill="strong", size=9)
    canvas.text((28, 22.3), "gradients of two different networks", size=9)
    canvas.arrow((16, 1), (94, 1), width=1.2)
    canvas.text((97, 1), "time", size=9)
    return canvas
