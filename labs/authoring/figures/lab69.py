"""Figures of lab 69."""

from authoring.figures.canvas import SMALL, Canvas

LAYERS = 3
COMPUTE, GATHER = 14, 11  # units of time


def fsdp() -> Canvas:
    """A forward pass of three sharded layers, and whose parameters are in memory."""
    canvas = Canvas(53)
    _way(canvas, 28, "without prefetch", _in_turns())
    _way(canvas, 1, "with prefetch", _ahead())
    return canvas


def _in_turns() -> list[tuple[float, float, float]]:
    """By layer: the gather begins, computing begins, computing ends."""
    return [
        (
            (COMPUTE + GATHER) * layer,
            (COMPUTE + GATHER) * layer + GATHER,
            (COMPUTE + GATHER) * (layer + 1),
        )
        for layer in range(LAYERS)
    ]


def _ahead() -> list[tuple[float, float, float]]:
    starts = [GATHER + COMPUTE * layer for layer in range(LAYERS)]
    gathers = [0, *starts[:-1]]
    return [(gather, start, start + COMPUTE) for gather, start in zip(gathers, starts, strict=True)]


def _way(canvas: Canvas, base: float, name: str, layers: list[tuple[float, float, float]]) -> None:
    left = 20
    canvas.text((3, base + 22.5), name, bold=True, align="left")
    gathers = [
        (left + begin, left + begin + GATHER, f"gather {layer}", "warm")
        for layer, (begin, _, _) in enumerate(layers)
    ]
    computes = [
        (left + start, left + end, f"layer {layer}", "middle")
        for layer, (_, start, end) in enumerate(layers)
    ]
    canvas.lane(base + 15, "link", gathers, left=left)
    canvas.lane(base + 9.5, "computes", computes, left=left)
    rows = [base + 4.5, base + 1.5]
    canvas.text((left - 1.5, base + 4.3), "full parameters\nin memory", align="right", size=SMALL)
    for layer, (begin, _, end) in enumerate(layers):
        y = rows[layer % 2]
        canvas.box((left + begin, y), end - begin, 2.6, str(layer), size=SMALL, rounded=False)
        canvas.line([(left + end, base + 0.5), (left + end, base + 9.5)], dashed=True)
