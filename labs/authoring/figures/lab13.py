"""Figures of lab 13."""

from authoring.figures.canvas import Canvas


def splits() -> Canvas:
    """A step on four cores, by one process with four threads and by four processes."""
    canvas = Canvas(62)
    canvas.text((2, 59.5), "1 process × 4 threads", bold=True, align="left")
    for core in range(4):
        spans = [(40, 66, "parallel / 4", "middle")]
        if core == 0:
            spans.insert(0, (16, 40, "serial", "warm"))
        else:
            spans.insert(0, (16, 40, "idle", "plain"))
        canvas.lane(53 - 5.2 * core, f"core {core}", spans)
    canvas.text((2, 32), "4 processes × 1 thread", bold=True, align="left")
    for core in range(4):
        spans = [
            (16, 26, "serial / 4", "warm"),
            (26, 52, "parallel / 4", "middle"),
            (52, 62, "allreduce", "strong"),
        ]
        canvas.lane(25.5 - 5.2 * core, f"core {core}", spans)
    canvas.arrow((16, 4), (84, 4), "time", shift=(37, 0))
    return canvas
