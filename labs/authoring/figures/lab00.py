"""Figures of lab 00."""

from authoring.figures.canvas import Canvas


def ranks() -> Canvas:
    """A notebook and four ranks on one computer with eight cores."""
    canvas = Canvas(40)
    canvas.group((2, 1.5), 96, 37, "one computer (a node)")
    canvas.box((38, 27.5), 24, 6, "notebook", fill="warm")
    for rank in range(4):
        left = 5 + 23.5 * rank
        canvas.box((left, 12), 19.5, 9, f"rank {rank}\nits own memory", fill="light")
        canvas.arrow((50 + 2.5 * (rank - 1.5), 27.5), (left + 9.75, 21), dashed=True)
        if rank < 3:
            canvas.arrow((left + 19.5, 13.5), (left + 23.5, 13.5), both=True)
        for core in range(2):
            name = f"core {2 * rank + core}"
            canvas.box((left + 10 * core, 4), 9.5, 4.5, name, fill="gray", size=9)
        canvas.line([(left + 9.75, 12), (left + 9.75, 8.5)], dashed=True)
    canvas.text((22, 25.5), "starts", size=9)
    canvas.text((26.5, 10.5), "messages", size=9)
    return canvas
