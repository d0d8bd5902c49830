"""Figures of lab 21."""

from authoring.figures.canvas import Canvas

RANKS = 4
CELL = 2.6  # units


def collectives() -> Canvas:
    """What five collectives leave on each of four ranks, chunk by chunk."""
    canvas = Canvas(43)
    whole = {(chunk, rank) for chunk in range(RANKS) for rank in range(RANKS)}
    own = {(rank, rank) for rank in range(RANKS)}
    rows = (
        ("broadcast from 1", _own_values(), dict.fromkeys(whole, "warm")),
        ("reduce to 0", _own_values(), {(chunk, 0): "strong" for chunk in range(RANKS)}),
        ("allreduce", _own_values(), dict.fromkeys(whole, "strong")),
        ("reduce-scatter", _own_values(), dict.fromkeys(own, "strong")),
        ("allgather", dict.fromkeys(own, "strong"), dict.fromkeys(whole, "strong")),
    )
    for place, (name, before, after) in enumerate(rows):
        left = 1 + 33.5 * (place % 3)
        base = 25 if place < 3 else 3.5
        canvas.text((left + 15, base + 14), name, bold=True)
        _table(canvas, left, base, before)
        _table(canvas, left + 18, base, after)
        canvas.arrow((left + 12, base + 6), (left + 17, base + 6))
    fills = (("warm", "values of rank 1"), ("strong", "a chunk of the sum"))
    for place, (fill, words) in enumerate(fills):
        canvas.box((70, 11 - 5 * place), CELL, CELL, fill=fill, rounded=False)
        canvas.text((74, 12.3 - 5 * place), words, align="left", size=9)
    canvas.text((70, 17), "one column per rank, 0 to 3", align="left", size=9)
    return canvas


def _own_values() -> dict:
    fills = ("light", "warm", "gray", "striped")
    return {(chunk, rank): fills[rank] for chunk in range(RANKS) for rank in range(RANKS)}


def _table(canvas: Canvas, left: float, base: float, cells: dict) -> None:
    """A column per rank, a row per chunk, the first one on top."""
    for chunk in range(RANKS):
        for rank in range(RANKS):
            corner = (left + CELL * 1.12 * rank, base + CELL * 1.08 * (RANKS - 1 - chunk))
            fill = cells.get((chunk, rank), "plain")
            canvas.box(corner, CELL, CELL, fill=fill, rounded=False)
