"""Figures of lab 28."""

from authoring.figures.canvas import Canvas


def paths() -> Canvas:
    """What a message passes through with TCP, with RDMA and over NVLink."""
    canvas = Canvas(44)
    for left, title in ((19, "node A"), (60, "node B")):
        canvas.group((left, 15), 37, 28, title)
    rows = (
        ("TCP", 29, ("memory", "operating\nsystem", "NIC", "NIC", "operating\nsystem", "memory")),
        ("RDMA", 18, ("memory", "", "NIC", "NIC", "", "memory")),
    )
    for name, y, stops in rows:
        canvas.text((17, y + 4), name, align="right", bold=True)
        lefts = (20.5, 33, 45.5, 61.5, 74, 86.5)
        end = None
        for left, words in zip(lefts, stops, strict=True):
            if not words:
                continue
            wide = 9 if words in ("memory", "NIC") else 9.6
            fill = {"memory": "light", "NIC": "gray"}.get(words, "warm")
            corner = left - (0.3 if wide > 9 else 0)
            canvas.box((corner, y), wide, 7, words, fill=fill, size=9)
            if end is not None:
                canvas.arrow((end, y + 3.5), (corner, y + 3.5))
            end = corner + wide
    canvas.text((17, 6), "NVLink", align="right", bold=True)
    canvas.group((19, 1), 78, 12, "one node (or one rack)")
    canvas.box((20.5, 2.5), 9, 5.5, "GPU", fill="strong", size=9)
    canvas.box((50, 2.5), 16, 5.5, "NVLink switch", fill="gray", size=9)
    canvas.box((86.5, 2.5), 9, 5.5, "GPU", fill="strong", size=9)
    canvas.arrow((29.5, 5.2), (50, 5.2))
    canvas.arrow((66, 5.2), (86.5, 5.2))
    return canvas
