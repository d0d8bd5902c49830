"""Figures of lab 40."""

from authoring.figures.canvas import Canvas


def step() -> Canvas:
    """One step of data-parallel training on four ranks."""
    canvas = Canvas(34)
    phases = [
        (17, 31, "forward pass", "light"),
        (31, 52, "backward pass", "middle"),
        (70, 83, "update", "light"),
    ]
    for rank in range(4):
        y = 23 - 6 * rank
        canvas.lane(y, f"rank {rank}", phases, left=15)
    canvas.box((54, 4.2), 14, 23.8, "allreduce:\nmean of the\nfour gradients", fill="strong")
    for rank in range(4):
        y = 25.1 - 6 * rank
        canvas.arrow((52, y), (54, y))
        canvas.arrow((68, y), (70, y))
    canvas.text((85, 16.1), "the same\nweights on\nall ranks", size=9, align="left")
    canvas.bracket(17, 52, 29.5, "on this rank's own images; no communication")
    canvas.bracket(54, 68, 29.5, "over the network")
    canvas.arrow((17, 2.2), (83, 2.2), width=1.2)
    canvas.text((86.5, 2.2), "time", size=9)
    return canvas
