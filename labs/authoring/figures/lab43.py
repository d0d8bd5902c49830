"""Figures of lab 43."""

from authoring.figures.canvas import Canvas


def ring() -> Canvas:
    """NCCL's ring over four A100 that NVLink joins in pairs."""
    canvas = Canvas(43)
    canvas.group((3, 2), 94, 39, "one host with four A100 GPUs")
    canvas.box((8, 5), 84, 6.5, "host memory", fill="gray")
    places = (12, 34, 56, 78)
    for gpu, x in enumerate(places):
        canvas.box((x, 19), 12, 8, f"GPU {gpu}", fill="middle", bold=True)
    for left in (24, 68):
        canvas.line([(left, 21.3), (left + 10, 21.3)], width=3.5)
        canvas.text((left + 5, 18.9), "NVLink", size=9)
        canvas.arrow((left, 25), (left + 10, 25), "P2P")
    canvas.arrow((43, 19), (43, 11.5), dashed=True)
    canvas.arrow((59, 11.5), (59, 19), dashed=True)
    canvas.text((51, 15.3), "SHM", size=9)
    canvas.arrow((87, 19), (87, 11.5), dashed=True)
    canvas.arrow((15, 11.5), (15, 19), dashed=True)
    canvas.text((83, 15.3), "SHM", size=9)
    canvas.text((19, 15.3), "SHM", size=9)
    canvas.text((50, 32.5), "ring: 0 → 1 → 2 → 3 → 0", size=10.5)
    return canvas
