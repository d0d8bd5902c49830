"""Lab 12's pictures and tables: the roofline with the layers, a compiled function beside the eager one."""

from __future__ import annotations

import shutil
from functools import partial
from time import perf_counter

import numpy as np
import torch
from labkit import plots, timing
from labkit.plots import FAINT, INK, styled
from labkit.timing import human


def show_roofline(attainable, least_seconds, layers, times, *, peak, bandwidth, device, threads) -> None:
    """The roofline with the layers at what they reach; each layer's least time beside the measured one.

    The two functions are the learner's. layers: name -> (layer, images, flops, bytes). times: name ->
    Measurement. peak: flop/s, bandwidth: bytes/s.
    """
    _draw(lambda intensity: attainable(intensity, peak, bandwidth), peak / bandwidth, layers, times, device)
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
    figure, axes = plots.one_axes(title, "arithmetic intensity (flops/byte)", "Gflop/s", height=4.6)
    intensity = {name: work / nbytes for name, (*_, work, nbytes) in layers.items()}
    grid = np.geomspace(min(0.06, *intensity.values()), 3 * max(ridge, *intensity.values()), 200)
    axes.plot(grid, [roof(place) / 1e9 for place in grid], color=INK, label="the two roofs")
    axes.axvline(ridge, color=FAINT, linewidth=1, linestyle=":", label=f"ridge: {ridge:.3g} flops/byte")
    for index, (name, took) in enumerate(times.items()):
        rates = [layers[name][2] / seconds / 1e9 for seconds in (took.median, took.q3, took.q1)]
        plots.points(axes, {intensity[name]: rates}, name, index, joined=False)
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        plots.plain_log(axis)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plots.done(figure, title)


def compiled(function, size: int, device: str, predicted: float):
    """Ratio of eager to compiled time of function(`size` numbers); None, and a sentence, if it fails."""
    if str(device) == "cpu" and not any(map(shutil.which, ("g++", "clang++", "c++", "cl"))):
        print("torch.compile writes C++ and needs a compiler for it; none was found here (g++, clang++).")
        return None
    try:
        with torch.inference_mode():
            argument = torch.randn(size, device=device)
            quick = torch.compile(function)
            begin = perf_counter()
            quick(argument)
            timing.device_sync(device)
            first = perf_counter() - begin
            eager_call = partial(function, argument)
            quick_call = partial(quick, argument)
            ratio = timing.ratio(eager_call, quick_call, device=device, seconds=3)
    except Exception as error:  # whatever a tool chain can lack: headers, Triton, a folder to write to
        print(f"torch.compile does not work here. {type(error).__name__}: {str(error)[:200]}")
        return None
    print(f"eager / compiled: {ratio}; the first call, which compiles, took {human(first)}")
    name = "eager / compiled"
    plots.compare({name: predicted}, {name: ratio}, unit="times as fast", title="Several operators in one")
    return ratio
