"""Figures of lab 23."""

from authoring.figures.canvas import Canvas


def ring() -> Canvas:
    """Four ranks: all vectors to rank 0 and back, or one chunk each to the right neighbor."""
    canvas = Canvas(44)
    canvas.text((24, 41.5), "rank 0 collects", bold=True)
    places = [(24, 31), (8, 9), (24, 9), (40, 9)]
    for rank in (1, 2, 3):
        x, y = places[rank]
        top = (24 + (rank - 2) * 3, 28)
        canvas.arrow((x + (2 - rank) * 0.6, y + 2.8), top, both=True)
    canvas.text((12.5, 21), "a vector", align="right", size=9)
    canvas.text((35, 21), "the sum", align="left", size=9)
    for rank, place in enumerate(places):
        canvas.circle(place, str(rank), fill="middle" if rank == 0 else "plain")
    canvas.text((24, 2.2), "3 vectors in and 3 out at rank 0, 1 each elsewhere", size=9)

    canvas.text((75, 41.5), "a ring", bold=True)
    ring_places = [(62, 31), (88, 31), (88, 9), (62, 9)]
    labels = [(75, 32.8), (92, 20), (75, 10.8), (58, 20)]
    ends = [
        ((64.8, 31), (85.2, 31)),
        ((88, 28.2), (88, 11.8)),
        ((85.2, 9), (64.8, 9)),
        ((62, 11.8), (62, 28.2)),
    ]
    for rank, ((start, end), label) in enumerate(zip(ends, labels, strict=True)):
        canvas.arrow(start, end)
        align = ("center", "left", "center", "right")[rank]
        at = (label[0] - (2.5 if rank == 1 else 0) + (2.5 if rank == 3 else 0), label[1])
        canvas.text(at, f"chunk {rank}", size=9, align=align)
    for rank, place in enumerate(ring_places):
        canvas.circle(place, str(rank))
    canvas.text((75, 2.2), "a quarter of a vector on each of the four links", size=9)
    return canvas
