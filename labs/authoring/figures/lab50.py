"""Figures of lab 50."""

from authoring.figures.canvas import Canvas


def scaling() -> Canvas:
    """A step on one rank and on two: the same work shared, or twice the work."""
    canvas = Canvas(41)
    unit = 0.62  # per ms
    for left, title, work, after in (
        (12, "strong: one batch of 40 ms for all ranks", 20, "24 ms"),
        (61, "weak: a batch of 40 ms for each rank", 40, "44 ms"),
    ):
        canvas.text((left - 10, 38.5), title, align="left", bold=True)
        canvas.lane(28, "rank 0", [(left, left + unit * 40, "compute", "light")], left=left)
        canvas.text((left + unit * 40 + 1, 30.1), "40 ms", align="left", size=9)
        done = left + unit * work
        end = done + unit * 4
        for rank in range(2):
            y = 14.5 - 6.5 * rank
            spans = [(left, done, "compute", "light"), (done, end, "", "striped")]
            canvas.lane(y, f"rank {rank}", spans, left=left)
        canvas.text((end + 1, 13.3), after, align="left", size=9)
        canvas.text((left - 10, 34.2), "on one rank", align="left", size=9)
        canvas.text((left - 10, 21), "on two ranks", align="left", size=9)
    canvas.box((30, 1), 3, 3.4, fill="striped", rounded=False)
    canvas.text((34.5, 2.7), "allreduce of the gradients, 4 ms", align="left", size=9)
    return canvas
