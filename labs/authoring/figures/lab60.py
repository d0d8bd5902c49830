"""Figures of lab 60."""

from authoring.figures.canvas import Canvas

_RANKS = 4


def zero() -> Canvas:
    """What each of four ranks keeps with Adam in FP32: 4 + 4 + 8 bytes per parameter, or shards."""
    canvas = Canvas(34)
    whole = (
        ("parameters", 5.4, "light"),
        ("gradients", 5.4, "middle"),
        ("optimizer\nstate", 10.8, "warm"),
    )
    stages = (
        ("DDP", (1, 1, 1)),
        ("ZeRO stage 1", (1, 1, _RANKS)),
        ("ZeRO stage 2", (1, _RANKS, _RANKS)),
        ("ZeRO stage 3 (FSDP)", (_RANKS, _RANKS, _RANKS)),
    )
    for place, (name, parts) in enumerate(stages):
        left = 18 + 20.5 * place
        for rank in range(_RANKS):
            x = left + 4.4 * rank
            y = 6.5
            for (_, height, fill), shards in zip(whole, parts, strict=True):
                # A quarter of what all ranks would keep otherwise.
                canvas.box((x, y), 3.8, height / shards, fill=fill, rounded=False)
                y += height / shards
            canvas.text((x + 1.9, 4.4), str(rank), size=9)
        canvas.text((left + 8.5, 31), name, bold=True)
        canvas.text((left + 8.5, 1.6), "rank", size=9)
    y = 6.5
    for name, height, _ in whole:
        canvas.text((16.5, y + height / 2), name, align="right")
        y += height
    return canvas
