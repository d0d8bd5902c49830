"""Seven well-known image nets as lists of layers: parameters, flops and activations of each, in
order.

Written down from the papers, with the details in which today's usual versions (torchvision's)
differ:

* alexnet       Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks":
                one column, no local response normalisation
* vgg16         Simonyan and Zisserman 2014, "Very Deep Convolutional Networks", configuration D
* googlenet     Szegedy et al. 2014, "Going Deeper with Convolutions"; with batch normalisation,
                3 x 3 in place of 5 x 5, no auxiliary classifiers
* resnet50/101/152  He et al. 2015, "Deep Residual Learning"; the stride on the 3 x 3 convolution
  ("v1.5")
* inception_v3  Szegedy et al. 2015, "Rethinking the Inception Architecture"; 299 x 299 pixels,
                no auxiliary classifier
"""

from __future__ import annotations

import math

from labkit.errors import LabError


def layer_table(name: str):
    """Every layer of a well-known net in forward order, for one image of ImageNet's size.

    Returns a pandas.DataFrame: layer (name), kind (conv, linear, batchnorm, relu, pool, add,
    concat), parameters (trainable numbers), flops (forward, multiply-add = 2, of conv and linear
    alone), activations (numbers in the layer's output). Names: alexnet googlenet vgg16 resnet50
    resnet101 resnet152 inception_v3.
    """
    import pandas

    if name not in NETS:
        raise LabError(f"There is no layer table of {name!r}; there are {', '.join(sorted(NETS))}.")
    net = Net()
    NETS[name](net)
    return pandas.DataFrame(
        net.rows, columns=["layer", "kind", "parameters", "flops", "activations"]
    )


