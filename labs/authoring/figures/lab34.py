"""Figures of lab 34."""

from math import cos, radians, sin

from authoring.figures.canvas import Canvas

TURNS = (25, 5, -25, -60)  # degrees: the direction of each small step
STEP = 6.5


def steps() -> Canvas:
    """Four small steps, one step for the same images, and one with four times the rate."""
    canvas = Canvas(30)
    panels = (
        (1, "4 steps of 32 images", "base rate"),
        (35, "1 step of 128 images", "rate kept"),
        (69, "1 step of 128 images", "rate × 4"),
    )
    for left, title, rate in panels:
        canvas.text((left + 15, 27.5), title, bold=True)
        canvas.text((left + 15, 24.2), rate, size=9)
        path = [(left + 3.0, 12.0)]
        for angle in TURNS:
            x, y = path[-1]
            path.append((x + STEP * cos(radians(angle)), y + STEP * sin(radians(angle))))
        if rate == "base rate":
            for start, end in zip(path, path[1:], strict=False):
                canvas.arrow(start, end)
        else:
            canvas.line(path, dashed=True)
            longer = 4 if rate == "rate × 4" else 1
            dx, dy = path[1][0] - path[0][0], path[1][1] - path[0][1]
            end = (path[0][0] + longer * dx, path[0][1] + longer * dy)
            canvas.arrow(path[0], end, width=2.4)
        canvas.circle(path[0], "", radius=1.0, fill="strong")
        canvas.circle(path[-1], "", radius=1.0, fill="warm")
        canvas.text((path[0][0], path[0][1] - 3.2), "start", size=9)
        canvas.text((path[-1][0], path[-1][1] - 3.2), "after 4 steps", size=9)
    return canvas
