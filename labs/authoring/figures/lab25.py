"""Figures of lab 25."""

from authoring.figures.canvas import Canvas

LENGTH = 14  # units for the time of a whole vector
FILLS = ("plain", "light", "middle", "strong")  # by chunk


def broadcasts() -> Canvas:
    """Three broadcasts from rank 0 to ranks 1, 2 and 3: what each rank sends, and when."""
    canvas = Canvas(33)
    quarter = LENGTH / 4
    panels = (
        ("tree", 9, [(0, 0, 4, None), (0, 4, 4, None), (2, 4, 4, None)], 8),
        ("scatter-allgather", 45, _scatter_allgather(), 6),
        ("pipelined chain", 75, [(r, r + i, 1, i) for r in range(3) for i in range(4)], 6),
    )
    for name, left, sends, end in panels:
        canvas.text((left, 30.5), name, bold=True, align="left")
        for rank in range(4):
            y = 23 - 5.5 * rank
            canvas.line(
                [(left, y), (left + 8 * quarter, y)]
                if name == "tree"
                else [(left, y), (left + 6 * quarter, y)]
            )
            if name == "tree":
                canvas.text((left - 1, y + 1.8), f"rank {rank}", align="right", size=9)
        for rank, begin, length, chunk in sends:
            fill = "warm" if chunk is None else FILLS[chunk]
            words = "whole" if chunk is None else str(chunk)
            corner = (left + begin * quarter, 23 - 5.5 * rank)
            canvas.box(corner, length * quarter, 3.6, words, fill=fill, size=9, rounded=False)
        canvas.bracket(left, left + end * quarter, 4.6, f"{end / 4:g} nβ", up=False)
    return canvas


def _scatter_allgather() -> list[tuple[int, int, int, int]]:
    """(rank, begin, length, chunk) of each message, in quarters."""
    scatter = [(0, place, 1, place + 1) for place in range(3)]
    return scatter + [(r, 3 + i, 1, (r - i) % 4) for i in range(3) for r in range(4)]
