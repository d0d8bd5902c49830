"""Figures of lab 46."""

from authoring.figures.canvas import Canvas


def stack() -> Canvas:
    """Who hands a gradient to whom, from the framework down to the wire."""
    canvas = Canvas(45)
    canvas.box((22, 38), 76, 6, "PyTorch or TensorFlow: the backward pass produces gradients")
    ask = "Horovod, control plane:\nwhich gradients are ready on all ranks?"
    start = "Horovod, data plane:\nfuse them, launch the allreduce"
    canvas.box((22, 27), 36, 8, ask, fill="warm")
    canvas.box((62, 27), 36, 8, start, fill="warm")
    for left, name, fill in ((22, "MPI", "middle"), (49, "Gloo", "middle"), (76, "NCCL", "strong")):
        canvas.box((left, 14), 22, 6, name, fill=fill, bold=True)
    canvas.box((22, 2), 49, 6, "shared memory, TCP, InfiniBand", fill="gray")
    canvas.box((76, 2), 22, 6, "NVLink, PCIe, InfiniBand", fill="gray")
    for x in (40, 80):
        canvas.arrow((x, 38), (x, 35))
    canvas.arrow((58, 31), (62, 31))
    canvas.arrow((30, 27), (30, 20), dashed=True)
    for x in (40, 60, 87):
        canvas.arrow((max(x, 64), 27), (x, 20))
    for x in (33, 60, 87):
        canvas.arrow((x, 14), (x, 8))
    for y, words in ((41, "framework"), (31, "Horovod"), (17, "library"), (5, "wire")):
        canvas.text((19, y), words, align="right", bold=True)
    canvas.text((28.5, 23.5), "small\nmessages", size=9, align="right")
    canvas.text((92, 23.5), "the data", size=9)
    return canvas
