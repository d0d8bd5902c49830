"""Six well-known image nets as lists of layers: parameters, flops and activations of each, in forward order.

Written down from the papers, with the details in which today's usual versions (torchvision's) differ:

* alexnet       Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks":
                one column, no local response normalisation
* vgg16         Simonyan and Zisserman 2014, "Very Deep Convolutional Networks", configuration D
* googlenet     Szegedy et al. 2014, "Going Deeper with Convolutions"; with batch normalisation,
                3 x 3 in place of 5 x 5, no auxiliary classifiers
* resnet50/101  He et al. 2015, "Deep Residual Learning"; the stride on the 3 x 3 convolution ("v1.5")
* inception_v3  Szegedy et al. 2015, "Rethinking the Inception Architecture"; 299 x 299 pixels,
                no auxiliary classifier (labkit.inception)
"""

from __future__ import annotations

from labkit import inception

Row = tuple[str, str, int, int, int]


class Net:
    """Collects rows while a net is described. A tensor is known by its shape: (channels, height, width)."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, layer: str, kind: str, shape: tuple, parameters: int = 0, flops: int = 0) -> tuple:
        """One layer whose output has this shape; returns the shape."""
        size = 1
        for length in shape:
            size *= length
        self.rows.append((layer, kind, parameters, flops, size))
        return shape

    def conv(self, layer, x, channels, kernel, stride=1, padding=0, *, norm=True, relu=True) -> tuple:
        """Convolution, by default without bias, with batch normalisation and ReLU behind it."""
        (kh, kw), (ph, pw) = _pair(kernel), _pair(padding)
        inputs, height, width = x
        out = (channels, (height + 2 * ph - kh) // stride + 1, (width + 2 * pw - kw) // stride + 1)
        weights = channels * inputs * kh * kw
        self.add(layer, "conv", out, weights + (0 if norm else channels), 2 * weights * out[1] * out[2])
        if norm:
            self.add(f"{layer}.bn", "batchnorm", out, 2 * channels)
        if relu:
            self.add(f"{layer}.relu", "relu", out)
        return out

    def pool(self, layer, x, kernel, stride, padding=0, *, ceil=False) -> tuple:
        """Max or average pooling: no parameters; `ceil` rounds the output size up."""
        extra = stride - 1 if ceil else 0
        return self.add(
            layer, "pool", (x[0], *((side + 2 * padding - kernel + extra) // stride + 1 for side in x[1:]))
        )

    def global_pool(self, layer, x) -> tuple:
        """Average over each channel's whole picture (AlexNet and VGG pool to a fixed picture instead)."""
        return self.add(layer, "pool", (x[0],))

    def linear(self, layer, x, units, *, relu=False) -> tuple:
        """Fully connected layer on everything in x, with bias."""
        inputs = 1
        for length in x:
            inputs *= length
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
    for stage, (channels, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1):
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
                x = _bottleneck(net, f"conv{stage + 2}_{i + 1}", x, 64 << stage, 2 if stage and i == 0 else 1)
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


# Channels of a block (paper, table 1): 1x1 | 3x3 reduce, 3x3 | "5x5" reduce, "5x5" | pool projection
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
    for name, (one, reduce3, three, reduce5, five, projection) in GOOGLENET_BLOCKS.items():
        if name == "4a":
            x = net.pool("pool3", x, 3, 2, ceil=True)
        if name == "5a":
            x = net.pool("pool4", x, 2, 2, ceil=True)
        block = f"inception{name}"
        a = net.conv(f"{block}.1x1", x, one, 1)
        b = net.conv(f"{block}.3x3", net.conv(f"{block}.3x3.reduce", x, reduce3, 1), three, 3, 1, 1)
        c = net.conv(f"{block}.5x5", net.conv(f"{block}.5x5.reduce", x, reduce5, 1), five, 3, 1, 1)
        d = net.conv(f"{block}.projection", net.pool(f"{block}.pool", x, 3, 1, 1), projection, 1)
        x = net.concat(f"{block}.concat", a, b, c, d)
    net.linear("fc", net.global_pool("pool5", x), 1000)


NETS = {
    "alexnet": _alexnet,
    "vgg16": _vgg16,
    "googlenet": _googlenet,
    "resnet50": _resnet((3, 4, 6, 3)),
    "resnet101": _resnet((3, 4, 23, 3)),
    "inception_v3": inception.describe,
}


def rows(name: str) -> list[Row]:
    """(layer, kind, parameters, flops, activations) of the net `name`, one image, forward order."""
    net = Net()
    NETS[name](net)
    return net.rows
