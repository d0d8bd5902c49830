"""Figures of lab 72."""

from authoring.figures.canvas import Canvas


def hang() -> Canvas:
    """One rank that is missing from a collective, and one that has made an additional call."""
    canvas = Canvas(39)
    canvas.text((24, 36.5), "one rank is missing", bold=True)
    for rank in range(3):
        y = 25 - 9 * rank
        canvas.circle((5, y + 3), str(rank))
        if rank == 1:
            canvas.box((10, y), 14, 6, "read_bytes", fill="striped", size=9)
            canvas.box((31, y), 14, 6, "all_reduce", fill="plain", dashed=True, size=9)
            canvas.arrow((24, y + 3), (31, y + 3), dashed=True)
        else:
            canvas.arrow((8, y + 3), (31, y + 3))
            canvas.box((31, y), 14, 6, "all_reduce", fill="middle", size=9)
    canvas.text(
        (24, 2.6), "ranks 0 and 2 wait in a line of their code\nthat is a collective", size=9
    )

    canvas.text((76, 36.5), "the calls do not match", bold=True)
    healthy = ("all_reduce", "all_gather", "all_reduce")
    shifted = ("all_reduce", "broadcast", "all_gather")
    canvas.box((71.5, 5.4), 13, 27.2, fill="gray")
    for rank in range(3):
        y = 25 - 9 * rank
        canvas.circle((53, y + 3), str(rank))
        for place, call in enumerate(shifted if rank == 1 else healthy):
            fill = "striped" if call == "broadcast" else ("middle" if place == 0 else "plain")
            canvas.box((58 + 14 * place, y), 12, 6, call, fill=fill, size=9)
    for place, words in enumerate(("first calls", "second calls", "third calls")):
        canvas.text((64 + 14 * place, 2.6), words, size=9)
    return canvas
