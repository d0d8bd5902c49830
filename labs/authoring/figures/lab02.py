"""Figures of lab 02."""

from authoring.figures.canvas import Canvas


def costs() -> Canvas:
    """The operations, the memory and the message of a training step."""
    canvas = Canvas(43)
    canvas.group((16, 15), 58, 26, "one device, one training step")
    for image in range(3):
        canvas.box((3 + 1.2 * image, 24 + 1.6 * image), 7, 7, fill="plain")
    canvas.text((8, 20.5), "a batch\nof images", size=9)
    for layer in range(4):
        x = 20 + 12.8 * layer
        canvas.box((x, 25.5), 9.8, 9, f"layer {layer + 1}", fill="middle")
        if layer:
            canvas.arrow((x - 3, 32), (x, 32))
            canvas.arrow((x, 28), (x - 3, 28), dashed=True)
    canvas.arrow((13.6, 32), (20, 32))
    canvas.arrow((68.2, 32), (77, 32))
    canvas.text((78, 32), "the loss", align="left", size=9)
    canvas.text((45, 22.6), "forward pass (solid): activations are kept", size=9)
    canvas.text((45, 19.2), "backward pass (dashed): gradients are computed", size=9)
    canvas.arrow((24, 15), (24, 10))
    canvas.arrow((45, 15), (45, 10))
    canvas.arrow((66, 15), (66, 10))
    canvas.box((14, 3), 20, 7, "operations:\nhow long?", fill="light", bold=True)
    canvas.box((35, 3), 20, 7, "bytes kept:\ndoes it fit?", fill="warm", bold=True)
    canvas.box((56, 3), 20, 7, "gradients:\nthe message", fill="gray", bold=True)
    canvas.arrow((76, 6.5), (85, 6.5))
    canvas.text((86, 6.5), "other\ndevices", align="left", size=9)
    return canvas
