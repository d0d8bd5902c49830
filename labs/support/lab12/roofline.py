"""What lab 12 needs beside its exercises: its checks, labkit's own roofs, the roofline's picture.

The roofline model: Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import shutil
from functools import partial
from time import perf_counter

import numpy as np
import torch
from labkit import nets, plots, timing, world
from labkit.checks import expect
from labkit.errors import LabError
from labkit.plots import FAINT, INK, styled
from labkit.timing import FEWEST, human

from support.lab12.checks import expect_bounds, expect_costs, expect_counts, expect_forward, expect_mended
from support.lab12.counting import flops

__all__ = [
    "begin",
    "compiled",
    "expect_bounds",
    "expect_costs",
    "expect_forward",
    "expect_mended",
    "expect_roofs",
    "flops",
    "layers",
    "run",
    "setting",
    "show",
]

WIDE = 4  # two measurements of one roof may differ by this factor: others may use the machine


def begin(threads, pictures, batch, **positive) -> None:
    """Set PyTorch's threads (0: one a core); a sentence, if these parameters leave nothing to measure."""
    for name, value in {**positive, "pictures": pictures, "batch": batch}.items():
        if not value > 0:
            raise LabError(f"{name} = {value} leaves nothing to measure: it must be more than 0.")
    if threads < 0:
        raise LabError(f"threads = {threads}: give how many, or 0 for as many as there are cores.")
    if batch > pictures:
        raise LabError(
            f"A batch of {batch} images cannot be drawn from {pictures}: batch is at most pictures."
        )
    torch.set_num_threads(threads or world.cores())


