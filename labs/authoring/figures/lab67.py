"""Figures of lab 67."""

from authoring.figures.canvas import FILLS, SMALL, Canvas

RANKS = 4
OF_RANKS = ("light", "middle", "warm", "gray")  # fills: what belongs to rank 0, 1, …


def ring() -> Canvas:
    """Four ranks whose blocks travel, and what one of them does when."""
    canvas = Canvas(44)
    corners = [(3, 29), (27, 29), (27, 7), (3, 7)]
    for rank, (x, y) in enumerate(corners):
        canvas.group((x - 1.5, y - 2), 17, 13.5, f"rank {rank}")
        canvas.box((x, y), 5.5, 6, f"Q{rank}", fill="plain", size=SMALL)
        canvas.box((x + 7, y), 7, 6, f"KV{rank}", fill=OF_RANKS[rank], size=SMALL)
    canvas.arrow((18.5, 32), (25.5, 32))
    canvas.arrow((34, 27), (34, 18.5))
    canvas.arrow((25.5, 10), (18.5, 10))
    canvas.arrow((10, 18.5), (10, 27))
    canvas.text((22, 22.5), "blocks travel,\nqueries stay", size=SMALL)

    canvas.text((75, 39), "rank 0", bold=True)
    blocks = [0, 3, 2, 1]
    left = 57
    computing = [
        (left + 10 * step, left + 10 * (step + 1), f"with KV{block}", OF_RANKS[block])
        for step, block in enumerate(blocks)
    ]
    arriving = [
        (left + 10 * step, left + 10 * step + 7, f"KV{block}", OF_RANKS[block])
        for step, block in enumerate(blocks[1:])
    ]
    canvas.lane(27, "computes", computing, left=left)
    canvas.lane(20, "receives", arriving, left=left)
    for step in range(1, RANKS):
        canvas.line([(left + 10 * step, 17), (left + 10 * step, 33)], dashed=True)
    canvas.arrow((left, 14), (left + 40, 14), "time", shift=(0, -2.2))
    return canvas


def zigzag() -> Canvas:
    """The causal mask over eight chunks, and two ways to assign them to four ranks."""
    canvas = Canvas(46)
    side = 4
    for query in range(2 * RANKS):
        for key in range(2 * RANKS):
            x, y = 12 + side * key, 36 - side * (query + 1)
            fill = "strong" if query > key else "plain"
            canvas.box((x, y), side, side, fill=fill, rounded=False)
            if query == key:
                half = ([x, x, x + side], [y, y + side, y])
                canvas.axes.fill(*half, color=FILLS["strong"][0], zorder=3)
        canvas.text((9.5, 34 - side * query), str(query), size=SMALL)
        canvas.text((14 + side * query, 38), str(query), size=SMALL)
    canvas.text((28, 41.5), "chunk of keys", size=SMALL)
    canvas.text((5, 20), "chunk\nof\nqueries", size=SMALL)
    ways = {
        "neighbors": [chunk // 2 for chunk in range(2 * RANKS)],
        "zigzag": [min(chunk, 2 * RANKS - 1 - chunk) for chunk in range(2 * RANKS)],
    }
    for base, (name, owners) in zip((25, 3), ways.items(), strict=True):
        canvas.text((74, base + 15.5), f"{name}: owners of the chunks", bold=True)
        for chunk, owner in enumerate(owners):
            corner = (54 + 5 * chunk, base + 7.5)
            canvas.box(corner, 5, 4.5, str(owner), fill=OF_RANKS[owner], rounded=False)
        work = [
            sum(chunk + 0.5 for chunk, owner in enumerate(owners) if owner == rank)
            for rank in range(RANKS)
        ]
        words = ", ".join(f"{pairs:g}" for pairs in work)
        canvas.text((74, base + 3), f"pairs to compute on ranks 0 to 3: {words}", size=SMALL)
    return canvas
