"""Figures of lab 10."""

from authoring.figures.canvas import Canvas


def step() -> Canvas:
    """One training step, from a batch to new weights."""
    canvas = Canvas(38)
    canvas.box((3, 22), 14, 8, "a batch:\nimages, labels", fill="plain")
    canvas.box((24, 22), 17, 8, "forward pass", fill="light", bold=True)
    canvas.box((49, 22), 14, 8, "loss", fill="light", bold=True)
    canvas.box((71, 22), 19, 8, "backward pass", fill="middle", bold=True)
    canvas.box((71, 6), 19, 8, "update", fill="strong", bold=True)
    canvas.box((24, 6), 17, 8, "weights", fill="gray", bold=True)
    canvas.arrow((17, 26), (24, 26))
    canvas.arrow((41, 26), (49, 26), "logits", shift=(0, 1.8))
    canvas.arrow((63, 26), (71, 26))
    canvas.arrow((80.5, 22), (80.5, 14))
    canvas.text((82, 18), "gradients", align="left", size=9)
    canvas.arrow((71, 10), (41, 10), "weights − rate × gradients")
    canvas.arrow((32.5, 14), (32.5, 22))
    canvas.line([(10, 30), (10, 34), (56, 34)], dashed=True)
    canvas.arrow((56, 34), (56, 30), dashed=True, width=1.2)
    canvas.text((33, 35.8), "labels", size=9)
    return canvas