def layers(linear_cost, conv_cost, side: int, device: str) -> dict:
    """name -> (layer, its images, flops, bytes). side: inputs and outputs of the linear layer.

    conv: of ResNet's first stage. ReLU works in place and counts as a flop a number.
    """
    nn, found = torch.nn, {}
    for batch in (1, 8, 32, 128):
        layer = nn.Linear(side, side, bias=False)
        found[f"linear, {batch}"] = layer, (batch, side), linear_cost(batch, side, side, 4)
    for kernel, filters in ((3, 64), (1, 256)):
        layer = nn.Conv2d(64, filters, kernel, padding=kernel // 2, bias=False)
        cost = conv_cost(8, 64, 56, 56, filters, kernel, 1, kernel // 2, 4)
        found[f"conv {kernel} x {kernel}, 8"] = layer, (8, 64, 56, 56), cost
    size = 16 * 64 * 112 * 112
    found["ReLU, 16"] = nn.ReLU(inplace=True), (16, 64, 112, 112), (size, 2 * 4 * size)
    return {
        name: (layer.to(device), torch.randn(shape, device=device), *cost)
        for name, (layer, shape, cost) in found.items()
    }


def expect_roofs(matrix_peak, memory_bandwidth, n: int, nbytes: int, device: str):
    """(flop/s, bytes/s) as the functions measure them: rightly counted, and near labkit's own measurement."""
    expect_counts(matrix_peak, memory_bandwidth, device)
    how = {"device": device, "repeat": FEWEST}
    a, b, c = (torch.randn(n, n, device=device) for _ in range(3))
    source, target = (torch.ones(nbytes // 4, device=device) for _ in range(2))
    product = partial(torch.mm, a, b, out=c)
    peak = partial(matrix_peak, n, device), lambda: timing.measure(product, **how).rate(2 * n**3)
    copy, moved = partial(target.copy_, source), 2 * source.nbytes
    bandwidth = partial(memory_bandwidth, nbytes, device), lambda: timing.measure(copy, **how).rate(moved)
    return _near("flop/s", *peak), _near("bytes/s", *bandwidth)


def _near(name: str, theirs, own) -> float:
    for _ in range(5):  # somebody else may use the machine in one of the two measurements
        got, ours = theirs(), own()
        if ours / WIDE < got < ours * WIDE:
            break
    expect.between(got, ours / WIDE, ours * WIDE, f"{name}, beside labkit's own measurement, {ours:.3g}")
    return got


def run(layers: dict) -> None:
    """Each layer once, on its images."""
    with torch.inference_mode():
        for layer, images, *_ in layers.values():
            layer(images)


def setting(pictures: int, batch: int, device: str):
    """net, optimizer, pixels (uint8, noise in CIFAR-10's shape), labels, and the rows of one batch."""
    pixels = torch.randint(256, (pictures, 3, 32, 32), dtype=torch.uint8, device=device)
    labels = torch.randint(10, (pictures,), device=device)
    net = nets.torch_conv().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    return net, optimizer, pixels, labels, torch.randperm(pictures, device=device)[:batch]


def compiled(function, size: int, device: str, predicted: float):
    """Ratio of eager to compiled time of function(`size` numbers); None, and a sentence, if it fails."""
    if str(device) == "cpu" and not any(map(shutil.which, ("g++", "clang++", "c++", "cl"))):
        print("torch.compile writes C++ and needs a compiler for it; none was found here (g++, clang++).")
        return None
    try:
        with torch.inference_mode():
            argument, quick = torch.randn(size, device=device), torch.compile(function)
            begin = perf_counter()
            quick(argument)
            timing.device_sync(device)
            first = perf_counter() - begin
            ratio = timing.ratio(
                partial(function, argument), partial(quick, argument), device=device, seconds=3
            )
    except Exception as error:  # whatever a tool chain can lack: headers, Triton, a folder to write to
        print(f"torch.compile does not work here. {type(error).__name__}: {str(error)[:200]}")
        return None
    print(f"eager / compiled: {ratio}; the first call, which compiles, took {human(first)}")
    name = "eager / compiled"
    plots.compare({name: predicted}, {name: ratio}, unit="times as fast", title="Several operators in one")
    return ratio


def show(attainable, least_seconds, layers, times, *, peak, bandwidth, device, threads) -> None:
    """The roofline with the layers at what they reach; each layer's least time beside the measured one.

    The two functions are the learner's. layers: name -> (layer, images, flops, bytes). times: name ->
    Measurement.
    """
    _draw(lambda x: attainable(x, peak, bandwidth), peak / bandwidth, layers, times, device)
    print(f"{'':14}{'time':>10}{'Gflop/s':>10}{'of the peak':>13}{'least / measured':>18}")
    least = {name: least_seconds(*cost, peak, bandwidth) for name, (_, _, *cost) in layers.items()}
    for name, took in times.items():
        rate = took.rate(layers[name][2])
        shares = f"{rate / peak:13.1%}{least[name] / took.median:18.2f}"
        print(f"{name:14}{human(took.median):>10}{rate / 1e9:10.3g}{shares}")
    model = {name: 1e3 * seconds for name, seconds in least.items()}
    measured = {name: 1e3 * took.samples for name, took in times.items()}
    plots.compare(model, measured, unit="ms", title="Least time by the roofline, and measured")
    print(f"Peak {peak / 1e9:.3g} Gflop/s, {bandwidth / 1e9:.3g} GB/s: {device}, {threads} CPU thread(s).")


@styled
def _draw(roof, ridge, layers, times, device):
    title = f"Roofline of this machine ({device})"
    figure, one = plots.one_axes(title, "arithmetic intensity (flops/byte)", "Gflop/s", height=4.6)
    where = {name: work / nbytes for name, (*_, work, nbytes) in layers.items()}
    grid = np.geomspace(min(0.06, *where.values()), 3 * max(ridge, *where.values()), 200)
    one.plot(grid, [roof(x) / 1e9 for x in grid], color=INK, label="the two roofs")
    one.axvline(ridge, color=FAINT, linewidth=1, linestyle=":", label=f"ridge: {ridge:.3g} flops/byte")
    for index, (name, took) in enumerate(times.items()):
        rates = [layers[name][2] / seconds / 1e9 for seconds in (took.median, took.q3, took.q1)]
        plots.points(one, {where[name]: rates}, name, index, joined=False)
    one.set(xscale="log", yscale="log")
    for axis in (one.xaxis, one.yaxis):
        plots.plain_log(axis)
    one.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plots.done(figure, title)
