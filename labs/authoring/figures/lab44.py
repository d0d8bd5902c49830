"""Figures of lab 44."""

from authoring.figures.canvas import Canvas


def cycle() -> Canvas:
    """Two tensors on their way through one cycle of Horovod's thread."""
    canvas = Canvas(41)
    canvas.text((15, 37), "tensor a", align="right")
    canvas.text((15, 29), "tensor b", align="right")
    canvas.text((13, 15), "ranks", align="right")
    for y, begin in ((35, 18), (27, 30)):
        canvas.box((begin, y), 52 - begin, 4.2, "negotiate", fill="striped", rounded=False)
        canvas.box((52, y), 6, 4.2, "copy", fill="light", size=9, rounded=False)
        canvas.box((88, y), 6, 4.2, "copy", fill="light", size=9, rounded=False)
    canvas.box((58, 27), 30, 12.2, "one allreduce\nof the fusion buffer", fill="strong")
    for rank, ready in enumerate((18, 21, 24, 52)):
        y = 21 - 4 * rank
        canvas.text((16.5, y), str(rank), align="right", size=9)
        canvas.line([(18, y), (94, y)], width=0.6)
        canvas.circle((ready, y), "", radius=0.9, fill="strong")
    canvas.text((56, 11.4), "the last rank has a", align="left", size=9)
    canvas.line([(52, 9), (52, 27)], dashed=True)
    canvas.bracket(24, 52, 5.5, "charged to rank 3", up=False)
    canvas.arrow((18, 1.5), (94, 1.5), width=1.2)
    canvas.text((97, 1.5), "time", size=9)
    return canvas
