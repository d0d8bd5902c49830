"""Figures of lab 52."""

from authoring.figures.canvas import Canvas


def step() -> Canvas:
    """A step of 0.6 s: 0.4 s of computing, and two buckets that are sent one after the other."""
    canvas = Canvas(35)
    left = 18

    def at(seconds: float) -> float:
        return left + 120 * seconds

    forward = 0.4 / 3
    computing = [(at(0), at(forward), "forward pass", "light")]
    computing.append((at(forward), at(0.4), "backward pass", "middle"))
    canvas.lane(23, "computing", computing, left=left, height=5)
    sending = [(at(0.2), at(0.5), "bucket 1, 0.3 s", "warm")]
    sending.append((at(0.5), at(0.6), "bucket 2, 0.1 s", "striped"))
    canvas.lane(11, "allreduce", sending, left=left, height=5)
    canvas.text((at(0.2), 31), "bucket 1 is full", size=9)
    canvas.text((at(0.4), 31), "bucket 2 is full", size=9)
    canvas.arrow((at(0.2), 29.8), (at(0.2), 16.2))
    canvas.arrow((at(0.4), 29.8), (at(0.4), 16.2))
    canvas.text((at(0.41), 19.5), "bucket 2 waits for bucket 1", align="left", size=9)
    canvas.line([(at(0), 6), (at(0.62), 6)])
    for tenth in (0, 2, 4, 5, 6):
        canvas.line([(at(tenth / 10), 5.3), (at(tenth / 10), 6.7)])
        canvas.text((at(tenth / 10), 3.6), f"{tenth / 10:.1f} s" if tenth else "0", size=9)
    return canvas
