"""Figures of lab 68."""

from authoring.figures.canvas import Canvas

STEPS = 5
LENGTHS = {"A": 5, "B": 2, "C": 3, "D": 4, "E": 2, "F": 3}
SLOTS = 3


def request() -> Canvas:
    """One request over time: prefill, steps of decode, and the KV cache that grows."""
    canvas = Canvas(41)
    canvas.arrow((13, 5), (98, 5))
    canvas.text((96, 2.2), "time", size=9)
    canvas.line([(14, 4), (14, 38)], dashed=True)
    canvas.text((14, 39.5), "request arrives", size=9)
    canvas.text((12.5, 27), "device", align="right")
    canvas.text((12.5, 11), "KV cache", align="right")
    canvas.box((14, 23), 9, 8, "waiting", fill="plain", size=9, rounded=False, dashed=True)
    canvas.box((23, 23), 22, 8, "prefill: all positions\nof the prompt", fill="middle", size=9)
    for step in range(STEPS):
        x = 45 + 9.5 * step
        canvas.box((x, 23), 9.5, 8, "decode", fill="light", size=9, rounded=False)
        canvas.arrow((x, 31), (x, 34))
        canvas.text((x, 35.5), f"token {step + 1}", size=9)
        height = 6 + 1.5 * step
        canvas.box((x + 0.6, 6), 8.3, height, fill="warm", rounded=False)
    canvas.arrow((92.5, 31), (92.5, 34))
    canvas.text((92.5, 35.5), f"token {STEPS + 1}", size=9)
    canvas.bracket(14.4, 44.6, 20.5, "time to first token", up=False)
    canvas.bracket(54.7, 63.8, 20.5, "inter-token latency", up=False)
    return canvas


def batching() -> Canvas:
    """Static and continuous batching of six requests in three slots."""
    canvas = Canvas(56)
    for base, name, rows in ((34, "static", _static()), (5.5, "continuous", _continuous())):
        canvas.text((1, base + 18), f"{name} batching", align="left", bold=True)
        end = max(spans[-1][1] for spans in rows)
        for slot, spans in enumerate(rows):
            if spans[-1][1] < end:
                spans.append((spans[-1][1], end, ""))
            drawn = [(_x(begin), _x(done), name, _fill(name)) for begin, done, name in spans]
            canvas.lane(base + 11 - 5.2 * slot, f"slot {slot}", drawn, left=15)
        for step in range(end + 1):
            canvas.text((_x(step), base - 1.4), str(step), size=9)
        canvas.text((_x(end) + 2, base - 1.4), "steps done", size=9, align="left")
    return canvas


def _x(step: int) -> float:
    return 16 + 7.6 * step


def _fill(request: str) -> str:
    """A to C are the first batch, D to F those that wait for a slot; "" is an idle slot."""
    if not request:
        return "striped"
    return "light" if request < "D" else "strong"


def _static() -> list[list[tuple[int, int, str]]]:
    """By slot (begin, end, request); "" is a slot that is kept for nothing."""
    rows: list = [[] for _ in range(SLOTS)]
    names = list(LENGTHS)
    begin = 0
    for first in range(0, len(names), SLOTS):
        batch = names[first : first + SLOTS]
        end = begin + max(LENGTHS[name] for name in batch)
        for row, name in zip(rows, batch, strict=True):
            done = begin + LENGTHS[name]
            row.append((begin, done, name))
            if done < end:
                row.append((done, end, ""))
        begin = end
    return rows


def _continuous() -> list[list[tuple[int, int, str]]]:
    rows: list = [[] for _ in range(SLOTS)]
    for name, length in LENGTHS.items():
        row = min(rows, key=lambda spans: spans[-1][1] if spans else 0)
        begin = row[-1][1] if row else 0
        row.append((begin, begin + length, name))
    return rows
