"""Figures of lab 66."""

from authoring.figures.canvas import Canvas


def layer() -> Canvas:
    """Tokens of two ranks travel to the ranks of their experts and back."""
    canvas = Canvas(48)
    fills = ("light", "warm")
    # token -> expert: of rank 0, then of rank 1
    experts = ((2, 0, 1), (3, 0, 3))
    places = {}
    queues = {number: [] for number in range(4)}
    for rank in (0, 1):
        base = 24 - 23 * rank
        canvas.group((1, base), 27, 21, f"rank {rank}: tokens, router")
        canvas.group((39, base), 27, 21, f"rank {rank}: experts")
        canvas.group((77, base), 22, 21, f"rank {rank}: sums")
        for place, number in enumerate(experts[rank]):
            y = base + 12.5 - 5 * place
            name = "abc"[place] if rank == 0 else "def"[place]
            canvas.box((3, y), 5, 4, name, fill=fills[rank], bold=True)
            canvas.text((17, y + 2), f"to expert {number}", size=9)
            canvas.box((85.5, y), 5, 4, name, fill=fills[rank], bold=True)
            queues[number].append((name, rank, y + 2))
        for local in (0, 1):
            canvas.box(
                (41, base + 10.5 - 8 * local),
                12,
                6,
                f"expert {2 * rank + local}",
                fill="middle",
                size=9,
            )
    for number, queue in queues.items():
        y = 24 - 23 * (number // 2) + 10.5 - 8 * (number % 2)
        for place, (name, rank, from_y) in enumerate(queue):
            canvas.box((54.5 + 5.2 * place, y + 1), 4.6, 4, name, fill=fills[rank], bold=True)
            places[name] = (y + 3 + 1.2 * (0.5 - place) * (len(queue) - 1), from_y)
    for y, from_y in places.values():
        canvas.arrow((23.8, from_y), (41, y))
        canvas.arrow((65, y), (85.5, from_y))
    canvas.text((33.5, 46), "dispatch", bold=True)
    canvas.text((71.5, 46), "combine", bold=True)
    return canvas
