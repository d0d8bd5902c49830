"""Figures of lab 20."""

from authoring.figures.canvas import Canvas


def protocols() -> Canvas:
    """Eager and rendezvous: when Send returns, seen from the sender and the receiver."""
    canvas = Canvas(48)
    for left, title in ((0, "eager: a short message"), (51, "rendezvous: a long message")):
        canvas.text((left + 24, 45.5), title, bold=True)
        for x, name in ((12, "rank 0"), (37, "rank 1")):
            canvas.text((left + x, 41), name)
            canvas.line([(left + x, 39), (left + x, 2)], dashed=True)
    # Eager: the send returns before the receiver calls Recv.
    canvas.box((10, 31.5), 4, 4.5, fill="middle", rounded=False)
    canvas.text((8.5, 33.7), "Send", align="right", size=9)
    canvas.box((10, 3), 4, 28.5, fill="light", rounded=False)
    canvas.text((8.5, 17), "computes", align="right", size=9)
    canvas.arrow((14, 32), (35, 27), "message", shift=(0, 1.8))
    canvas.box((34.5, 23.5), 5, 4.5, fill="warm", rounded=False)
    canvas.text((41, 25.7), "buffer", align="left", size=9)
    canvas.box((35, 9), 4, 4.5, fill="middle", rounded=False)
    canvas.text((41, 11.2), "Recv", align="left", size=9)
    canvas.arrow((37, 23.5), (37, 13.5))
    # Rendezvous: the send waits until the receiver has called Recv.
    canvas.box((61, 9), 4, 27, fill="striped", rounded=False)
    canvas.text((59.5, 33.7), "Send", align="right", size=9)
    canvas.text((59.5, 21), "waits", align="right", size=9)
    canvas.box((61, 3), 4, 6, fill="light", rounded=False)
    canvas.text((59.5, 5.7), "computes", align="right", size=9)
    canvas.arrow((65, 35), (86, 31), "may I send?", shift=(0, 1.8), dashed=True)
    canvas.box((86, 9), 4, 12, fill="middle", rounded=False)
    canvas.text((91.5, 18.5), "Recv", align="left", size=9)
    canvas.arrow((86, 20), (65, 16.5), "yes", shift=(0, 1.8), dashed=True)
    canvas.arrow((65, 15.5), (86, 10.5), "message", shift=(-1, -2.2))
    return canvas


def ranks() -> Canvas:
    """Four processes with their own memories; a message moves data from one to another."""
    canvas = Canvas(26)
    canvas.group((1, 1), 98, 24, "the communicator comm, with comm.size = 4")
    for rank in range(4):
        left = 4 + 25 * rank
        canvas.box((left, 3), 17, 17, fill="light")
        canvas.text((left + 8.5, 17.2), f"comm.rank = {rank}", bold=True)
        canvas.text((left + 8.5, 13.6), "same program", size=9)
        canvas.box((left + 2, 5), 13, 5, "own memory", fill="plain", size=9)
    canvas.arrow((21.3, 11), (28.7, 11))
    canvas.text((25, 13.2), "message", size=9)
    return canvas
