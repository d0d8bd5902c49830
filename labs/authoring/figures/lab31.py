"""Figures of lab 31."""

from authoring.figures.canvas import Canvas


def servers() -> Canvas:
    """One server, two servers with half of the parameters each, and a ring without a server."""
    canvas = Canvas(40)
    for left, title in ((1, "one server"), (35, "two servers"), (69, "ring allreduce")):
        canvas.text((left + 15, 37.5), title, bold=True)
    # One server: four whole vectors in, four out.
    canvas.box((8, 27), 16, 6, "server: all", fill="strong")
    for worker in range(4):
        x = 4.5 + 7.7 * worker
        canvas.circle((x, 9), str(worker + 1))
        canvas.arrow((x, 11.6), (11 + 3.3 * worker, 27), both=True)
    # Two servers: each worker talks to both.
    for server, words in enumerate(("first half", "second half")):
        canvas.box((34.5 + 16 * server, 27), 14.5, 6, words, fill="strong")
    for worker in range(4):
        x = 38.5 + 7.7 * worker
        canvas.circle((x, 9), str(worker + 1))
        for server in range(2):
            top = 37.2 + 16 * server + 3.0 * worker
            canvas.arrow((x, 11.6), (top, 27), both=True, width=1.0)
    # A ring of four.
    places = [(75, 30), (93, 30), (93, 12), (75, 12)]
    for rank, at in enumerate(places):
        canvas.circle(at, str(rank), fill="middle")
    for (x0, y0), (x1, y1) in zip(places, places[1:] + places[:1], strict=True):
        dx, dy = (x1 - x0) / 18, (y1 - y0) / 18
        canvas.arrow((x0 + 2.7 * dx, y0 + 2.7 * dy), (x1 - 2.7 * dx, y1 - 2.7 * dy))
    canvas.text((16, 3.3), "workers 1 to 4: whole vectors", size=9)
    canvas.text((50, 3.3), "workers 1 to 4: half vectors", size=9)
    canvas.text((84, 3.3), "ranks 0 to 3: quarter vectors", size=9)
    return canvas
