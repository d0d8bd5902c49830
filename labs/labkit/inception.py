"""Inception v3 as a list of layers (Szegedy et al. 2015, "Rethinking the Inception Architecture").

`chain` is a branch: convolutions in a row, each (channels, kernel) or (channels, kernel, stride, padding).
A kernel (1, 7) with its padding (0, 3) is one half of a 7 x 7 convolution taken apart.
"""

from __future__ import annotations

ROW, COLUMN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))


def describe(net) -> None:
    """Write the whole net into `net` (a labkit.layers.Net): 299 x 299 pixels, no auxiliary classifier."""
    x = chain(net, "stem1", (3, 299, 299), (32, 3, 2, 0), (32, 3), (64, 3, 1, 1))
    x = net.pool("pool1", x, 3, 2)
    x = chain(net, "stem2", x, (80, 1), (192, 3))
    x = net.pool("pool2", x, 3, 2)
    for name, projection in (("5b", 32), ("5c", 64), ("5d", 64)):
        x = _mixed_35(net, f"mixed{name}", x, projection)
    x = _reduce_35(net, "mixed6a", x)
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        x = _mixed_17(net, f"mixed{name}", x, width)
    x = _reduce_17(net, "mixed7a", x)
    for name in ("7b", "7c"):
        x = _mixed_8(net, f"mixed{name}", x)
    net.linear("fc", net.global_pool("pool8", x), 1000)


def chain(net, layer: str, x: tuple, *convolutions: tuple) -> tuple:
    """Convolutions one after the other; returns the last shape."""
    for i, (channels, kernel, *rest) in enumerate(convolutions, start=1):
        x = net.conv(f"{layer}.{i}", x, channels, kernel, *rest)
    return x


def _mixed_35(net, block: str, x: tuple, projection: int) -> tuple:
    """Figure 5, on 35 x 35 pixels: 1x1, one 5x5, two 3x3, pooling."""
    return net.concat(
        f"{block}.concat",
        chain(net, f"{block}.1x1", x, (64, 1)),
        chain(net, f"{block}.5x5", x, (48, 1), (64, 5, 1, 2)),
        chain(net, f"{block}.3x3", x, (64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
        chain(net, f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), (projection, 1)),
    )


def _reduce_35(net, block: str, x: tuple) -> tuple:
    """Half the picture side: strided 3x3, strided double 3x3, and max pooling side by side."""
    return net.concat(
        f"{block}.concat",
        chain(net, f"{block}.3x3", x, (384, 3, 2, 0)),
        chain(net, f"{block}.double3x3", x, (64, 1), (96, 3, 1, 1), (96, 3, 2, 0)),
        net.pool(f"{block}.pool", x, 3, 2),
    )


def _mixed_17(net, block: str, x: tuple, width: int) -> tuple:
    """Figure 6, on 17 x 17 pixels: 7x7 convolutions taken apart into 1x7 and 7x1."""
    return net.concat(
        f"{block}.concat",
        chain(net, f"{block}.1x1", x, (192, 1)),
        chain(net, f"{block}.7x7", x, (width, 1), (width, *ROW), (192, *COLUMN)),
        chain(
            net,
            f"{block}.double7x7",
            x,
            (width, 1),
            (width, *COLUMN),
            (width, *ROW),
            (width, *COLUMN),
            (192, *ROW),
        ),
        chain(net, f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), (192, 1)),
    )


def _reduce_17(net, block: str, x: tuple) -> tuple:
    """Half the picture side again."""
    return net.concat(
        f"{block}.concat",
        chain(net, f"{block}.3x3", x, (192, 1), (320, 3, 2, 0)),
        chain(net, f"{block}.7x7x3", x, (192, 1), (192, *ROW), (192, *COLUMN), (192, 3, 2, 0)),
        net.pool(f"{block}.pool", x, 3, 2),
    )


def _mixed_8(net, block: str, x: tuple) -> tuple:
    """Figure 7, on 8 x 8 pixels: a 3x3 convolution spread into 1x3 and 3x1 side by side."""
    one = chain(net, f"{block}.1x1", x, (320, 1))
    three = _spread(net, f"{block}.3x3", chain(net, f"{block}.3x3", x, (384, 1)))
    double = _spread(net, f"{block}.double3x3", chain(net, f"{block}.double3x3", x, (448, 1), (384, 3, 1, 1)))
    projection = chain(net, f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), (192, 1))
    return net.concat(f"{block}.concat", one, three, double, projection)


def _spread(net, layer: str, x: tuple) -> tuple:
    row = net.conv(f"{layer}.row", x, 384, (1, 3), 1, (0, 1))
    column = net.conv(f"{layer}.column", x, 384, (3, 1), 1, (1, 0))
    return net.concat(f"{layer}.spread", row, column)
