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
    canvas.box((17, 23), 28, 8, "prefill: all positions\nof the prompt", fill="middle")
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
    canvas = Canvas(48)
    for base, name, rows in (
        (26, "static", _static()),
        (2.5, "continuous", _continuous()),
    ):
        canvas.text((1, base + 18), f"{name} batching", align="left", bold=True)
        for slot in range(SLOTS):
            y = base + 11 - 5.2 * slot
            spans = []
            for begin, end, request_name in rows[slot]:
                fill = (
                    "striped" if not request_name else "light" if request_name < "D" else "middle"
                )
                spans.append((16 + 8 * begin, 16 + 8 * end, request_name, fill))
            canvas.lane(y, f"slot {slot}", spans, left=15)
    canvas.text((88, 2.8), "steps →", size=9)
    return canvas


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
