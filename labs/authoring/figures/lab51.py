"""Figures of lab 51."""

from authoring.figures.canvas import Canvas


def libraries() -> Canvas:
    """Which caller passes its vectors to which library, and where these send them."""
    canvas = Canvas(41)
    places = (24, 54, 84)
    callers = ("mpi4py", "Horovod", "torch.distributed")
    for x, caller in zip(places, callers, strict=True):
        canvas.box((x - 11, 31), 22, 6.5, caller, fill="light")
    for x, library in zip(places, ("MPI", "Gloo", "NCCL"), strict=True):
        canvas.box((x - 11, 12), 22, 6.5, library, fill="middle", bold=True)
    canvas.arrow((24, 31), (24, 18.5))
    canvas.arrow((47, 31), (31, 18.5))
    canvas.arrow((54, 31), (54, 18.5))
    canvas.arrow((59, 31), (77, 18.5))
    canvas.arrow((77, 31), (61, 18.5))
    canvas.arrow((84, 31), (84, 18.5))
    canvas.text((1, 34.2), "caller", align="left", bold=True)
    canvas.text((1, 15.2), "library", align="left", bold=True)
    canvas.text((1, 8.4), "memory", align="left", bold=True)
    canvas.text((1, 3.4), "network", align="left", bold=True)
    for x, memory, network in zip(
        places,
        ("host or GPU memory", "host memory", "GPU memory"),
        ("InfiniBand, RoCE, TCP", "TCP", "InfiniBand, RoCE, TCP"),
        strict=True,
    ):
        canvas.text((x, 8.4), memory, size=9)
        canvas.text((x, 3.4), network, size=9)
    return canvas
