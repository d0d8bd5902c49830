"""Figures of lab 62."""

from authoring.figures.canvas import Canvas


def stages() -> Canvas:
    """Three stages, the activations between them, and the gradients that travel back."""
    canvas = Canvas(26)
    blocks = iter(range(5))
    for rank, count in enumerate((2, 1, 2)):
        left, width = 9 + 30 * rank, 18
        canvas.text((left + width / 2, 23.5), f"rank {rank}", bold=True)
        canvas.group((left, 4), width, 17, f"stage {rank}")
        for row in range(count):
            y = (10.8, 4.8)[row] if count == 2 else 7.8
            canvas.box((left + 2, y), width - 4, 5, f"block {next(blocks)}")
        begin, end = left + width, left + width + 12
        words = ("activations", "gradients") if rank < 2 else ("", "")
        canvas.arrow((begin, 14), (end, 14), words[0], width=1.2)
        canvas.arrow((end, 8), (begin, 8), words[1], shift=(0, -1.8), dashed=True, width=1.2)
    canvas.arrow((2, 14), (9, 14), width=1.2)
    canvas.text((3.8, 16.5), "images", size=9)
    canvas.text((97, 16.5), "loss", size=9)
    return canvas
