"""Figures of lab 36."""

from authoring.figures.canvas import Canvas


def progress() -> Canvas:
    """An allreduce of four steps beside a backward pass: left alone, and with Test."""
    canvas = Canvas(46)
    layer = 6.6
    step = 5.8
    for base, name, tested in ((25, "launched and left alone", False), (2.5, "with Test", True)):
        canvas.text((2, base + 18.5), name, align="left", bold=True)
        layers = [(18 + layer * n, 18 + layer * (n + 1), f"{6 - n}", "light") for n in range(6)]
        canvas.lane(base + 10.5, "backward, layers", layers, left=17)
        begins = [18.0]
        for _ in range(3):
            done = begins[-1] + step
            if tested:
                looks = [18 + layer * (n + 1) for n in range(6)]
                begins.append(next((look for look in looks if look >= done), done))
            else:
                begins.append(max(done, 18 + 6 * layer))
        steps = [(begin, begin + step, str(n + 1), "strong") for n, begin in enumerate(begins)]
        canvas.lane(base + 3.5, "allreduce", steps, left=17)
        if tested:
            for n in range(6):
                x = 18 + layer * (n + 1)
                canvas.arrow((x, base + 17.2), (x, base + 14.9), width=1.2)
            canvas.text((61, base + 16.5), "Test", align="left", size=9)
    return canvas
