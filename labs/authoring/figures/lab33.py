"""Figures of lab 33."""

from authoring.figures.canvas import Canvas

RANKS = 9
STEPS = 4
LEFT = 24


def gossip() -> Canvas:
    """One value among nine ranks of a ring: four gossip steps, and an allreduce beside them."""
    canvas = Canvas(45)
    width = 8.0
    for rank in range(RANKS):
        canvas.text((LEFT + width * rank + 3.6, 41.5), f"rank {rank}", size=9)
    values = [0.0] * RANKS
    values[RANKS // 2] = 9.0
    for step in range(STEPS + 1):
        y = 33.5 - 6.4 * step
        name = "start" if step == 0 else f"gossip step {step}"
        _row(canvas, y, name, values, width)
        values = [
            (values[rank - 1] + values[rank] + values[(rank + 1) % RANKS]) / 3
            for rank in range(RANKS)
        ]
    _row(canvas, 0.8, "an allreduce", [1.0] * RANKS, width)
    return canvas


def _row(canvas: Canvas, y: float, name: str, values: list[float], width: float) -> None:
    """All ranks' values at one time; the larger a value, the darker its box."""
    canvas.text((LEFT - 2, y + 2.5), name, align="right")
    for rank, value in enumerate(values):
        if value > 2.5:
            fill = "strong"
        elif value > 1.5:
            fill = "middle"
        else:
            fill = "light" if value > 0 else "plain"
        words = f"{value:.1f}".removesuffix(".0")
        canvas.box((LEFT + width * rank, y), 7.2, 5, words, fill=fill)
