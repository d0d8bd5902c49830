"""Figures of lab 53."""

from authoring.figures.canvas import Canvas


def jitter() -> Canvas:
    """Three steps of four ranks; in each of them all wait for another rank."""
    canvas = Canvas(38)
    steps = ((17, 19, 25, 18), (18, 23, 17, 20), (27, 18, 19, 17))  # units of computing by rank
    left = 12.0
    for number, computing in enumerate(steps):
        slowest = max(computing)
        for rank, length in enumerate(computing):
            y = 27 - 6.5 * rank
            late = length == slowest
            spans = [
                (left, left + length, "slowest" if late else "", "strong" if late else "light")
            ]
            if not late:
                spans.append((left + length, left + slowest, "", "striped"))
            canvas.lane(y, f"rank {rank}" if number == 0 else "", spans, left=left)
        canvas.line([(left + slowest, 6), (left + slowest, 33)], dashed=True)
        canvas.text((left + slowest / 2, 34.5), f"step {number}")
        left += slowest
    for x, fill, words in ((22, "light", "computes"), (47, "striped", "waits in the allreduce")):
        canvas.box((x, 0.8), 3, 3, fill=fill, rounded=False)
        canvas.text((x + 4.5, 2.4), words, align="left", size=9)
    return canvas
