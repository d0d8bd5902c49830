"""Figures of lab 30."""

from authoring.figures.canvas import Canvas


def average() -> Canvas:
    """Eight images, two ranks, and the mean of their gradients."""
    canvas = Canvas(40)
    canvas.text((8, 36), "batch", bold=True)
    for image in range(8):
        fill = "light" if image % 2 == 0 else "warm"
        canvas.box((17 + 8.5 * image, 33), 6.5, 6, str(image), fill=fill)
    for rank, (left, fill) in enumerate(((8, "light"), (56, "warm"))):
        canvas.group((left, 13.5), 36, 14.5, f"rank {rank}")
        for place in range(4):
            name = str(2 * place + rank)
            canvas.box((left + 2 + 4.4 * place, 16), 3.8, 5, name, fill=fill)
        canvas.arrow((left + 19.8, 18.5), (left + 23.2, 18.5))
        canvas.text((left + 29.3, 18.5), "mean of\n4 gradients", size=9)
        for place in range(4):
            start = 17 + 8.5 * (2 * place + rank) + 3.2
            canvas.line([(start, 33), (left + 3.9 + 4.4 * place, 28)])
    canvas.box((33, 3), 34, 6, "allreduce: mean of the two means", fill="strong")
    canvas.arrow((30, 13.5), (42, 9))
    canvas.arrow((70, 13.5), (58, 9))
    canvas.text((50, 0.9), "the gradient of the whole batch, on both ranks", size=9)
    return canvas