class Net:
    """Collects rows while a net is described. A tensor is known by its shape: (channels, height,
    width)."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int, int, int]] = []  # a row of the table each

    def add(
        self, layer: str, kind: str, shape: tuple, parameters: int = 0, flops: int = 0
    ) -> tuple:
        """One layer whose output has this shape; returns the shape."""
        self.rows.append((layer, kind, parameters, flops, math.prod(shape)))
        return shape

    def conv(
        self, layer, x, channels, kernel, stride=1, padding=0, *, norm=True, relu=True
    ) -> tuple:
        """Convolution, by default without bias, with batch normalisation and ReLU behind it."""
        kernel_height, kernel_width = _pair(kernel)
        inputs, height, width = x
        padding_rows, padding_columns = _pair(padding)
        out = (
            channels,
            (height + 2 * padding_rows - kernel_height) // stride + 1,
            (width + 2 * padding_columns - kernel_width) // stride + 1,
        )
        weights = channels * inputs * kernel_height * kernel_width
        self.add(
            layer, "conv", out, weights + (0 if norm else channels), 2 * weights * out[1] * out[2]
        )
        if norm:
            self.add(f"{layer}.bn", "batchnorm", out, 2 * channels)
        if relu:
            self.add(f"{layer}.relu", "relu", out)
        return out

    def pool(self, layer, x, kernel, stride, padding=0, *, ceil=False) -> tuple:
        """Max or average pooling: no parameters; `ceil` rounds the output size up."""
        extra = stride - 1 if ceil else 0
        sides = [(side + 2 * padding - kernel + extra) // stride + 1 for side in x[1:]]
        return self.add(layer, "pool", (x[0], *sides))

    def global_pool(self, layer, x) -> tuple:
        """Average over each channel's whole picture (AlexNet and VGG pool to a fixed picture
        instead)."""
        return self.add(layer, "pool", (x[0],))

    def linear(self, layer, x, units, *, relu=False) -> tuple:
        """Fully connected layer on everything in x, with bias."""
        inputs = math.prod(x)
        out = self.add(layer, "linear", (units,), inputs * units + units, 2 * inputs * units)
        return self.add(f"{layer}.relu", "relu", out) if relu else out

    def concat(self, layer, *parts) -> tuple:
        """Parallel branches joined along the channels."""
        return self.add(layer, "concat", (sum(part[0] for part in parts), *parts[0][1:]))


def _pair(value) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _alexnet(net: Net) -> None:
    x = net.conv("conv1", (3, 224, 224), 64, 11, 4, 2, norm=False)
    x = net.pool("pool1", x, 3, 2)
    x = net.conv("conv2", x, 192, 5, 1, 2, norm=False)
    x = net.pool("pool2", x, 3, 2)
    for i, channels in enumerate((384, 256, 256), start=3):
        x = net.conv(f"conv{i}", x, channels, 3, 1, 1, norm=False)
    x = net.pool("pool5", x, 3, 2)
    x = net.linear("fc6", x, 4096, relu=True)
    x = net.linear("fc7", x, 4096, relu=True)
    net.linear("fc8", x, 1000)


def _vgg16(net: Net) -> None:
    x = (3, 224, 224)
    for stage, (channels, count) in enumerate(
        ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1
    ):
        for i in range(1, count + 1):
            x = net.conv(f"conv{stage}_{i}", x, channels, 3, 1, 1, norm=False)
        x = net.pool(f"pool{stage}", x, 2, 2)
    x = net.linear("fc6", x, 4096, relu=True)
    x = net.linear("fc7", x, 4096, relu=True)
    net.linear("fc8", x, 1000)


def _resnet(blocks: tuple[int, int, int, int]):
    def describe(net: Net) -> None:
        x = net.conv("conv1", (3, 224, 224), 64, 7, 2, 3)
        x = net.pool("pool1", x, 3, 2, 1)
        for stage, count in enumerate(blocks):
            for i in range(count):
                x = _bottleneck(
                    net, f"conv{stage + 2}_{i + 1}", x, 64 << stage, 2 if stage and i == 0 else 1
                )
        net.linear("fc", net.global_pool("pool5", x), 1000)

    return describe


def _bottleneck(net: Net, layer: str, x: tuple, width: int, stride: int) -> tuple:
    """1 x 1 to fewer channels, 3 x 3, 1 x 1 back to four times as many, added to the input."""
    out = net.conv(f"{layer}.a", x, width, 1)
    out = net.conv(f"{layer}.b", out, width, 3, stride, 1)
    out = net.conv(f"{layer}.c", out, 4 * width, 1, relu=False)
    if x != out:
        net.conv(f"{layer}.shortcut", x, 4 * width, 1, stride, relu=False)
    net.add(f"{layer}.add", "add", out)
    return net.add(f"{layer}.relu", "relu", out)


# Channels of a block (paper, table 1): 1x1 | 3x3 reduce, 3x3 | "5x5" reduce, "5x5" | pool
# projection
GOOGLENET_BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def _googlenet(net: Net) -> None:
    x = net.conv("conv1", (3, 224, 224), 64, 7, 2, 3)
    x = net.pool("pool1", x, 3, 2, ceil=True)
    x = net.conv("conv2.reduce", x, 64, 1)
    x = net.conv("conv2", x, 192, 3, 1, 1)
    x = net.pool("pool2", x, 3, 2, ceil=True)
    for name, (single, reduce3, triple, reduce5, five, projection) in GOOGLENET_BLOCKS.items():
        if name == "4a":
            x = net.pool("pool3", x, 3, 2, ceil=True)
        if name == "5a":
            x = net.pool("pool4", x, 2, 2, ceil=True)
        block = f"inception{name}"
        x = net.concat(
            f"{block}.concat",
            net.conv(f"{block}.1x1", x, single, 1),
            net.conv(
                f"{block}.3x3", net.conv(f"{block}.3x3.reduce", x, reduce3, 1), triple, 3, 1, 1
            ),
            net.conv(f"{block}.5x5", net.conv(f"{block}.5x5.reduce", x, reduce5, 1), five, 3, 1, 1),
            net.conv(f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), projection, 1),
        )
    net.linear("fc", net.global_pool("pool5", x), 1000)


# The halves of a 7 x 7 convolution taken apart: kernel, stride, padding.
ROW = ((1, 7), 1, (0, 3))
COLUMN = ((7, 1), 1, (3, 0))


def _inception_v3(net: Net) -> None:
    x = _chain(net, "stem1", (3, 299, 299), (32, 3, 2, 0), (32, 3), (64, 3, 1, 1))
    x = net.pool("pool1", x, 3, 2)
    x = _chain(net, "stem2", x, (80, 1), (192, 3))
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


def _chain(net: Net, layer: str, x: tuple, *convolutions: tuple) -> tuple:
    """A branch: convolutions in a row, each (channels, kernel, stride, padding) or less; the last
    shape."""
    for i, (channels, kernel, *rest) in enumerate(convolutions, start=1):
        x = net.conv(f"{layer}.{i}", x, channels, kernel, *rest)
    return x


def _mixed_35(net: Net, block: str, x: tuple, projection: int) -> tuple:
    """Figure 5, on 35 x 35 pixels: 1x1, one 5x5, two 3x3, pooling."""
    return net.concat(
        f"{block}.concat",
        _chain(net, f"{block}.1x1", x, (64, 1)),
        _chain(net, f"{block}.5x5", x, (48, 1), (64, 5, 1, 2)),
        _chain(net, f"{block}.3x3", x, (64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
        _chain(net, f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), (projection, 1)),
    )


def _reduce_35(net: Net, block: str, x: tuple) -> tuple:
    """Half the picture side: strided 3x3, strided double 3x3, and max pooling side by side."""
    return net.concat(
        f"{block}.concat",
        _chain(net, f"{block}.3x3", x, (384, 3, 2, 0)),
        _chain(net, f"{block}.double3x3", x, (64, 1), (96, 3, 1, 1), (96, 3, 2, 0)),
        net.pool(f"{block}.pool", x, 3, 2),
    )


def _mixed_17(net: Net, block: str, x: tuple, width: int) -> tuple:
    """Figure 6, on 17 x 17 pixels: 7x7 convolutions taken apart into 1x7 and 7x1."""
    return net.concat(
        f"{block}.concat",
        _chain(net, f"{block}.1x1", x, (192, 1)),
        _chain(net, f"{block}.7x7", x, (width, 1), (width, *ROW), (192, *COLUMN)),
        _chain(
            net,
            f"{block}.double7x7",
            x,
            (width, 1),
            (width, *COLUMN),
            (width, *ROW),
            (width, *COLUMN),
            (192, *ROW),
        ),
        _chain(net, f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), (192, 1)),
    )


def _reduce_17(net: Net, block: str, x: tuple) -> tuple:
    """Half the picture side again."""
    return net.concat(
        f"{block}.concat",
        _chain(net, f"{block}.3x3", x, (192, 1), (320, 3, 2, 0)),
        _chain(net, f"{block}.7x7x3", x, (192, 1), (192, *ROW), (192, *COLUMN), (192, 3, 2, 0)),
        net.pool(f"{block}.pool", x, 3, 2),
    )


def _mixed_8(net: Net, block: str, x: tuple) -> tuple:
    """Figure 7, on 8 x 8 pixels: a 3x3 convolution spread into 1x3 and 3x1 side by side."""
    single = _chain(net, f"{block}.1x1", x, (320, 1))
    triple = _chain(net, f"{block}.3x3", x, (384, 1))
    triple = _spread(net, f"{block}.3x3", triple)
    double = _chain(net, f"{block}.double3x3", x, (448, 1), (384, 3, 1, 1))
    double = _spread(net, f"{block}.double3x3", double)
    projection = _chain(net, f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), (192, 1))
    return net.concat(f"{block}.concat", single, triple, double, projection)


def _spread(net: Net, layer: str, x: tuple) -> tuple:
    """Convolutions of 1x3 and 3x1 side by side."""
    row = net.conv(f"{layer}.row", x, 384, (1, 3), 1, (0, 1))
    column = net.conv(f"{layer}.column", x, 384, (3, 1), 1, (1, 0))
    return net.concat(f"{layer}.spread", row, column)


NETS = {
    "alexnet": _alexnet,
    "vgg16": _vgg16,
    "googlenet": _googlenet,
    "resnet50": _resnet((3, 4, 6, 3)),
    "resnet101": _resnet((3, 4, 23, 3)),
    "resnet152": _resnet((3, 8, 36, 3)),
    "inception_v3": _inception_v3,
}
