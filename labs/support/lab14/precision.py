"""Trainings and measurements of lab 14: 16-bit arithmetic with float32 weights, its speed, and a deep net.

`expect_…` are the checks' looks (labkit._memory_checks, labkit._precision_checks), found here too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from labkit import data, nets, timing
from labkit.errors import LabError
from torch.nn import functional

from support.lab14 import memory
from support.lab14.checks import (
    compare_parts,
    expect_checkpoints,
    expect_largest,
    expect_mixed,
    expect_parts,
    expect_scaling,
    plain_step,
)

__all__ = [
    "compare_parts",
    "expect_checkpoints",
    "expect_largest",
    "expect_mixed",
    "expect_parts",
    "expect_scaling",
    "fine_training",
    "speeds",
    "trade",
    "train_scaled",
]


GPU_TIMES = 64  # a GPU gets so many times a CPU's images, rows and bytes


def train_scaled(step: Callable, device, *, seeds, **settings) -> tuple[dict, list]:
    """({way: accuracy (%) of each seed}, the scale by step) of the digits, with a loss so small as `tiny`.

    Ways: float32 and float16 with a scale of 1 that never changes, and float16 scaled, from 2^48 (far too
    high, on purpose) with a patience of 20. step: lab 14's scaled_step(weights, gradients, scaling, rate,
    patience).
    settings: epochs, batch, and tiny, by which the loss is multiplied and the learning rate (0.2) divided.
    """
    _at_least(1, epochs=settings["epochs"])
    if not isinstance(seeds, (tuple, list)) or not seeds or min(seeds) < 0:
        raise LabError(f"seeds must be a tuple such as (0, 1, 2), of numbers from 0, but it is {seeds!r}.")
    if not settings["tiny"] > 0:
        raise LabError(f"tiny must be above 0: the learning rate is divided by it. It is {settings['tiny']}.")
    ways = {"float32": (torch.float32, 1.0, 10**9), "float16,\nno scaling": (torch.float16, 1.0, 10**9)}
    ways["float16,\nscaled"] = (torch.float16, 2.0**48, 20)
    right: dict[str, list[float]] = {}
    for way, how in ways.items():
        done = [_train_scaled(step, *how, seed, device, **settings) for seed in seeds]
        right[way] = [accuracy for accuracy, _ in done]
    return right, done[0][1]


def _at_least(least: int, **given: int) -> None:
    for name, value in given.items():
        if value < least:
            raise LabError(
                f"{name} must be at least {least}; here it is {value}. Look at the parameters cell."
            )


def _train_scaled(step, kind, scale, patience, seed, device, *, epochs, batch, tiny, rate=0.2):
    net = nets.torch_digits(nets.start_weights(seed)).to(device)
    low, scaling, scales = copy.deepcopy(net).to(kind), {"scale": scale, "good": 0}, []
    train_x, train_y, test_x, test_y = (torch.tensor(part, device=device) for part in data.digits())
    for epoch in range(epochs):
        for picked in data.batches(len(train_x), batch, epoch, seed):
            low.load_state_dict(net.state_dict())  # every float32 weight, rounded to `kind`
            low.zero_grad()
            loss = tiny * functional.cross_entropy(low(train_x[picked].to(kind)).float(), train_y[picked])
            (loss * scaling["scale"]).backward()
            slopes = [weight.grad for weight in low.parameters()]
            step(list(net.parameters()), slopes, scaling, rate / tiny, patience)
            scales.append(scaling["scale"])
    return 100 * (net(test_x).argmax(1) == test_y).float().mean().item(), scales


def fine_training(mixed_step: Callable, epochs: int, device, batch: int = 64, rate: float = 0.01) -> dict:
    """Mean training loss by epoch, a small learning rate: float32, mixed, weights kept in bfloat16."""
    ways = {"float32": plain_step, "mixed": mixed_step, "bfloat16 weights": plain_step}
    curves: dict[str, list[float]] = {}
    images, labels = (torch.tensor(part, device=device) for part in data.digits()[:2])
    for way, step in ways.items():
        net = nets.torch_digits().to(device, torch.bfloat16 if way.startswith("bfloat16") else torch.float32)
        optimizer = torch.optim.SGD(net.parameters(), lr=rate)
        curves[way] = []
        for epoch in range(epochs):
            picks = data.batches(len(images), batch, epoch)
            losses = [step(net, optimizer, images[rows], labels[rows]) for rows in picks]
            curves[way].append(sum(losses) / len(losses))
    return curves


def speeds(images: int, matrix: int, runs: int, device) -> dict[str, dict]:
    """A convolution net's training step by type and layout: its time, flop/s, share of the matrix product's.

    Keys such as "bfloat16, channels-last"; values {"seconds": Measurement, "flops": flop/s, "share": part of
    the flop/s of a product of two square matrices of `matrix` rows in that type}. All in turns, in one run.
    """
    from torch.utils.flop_counter import FlopCounterMode

    _at_least(1, images=images, matrix=matrix)
    device, steps, products = torch.device(device), {}, {}
    if device.type == "cuda":
        images, matrix = GPU_TIMES * images, 16 * matrix
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        name = str(kind)[6:]
        square = torch.rand(matrix, matrix, device=device).to(kind)
        products[name] = partial(torch.mm, square, square)
        for layout, order in (
            ("contiguous", torch.contiguous_format),
            ("channels-last", torch.channels_last),
        ):
            net = nets.torch_conv().to(device, memory_format=order)
            x = torch.rand(images, 3, 32, 32, device=device).contiguous(memory_format=order)
            steps[f"{name}, {layout}"] = partial(_conv_step, net, x, kind)
    with FlopCounterMode(display=False) as counter:
        steps["float32, contiguous"]()
    times = timing.in_turns(steps, repeat=runs, warmup=1, device=str(device))
    best = timing.in_turns(products, repeat=runs, warmup=1, device=str(device))
    found = {}
    for name, time in times.items():
        flops = counter.get_total_flops() / time.median
        top = 2 * matrix**3 / best[name.split(",")[0]].median
        found[name] = {"seconds": time, "flops": flops, "share": flops / top}
    return found


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
    _at_least(1, pairs=pairs)
    _at_least(2, rows=rows)  # the edge is predicted from half of them and all
    many = GPU_TIMES if str(device).startswith("cuda") else 1
    rows, cuts = rows * many, [cut for cut in (1, 2, 4, 8, 16, 32) if cut <= pairs]
    ways = {0: _whole} | {cut: partial(checkpointed, segments=cut) for cut in cuts}
    steps = {cut: partial(deep_step(pairs, forward, rows, device), rows) for cut, forward in ways.items()}
    times = timing.in_turns(steps, repeat=runs, warmup=1, device=str(device))
    peaks = {cut: memory.peak(step, device) / (rows * 64 * 4) for cut, step in steps.items()}
    best = min(cuts, key=lambda cut: peaks[cut])
    held = {"measured": {cut: peaks[cut] for cut in cuts}}
    held["inputs + one segment"] = {cut: cut + pairs / cut for cut in cuts}
    held["all kept, measured"] = dict.fromkeys(cuts, peaks[0])
    longer = {cut: times[cut].samples / times[0].samples for cut in cuts}
    two = {"all kept": _whole, f"{best} segment{'s' * (best > 1)}": ways[best]}
    edge = _edge(two, largest_batch, pairs, rows, budget * many, device)
    small, large = edge[1].values()
    measured = {"outputs_at_peak": peaks[best], "time_ratio": float(np.median(longer[best]))}
    return {
        "held": held,
        "longer": longer,
        "edge": edge,
        "measured": measured | {"batch_ratio": large / small},
    }


def _edge(ways: dict, largest_batch, pairs: int, rows: int, nbytes: int, device) -> tuple[dict, dict]:
    predicted, tried = {}, {}
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
    """step(rows): loss and backward of memory.deep(pairs) on so many rows (at most `most`).

    forward(net, x) computes the logits.
    """
    net = memory.deep(pairs).to(device)
    x, labels = torch.rand(most, 64, device=device), torch.arange(most, device=device) % 10

    def step(rows: int) -> None:
        net.zero_grad()
        functional.cross_entropy(forward(net, x[:rows]), labels[:rows]).backward()

    return step
