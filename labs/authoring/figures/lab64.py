"""Figures of lab 64."""

from authoring.figures.canvas import Canvas


def mlp() -> Canvas:
    """An MLP whose first matrix is cut by columns and whose second one by rows."""
    canvas = Canvas(46)
    canvas.box((2, 17.5), 9, 11, "x", fill="gray", bold=True)
    canvas.box((88, 17.5), 9, 11, "y", fill="gray", bold=True)
    canvas.box((14, 20.5), 5, 5, "f", fill="warm", bold=True)
    canvas.box((80, 20.5), 5, 5, "g", fill="strong", bold=True)
    canvas.arrow((11, 23), (14, 23))
    canvas.arrow((85, 23), (88, 23))
    for rank, base in enumerate((26.5, 2)):
        canvas.group((22, base), 55, 17.5, f"rank {rank}")
        middle = base + 7.5
        canvas.box((25, middle - 5), 14, 10, "first matrix,\nhalf of its\ncolumns", size=9)
        canvas.box((43.5, middle - 3), 10, 6, "GELU", fill="plain")
        canvas.box(
            (58, middle - 5), 15, 10, "second matrix,\nhalf of its\nrows", fill="middle", size=9
        )
        canvas.arrow((39, middle), (43.5, middle))
        canvas.arrow((53.5, middle), (58, middle))
        canvas.arrow((19, 23), (25, middle))
        canvas.arrow((73, middle), (80, 23))
    canvas.text((9, 38), "f: allreduce in the\nbackward pass", size=9)
    canvas.text((90, 38), "g: allreduce in the\nforward pass", size=9)
    return canvas
