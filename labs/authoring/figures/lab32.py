"""Figures of lab 32."""

from authoring.figures.canvas import Canvas

LAYER = 12  # units of a layer's backward pass
MESSAGES = {2: 9, 1: 9, 0: 9}  # units of a layer's allreduce
FORWARD = 14
LEFT = 18


def overlap() -> Canvas:
    """A step of three layers: one allreduce at the end, and one per layer."""
    canvas = Canvas(44)
    start = LEFT + FORWARD
    backward = [(LEFT, start, "forward", "light")]
    for place, layer in enumerate((2, 1, 0)):
        begin = start + LAYER * place
        backward.append((begin, begin + LAYER, f"backward {layer}", "middle"))
    end = start + 3 * LAYER
    # One allreduce of all gradients, as long as the three together.
    canvas.text((1, 40.5), "at the end", align="left", bold=True)
    canvas.lane(33.5, "computation", backward, left=LEFT)
    whole = end + sum(MESSAGES.values())
    single = [(end, whole, "allreduce of all", "strong")]
    canvas.lane(27.5, "communication", single, left=LEFT)
    canvas.line([(whole, 26.2), (whole, 38.6)], dashed=True)
    canvas.text((whole, 40.5), "update", size=9)
    # Each layer's allreduce, as soon as the layer has its gradient and the link is free.
    canvas.text((1, 20.5), "overlapped", align="left", bold=True)
    canvas.lane(13.5, "computation", backward, left=LEFT)
    free = 0.0
    spans = []
    for place, layer in enumerate((2, 1, 0)):
        ready = start + LAYER * (place + 1)
        begin = max(ready, free)
        free = begin + MESSAGES[layer]
        spans.append((begin, free, f"allreduce {layer}", "strong"))
        canvas.arrow((ready, 13.5), (ready, 11.7), width=1.2)
    canvas.lane(7.5, "communication", spans, left=LEFT)
    canvas.line([(free, 6.2), (free, 18.6)], dashed=True)
    canvas.text((free, 20.5), "update", size=9)
    canvas.arrow((LEFT, 3), (97, 3), width=1.2)
    canvas.text((LEFT - 1.5, 3), "time", align="right", size=9)
    return canvas
