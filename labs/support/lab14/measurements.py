"""What labs 14 and 16 measure: a convolution net by type and layout, bytes of a mixed step; a deep net by
segments, and its largest batch.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from labkit import nets, timing
from labkit.errors import LabError
from torch.nn import functional

from support.lab14 import memory
from support.lab14.cases import deep, small_vgg
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
            if kind == torch.float16 and device.type == "cpu" and layout != "contiguous":
                continue  # seconds a step where no library has a kernel for it
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


def bytes_by_way(device, batch: int = 24) -> dict[str, dict[str, int]]:
    """A small VGG's step with Adam, {way: {part: bytes}}: in float32, mixed, and all in bfloat16.

    Parts: parameters, gradients, optimizer, activations, and the 16-bit copies of the weights.
    """
    ways = {
        "float32": (torch.float32, False),
        "mixed": (torch.float32, True),
        "all bfloat16\n(the control)": (torch.bfloat16, False),
    }
    held = {}
    for way, (kind, mixed) in ways.items():
        net = small_vgg().to(device, kind)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        pictures = torch.rand(batch, 3, 16, 16, device=device).to(kind)
        labels = torch.arange(batch, device=device) % 10
        parts = memory.parts(net, optimizer, pictures, labels, mixed=mixed)
        activations = parts.pop("activations")
        held[way] = {"copies of weights": 0, **parts, "activations": activations}
    return held


def abilities(device) -> str:
    """A line on what this device has for numbers of 16 bits."""
    device = torch.device(device)
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return f"{torch.cuda.get_device_name(device)}, compute capability {major}.{minor}"
    wanted = ("avx512_bf16", "amx_bf16", "avx512_fp16", "amx_fp16", "avx_ne_convert", "bf16", "asimdhp")
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return f"{platform.machine()}: this system tells nothing of its processor's instructions."
    flags: set[str] = set()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            flags = set(value.split())
            break
    here = [name for name in wanted if name in flags]
    return f"This {platform.machine()} processor's instructions for 16 bits: {', '.join(here) or 'none'}."


def trade(checkpointed, pairs: int, rows: int, runs: int, device) -> dict:
    """A deep net's step by segments, beside all activations kept.

    "held": curves segments -> tensors of a layer's size held at the peak; "longer": curves segments -> how
    many times as long a step takes; "peaks" by segments (0: no checkpoints); "forward_share": of a step
    without checkpoints; "cut", the segments that the lab's prediction asks for, and "ratio", its time.
    """
    at_least(1, pairs=pairs)
    at_least(2, rows=rows)
    if str(device).startswith("cuda"):
        rows = GPU_TIMES * rows
    cuts = [cut for cut in CUTS if cut <= pairs]
    ways = {0: _whole} | {cut: partial(checkpointed, segments=cut) for cut in cuts}
    steps: dict = {}
    for cut, forward in ways.items():
        steps[cut] = partial(deep_step(pairs, forward, rows, device, keep_gradients=True), rows)
        steps[cut]()  # from here on the gradients are there, and no part of the peak
    peaks = {cut: memory.peak(step, device) / (rows * 64 * 4) for cut, step in steps.items()}
    net = deep(pairs).to(device)
    x = torch.rand(rows, 64, device=device)
    steps["forward"] = partial(net, x)
    times = timing.in_turns(steps, repeat=runs, warmup=1, device=str(device))
    share = float(np.median(times["forward"].samples / times[0].samples))
    longer = {cut: times[cut].samples / times[0].samples for cut in cuts}
    cut = compared(pairs)
    return {
        "held": {
            "measured": {number: peaks[number] for number in cuts},
            "inputs + one segment": {number: number + pairs / number for number in cuts},
            "no checkpoints, measured": dict.fromkeys(cuts, peaks[0]),
        },
        "longer": {
            "measured": longer,
            "4/3: backward takes twice forward": dict.fromkeys(cuts, 4 / 3),
            "1 + forward's measured share": dict.fromkeys(cuts, 1 + share),
        },
        "peaks": peaks,
        "forward_share": share,
        "cut": cut,
        "ratio": float(np.median(longer[cut])),
    }


def compared(pairs: int) -> int:
    """The number of segments that lab 16's predictions are about: 8, or as many as there are pairs."""
    return max(cut for cut in CUTS if cut <= min(8, pairs))


def edge(checkpointed, largest_batch, pairs: int, rows: int, budget: int, device) -> dict:
    """The deep net's largest batch in `budget` bytes, without checkpoints and with.

    "predicted": by largest_batch from two measured peaks; "tried": by trying; "ratio": of the tried ones.
    """
    at_least(1, pairs=pairs)
    at_least(2, rows=rows)  # the edge is predicted from half of them and all
    if str(device).startswith("cuda"):
        rows = GPU_TIMES * rows
        budget = GPU_TIMES * budget
    cut = compared(pairs)
    segments = f"{cut} segment{'s' if cut > 1 else ''}"
    ways = {"all kept": _whole, segments: partial(checkpointed, segments=cut)}
    predicted = {}
    tried = {}
    for way, forward in ways.items():
        step = deep_step(pairs, forward, 12 * rows, device)
        step(rows)  # libraries take their working space
        peaks = {size: memory.peak(partial(step, size), device) for size in (rows // 2, rows)}
        predicted[way] = largest_batch(peaks, budget)
        if not 0 < predicted[way] <= 12 * rows:
            raise LabError(
                f"{way}: a budget of {budget:,} bytes is for {max(0, predicted[way]):,} inputs. "
                f"With {rows:,} rows, choose one for 1 to {12 * rows:,} inputs."
            )
        tried[way] = memory.largest(step, budget, min(2 * predicted[way], 12 * rows), device)
    return {"predicted": predicted, "tried": tried, "ratio": tried[segments] / tried["all kept"]}


def _whole(net, x):
    return net(x)


def deep_step(
    pairs: int, forward: Callable, most: int, device, keep_gradients: bool = False
) -> Callable[[int], None]:
    """step(rows): loss and backward of the deep net of so many pairs on so many rows (at most `most`).

    forward(net, x) computes the logits. keep_gradients: they are set to 0, not freed, before a step.
    """
    net = deep(pairs).to(device)
    x = torch.rand(most, 64, device=device)
    labels = torch.arange(most, device=device) % 10

    def step(rows: int) -> None:
        net.zero_grad(set_to_none=not keep_gradients)
        functional.cross_entropy(forward(net, x[:rows]), labels[:rows]).backward()

    return step
