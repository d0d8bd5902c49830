"""Measurements of lab 14: a convolution net by type and layout, a deep net by segments, its largest batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from labkit import nets, timing
from labkit.errors import LabError
from torch.nn import functional

from support.lab14 import memory
from support.lab14.cases import deep
from support.lab14.parameters import at_least

GPU_TIMES = 64  # a GPU gets so many times a CPU's images, rows and bytes
CUTS = (1, 2, 4, 8, 16, 32)  # segments of the deep net
LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}


def speeds(images: int, matrix: int, runs: int, device) -> dict[str, dict]:
    """A convolution net's training step by type and layout: its time, flop/s, share of the matrix product's.

    Keys such as "bfloat16, channels-last"; values {"seconds": Measurement, "flops": flop/s, "share": part of
    the flop/s of a product of two square matrices of `matrix` rows in that type}. All in turns, in one run.
    """
    from torch.utils.flop_counter import FlopCounterMode

    at_least(1, images=images, matrix=matrix)
    device = torch.device(device)
    steps: dict[str, Callable] = {}
    products: dict[str, Callable] = {}
    if device.type == "cuda":
        images = GPU_TIMES * images
        matrix = 16 * matrix
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        name = str(kind)[6:]
        square = torch.rand(matrix, matrix, device=device).to(kind)
        products[name] = partial(torch.mm, square, square)
        for layout, order in LAYOUTS.items():
            net = nets.torch_conv().to(device, memory_format=order)
            x = torch.rand(images, 3, 32, 32, device=device).contiguous(memory_format=order)
            steps[f"{name}, {layout}"] = partial(_conv_step, net, x, kind)
    with FlopCounterMode(display=False) as counter:
        steps["float32, contiguous"]()
    times = timing.in_turns(steps, repeat=runs, warmup=1, device=str(device))
    best = timing.in_turns(products, repeat=runs, warmup=1, device=str(device))
    rows = {}
    for name, time in times.items():
        flops = counter.get_total_flops() / time.median
        top = 2 * matrix**3 / best[name.split(",")[0]].median
        rows[name] = {"seconds": time, "flops": flops, "share": flops / top}
    return rows


def _conv_step(net, x, kind: torch.dtype) -> None:
    net.zero_grad()
    with torch.autocast(x.device.type, kind, enabled=kind != torch.float32):
        out = net(x)
    out.float().square().mean().backward()


def trade(checkpointed, largest_batch, pairs: int, rows: int, budget: int, runs: int, device) -> dict:
    """A deep net's step by segments, beside all activations kept, and its largest batch in `budget` bytes.

    "held": curves segments -> outputs of a layer at the peak; "longer": segments -> ratios of times;
    "edge": largest batches, predicted and tried; "measured": what the lab's predictions ask, at the best cut.
    """
    at_least(1, pairs=pairs)
    at_least(2, rows=rows)  # the edge is predicted from half of them and all
    if str(device).startswith("cuda"):
        rows = GPU_TIMES * rows
        budget = GPU_TIMES * budget
    cuts = [cut for cut in CUTS if cut <= pairs]
    ways = {0: _whole} | {cut: partial(checkpointed, segments=cut) for cut in cuts}
    steps = {cut: partial(deep_step(pairs, forward, rows, device), rows) for cut, forward in ways.items()}
    times = timing.in_turns(steps, repeat=runs, warmup=1, device=str(device))
    peaks = {cut: memory.peak(step, device) / (rows * 64 * 4) for cut, step in steps.items()}
    best = min(cuts, key=lambda cut: peaks[cut])
    held = {
        "measured": {cut: peaks[cut] for cut in cuts},
        "inputs + one segment": {cut: cut + pairs / cut for cut in cuts},
        "all kept, measured": dict.fromkeys(cuts, peaks[0]),
    }
    longer = {cut: times[cut].samples / times[0].samples for cut in cuts}
    two = {"all kept": _whole, f"{best} segment{'s' if best > 1 else ''}": ways[best]}
    edge = _edge(two, largest_batch, pairs, rows, budget, device)
    small, large = edge[1].values()
    measured = {
        "outputs_at_peak": peaks[best],
        "time_ratio": float(np.median(longer[best])),
        "batch_ratio": large / small,
    }
    return {"held": held, "longer": longer, "edge": edge, "measured": measured}


def _edge(ways: dict, largest_batch, pairs: int, rows: int, nbytes: int, device) -> tuple[dict, dict]:
    predicted = {}
    tried = {}
    for way, forward in ways.items():
        step = deep_step(pairs, forward, 12 * rows, device)
        step(rows)  # libraries take their working space
        peaks = {size: memory.peak(partial(step, size), device) for size in (rows // 2, rows)}
        predicted[way] = largest_batch(peaks, nbytes)
        if not 0 < predicted[way] <= 12 * rows:
            raise LabError(
                f"{way}: a budget of {nbytes:,} bytes is for {max(0, predicted[way]):,} inputs. "
                f"With {rows:,} rows, choose one for 1 to {12 * rows:,} inputs."
            )
        tried[way] = memory.largest(step, nbytes, min(2 * predicted[way], 12 * rows), device)
    return predicted, tried


def _whole(net, x):
    return net(x)


def deep_step(pairs: int, forward: Callable, most: int, device) -> Callable[[int], None]:
    """step(rows): loss and backward of the deep net of so many pairs on so many rows (at most `most`).

    forward(net, x) computes the logits.
    """
    net = deep(pairs).to(device)
    x = torch.rand(most, 64, device=device)
    labels = torch.arange(most, device=device) % 10

    def step(rows: int) -> None:
        net.zero_grad()
        functional.cross_entropy(forward(net, x[:rows]), labels[:rows]).backward()

    return step
