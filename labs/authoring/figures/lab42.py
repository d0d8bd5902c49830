"""Figures of lab 42."""

from authoring.figures.canvas import Canvas

ROWS = (
    ("staged", "Horovod copies\nto host memory", ((24, 38), (62, 76)), "MPI", True),
    ("pipelined", "MPI copies chunks\nthrough buffers", ((24, 38), (62, 76)), "MPI", False),
    ("GPUDirect RDMA", "the NIC reads\nGPU memory", (), "MPI", False),
    ("NCCL", "as the third, or by\nNVLink in a node", (), "NCCL", False),
)


def paths() -> Canvas:
    """Four ways of a gradient from the GPU of one node to the GPU of another."""
    canvas = Canvas(62)
    for left, title in ((18, "node A"), (58.5, "node B")):
        canvas.group((left, 2), 35.5, 58, title)
    for row, (name, words, hosts, library, whole) in enumerate(ROWS):
        y = 45 - 14 * row
        canvas.text((16.5, y + 5), name, align="right", bold=True)
        canvas.text((16.5, y + 0.7), words, align="right", size=9)
        canvas.box((19.5, y), 7, 6, "GPU", fill="strong")
        canvas.box((85.5, y), 7, 6, "GPU", fill="strong")
        canvas.box((45.5, y), 7, 6, "NIC", fill="gray")
        canvas.box((59.5, y), 7, 6, "NIC", fill="gray")
        if hosts:
            for x in (32, 72):
                fill = "warm" if whole else "plain"
                canvas.box((x, y), 8, 6, "" if not whole else "host", fill=fill)
                if not whole:
                    for chunk in range(2):
                        corner = (x + 0.8 + 3.4 * chunk, y + 1.3)
                        canvas.box(corner, 3, 3.4, fill="warm", rounded=False)
            stops = ((26.5, 32), (40, 45.5), (52.5, 59.5), (66.5, 72), (80, 85.5))
        else:
            stops = ((26.5, 45.5), (52.5, 59.5), (66.5, 85.5))
        for start, end in stops:
            canvas.arrow((start, y + 3), (end, y + 3))
        canvas.text((56, y + 7.6), library, size=9, bold=True)
    return canvas
