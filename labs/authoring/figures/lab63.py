"""Figures of lab 63."""

from authoring.figures.canvas import Canvas

RANKS = 3
MICRO = 4


def schedules() -> Canvas:
    """GPipe and 1F1B on three ranks with four micro-batches."""
    canvas = Canvas(50)
    for base, name, plans in (
        (27, "GPipe", [_gpipe() for _ in range(RANKS)]),
        (3.5, "1F1B", [_one_forward_one_backward(rank) for rank in range(RANKS)]),
    ):
        canvas.text((1, base + 19.5), name, align="left", bold=True)
        for rank, row in enumerate(_times(plans)):
            y = base + 12.5 - 6 * rank
            spans = [
                (
                    16 + 4.2 * begin,
                    16 + 4.2 * end,
                    str(number),
                    "light" if kind == "F" else "middle",
                )
                for kind, number, begin, end in row
            ]
            canvas.lane(y, f"rank {rank}", spans, left=15)
    for place, (words, fill) in enumerate((("forward", "light"), ("backward", "middle"))):
        canvas.box((66 + 16 * place, 45.3), 3, 3, fill=fill, rounded=False)
        canvas.text((70 + 16 * place, 46.8), words, align="left", size=9)
    return canvas


def _gpipe() -> list:
    return [("F", n) for n in range(MICRO)] + [("B", n) for n in range(MICRO)]


def _one_forward_one_backward(rank: int) -> list:
    warm = min(MICRO, RANKS - 1 - rank)
    plan = [("F", n) for n in range(warm)]
    for n in range(warm, MICRO):
        plan += [("F", n), ("B", n - warm)]
    return plan + [("B", n) for n in range(MICRO - warm, MICRO)]


def _times(plans: list) -> list:
    """By rank (kind, number, begin, end): a forward pass takes 1, a backward pass 2."""
    ended: dict = {}
    clocks = [0] * RANKS
    rows: list = [[] for _ in range(RANKS)]
    left = [list(plan) for plan in plans]
    while any(left):
        for rank, plan in enumerate(left):
            if not plan:
                continue
            kind, number = plan[0]
            source = rank - 1 if kind == "F" else rank + 1
            needed = (kind, number, source)
            if 0 <= source < RANKS and needed not in ended:
                continue
            begin = max(clocks[rank], ended.get(needed, 0))
            clocks[rank] = begin + (1 if kind == "F" else 2)
            ended[kind, number, rank] = clocks[rank]
            rows[rank].append((kind, number, begin, clocks[rank]))
            plan.pop(0)
    return rows
