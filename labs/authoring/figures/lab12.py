"""Figures of lab 12."""

from authoring.figures.canvas import Canvas


def roofline() -> Canvas:
    """The two parts of the roof, the ridge, and three layers."""
    canvas = Canvas(44)
    left, bottom, ridge, top = 16, 8, 54, 36
    canvas.arrow((left, bottom), (left, 43))
    canvas.arrow((left, bottom), (95, bottom))
    canvas.text((14, 41), "speed\n(flop/s)", align="right")
    canvas.text((55, 1.5), "arithmetic intensity (flops/byte); both axes are logarithmic")
    canvas.line([(left, bottom + 4), (ridge, top), (93, top)], width=3)
    canvas.line([(ridge, bottom), (ridge, top)], dashed=True)
    canvas.line([(left, top), (ridge, top)], dashed=True, width=0.8)
    canvas.text((14, top), "peak", align="right")
    canvas.text((ridge, 5.6), "ridge: peak / bandwidth", size=9)
    canvas.text((30, 31), "bandwidth ×\nintensity", size=9)
    canvas.text((42, 11), "memory-bound", bold=True)
    canvas.text((74, 11), "compute-bound", bold=True)
    canvas.circle((28, 19.6), "A", fill="light")
    canvas.circle((66, 22), "B", fill="warm")
    canvas.circle((82, top), "C", fill="light")
    canvas.arrow((66, 24.5), (66, 35), dashed=True)
    canvas.text((73.5, 28), "could be faster", size=9)
    return canvas
