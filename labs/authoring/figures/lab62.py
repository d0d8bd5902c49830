"""Figures of lab 62."""

from authoring.figures.canvas import Canvas


def stages() -> Canvas:
    """Forward and backward pass on three stages: one rank computes at a time."""
    canvas = Canvas(33)
    left, width = 16, 8
    forward = [(left + width * rank, left + width * (rank + 1)) for rank in range(3)]
    back_begin = left + 3 * width
    for rank in range(3):
        y = 25 - 8.5 * rank
        begin = back_begin + 2 * width * (2 - rank)
        spans = [
            (*forward[rank], "forward", "light"),
            (begin, begin + 2 * width, "backward", "middle"),
        ]
        canvas.line([(left, y + 2.1), (92, y + 2.1)], width=0.5)
        canvas.lane(y, f"rank {rank}", spans, left=15)
        if rank:
            x = forward[rank][0]
            canvas.arrow((x, y + 8.5), (x, y + 4.2), dashed=True, width=1.2)
            canvas.arrow((begin + 2 * width, y + 4.2), (begin + 2 * width, y + 8.5), width=1.2)
    canvas.text((33.5, 22.6), "activations", size=9, align="left")
    canvas.text((73, 22.6), "gradients", size=9, align="left")
    canvas.arrow((left, 2.5), (92, 2.5), width=1.2)
    canvas.text((95.5, 2.5), "time", size=9)
    return canvas
