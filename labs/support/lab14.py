"""Lab 14: its checks, and what it measures: trainings in 16 bits, bytes of a step, checkpoints.

On a CPU no allocator tells what PyTorch holds, so the tensors are counted: each storage once,
however many tensors look into it. What libraries use inside an operation (oneDNN's scratch space)
is not in these numbers.
"""

from __future__ import annotations

import copy
import math
import numbers
import platform
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas
import torch
from labkit import check, data, expect, nets, timing, workloads
from labkit.errors import CheckFailed, counted
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SEGMENTS = 4  # of a workload with checkpoints
GPU_TIMES = 64  # a GPU gets so many times a CPU's images and rows
CUTS = (1, 2, 4, 8, 16, 32)  # segments of the deep net
LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}
KINDS = {"Conv2d": "conv", "Linear": "linear", "ReLU": "relu", "MaxPool2d": "pool"}


@check.exercise("14.1")
def steps_with_loss_scaling(scaled_step):
    """Steps in a row with finite gradients and others, a scale below 1, and float16's largest
    numbers."""
    inf, nan = math.inf, math.nan
    mixed = [1, 2**-14, 1, 1, inf, 1, 2, 1, nan, 1, 1, -inf, inf, 1, 1, 1]
    powers = [16, 16, 17, 17, 16, 16, 16, 17, 16, 16, 16, 15, 14, 14, 14, 15]
    # Each weight, the scale as a power of 2, rate, patience; then by step, one of the gradients and
    # the power of 2 after it.
    for start, power, rate, patience, specials, after in (
        (0, 16, 8.0, 3, mixed, powers),
        (0, 0, 8.0, 3, [inf, 60_000], [-1, -1]),
        (1, 30, 1024.0, 2, [65_504] * 6, [30, 31, 31, 32, 32, 33]),
    ):
        counted_anew = (
            f"It doubles after {patience} good steps in a row, counted from 0 again after"
        )
        doubles = f"{counted_anew} each doubling and each skipped step"
        scaling = {"scale": 2.0**power, "good": 0}
        for number, (special, exponent) in enumerate(zip(specials, after, strict=True), 1):
            scale = scaling["scale"]
            case = f"step {number}, a gradient of {special:,g}, scale {scale:g}"
            with check.case(f"{case}, patience {patience}"):
                first = number == 9  # else the special gradient is in the second tensor
                halves = "A skipped step halves it once, also below 1 and for several bad gradients"
                because = doubles if math.isfinite(special) else halves
                _scaled_once(scaled_step, start, special, first, scaling, rate, patience)
                expect.equal(scaling["scale"], 2.0**exponent, "the scale after it", because=because)


def _scaled_once(scaled_step, start, special, first: bool, scaling, rate, patience) -> None:
    """One step of weights that are all `start`, with two gradients that are `special`."""
    scale = scaling["scale"]
    # Beside what is not finite stands a number: each number counts, not each tensor.
    beside = special if math.isfinite(special) else 0.5
    gradients = [torch.tensor([1, -2, 2.0**-10]).half(), torch.tensor([beside, special]).half()]
    if special == -math.inf:
        gradients[0][1] = special  # in both tensors, and yet the scale is halved once
    if first:
        gradients.reverse()
    weights = [torch.full((len(gradient),), float(start)) for gradient in gradients]
    copies = [gradient.clone() for gradient in gradients]
    # A list of its own: only what is changed in place is seen in `weights`.
    taken = scaled_step(list(weights), copies, scaling, rate, patience)
    finite = math.isfinite(special)
    unchanged = all((weight == start).all() for weight in weights)
    bad = f"one gradient is {special}, and yet a weight changed. Look at all, then change."
    expect(finite or unchanged, bad)
    largest = "float16 goes up to 65,504, so this gradient is finite. A sum of them is not"
    because = largest if finite and special > 30_000 else ""
    expect.equal(taken, finite, "whether the step was taken", because=because)
    if not finite:
        return
    for weight, gradient in zip(weights, gradients, strict=True):
        exact = gradient.float()
        slips = {
            "no weight changed. Change it in place, and divide in float32": start + 0 * exact,
            "the gradients are still times the scale. Divide it away": start - rate * exact,
            "a gradient became 0 or inf on its way. Divide in float32, not in float16": (
                start - rate * (gradient / scale).float()
            ),
            "divide by the scale as it was before it is doubled": start - rate * exact / scale / 2,
        }
        what = f"the weights, {start} at the start, by a rate of {rate:g}"
        expect.close(weight, start - rate * exact / scale, what, rtol=1e-4, atol=0, slips=slips)


@check.exercise("14.2")
def mixed_steps_beside_float32(mixed_step, device):
    """40 small steps beside the same ones in float32: bfloat16 in the layers, float32 weights and
    loss."""
    net, twin = (nets.torch_digits().to(device) for _ in range(2))
    start = _flat(net)
    outputs: list[torch.Tensor] = []
    linear = net[::2]
    for layer in linear:
        layer.register_forward_hook(lambda layer, inputs, output: outputs.append(output.detach()))
    inside: list[bool] = []  # whether backward ran inside of torch.autocast
    net[0].weight.register_hook(
        lambda gradient: inside.append(torch.is_autocast_enabled(device.type))
    )
    optimizer, twins = (torch.optim.SGD(model.parameters(), lr=0.003) for model in (net, twin))
    made: list[str] = []  # steps of the optimizer that mixed_step is given
    optimizer.register_step_post_hook(lambda *_: made.append("a step"))
    batches = [
        [torch.tensor(part[first : first + 64], device=device) for part in data.digits()[:2]]
        for first in (0, 64)
    ]
    for number in range(1, 41):
        images, labels = batches[number % 2]
        outputs.clear()
        loss = mixed_step(net, optimizer, images, labels)
        expect(isinstance(loss, numbers.Real), "Return loss.item(), a plain number.")
        kinds = _kinds(outputs) or "none: net was not called"
        expect(kinds == "bfloat16", f"The layers should give bfloat16; here it is {kinds}.")
        kinds = _kinds(net.parameters())
        expect(kinds == "float32", f"The weights should stay float32; here it is {kinds}.")
        runs = len(outputs) // len(linear)
        again = f"net ran {runs} times in a step. Return the loss on which you call backward."
        expect(runs == 1, again)
        expect(net.training, "Your step left the net in evaluation mode, where dropout is off.")
        page = "It should contain only the forward pass and the loss, as its page says."
        expect(not any(inside), f"The backward pass ran inside torch.autocast. {page}")
        exact = functional.cross_entropy(outputs[-1].float(), labels).item()
        near = abs(loss - exact) < 0.05 * exact
        because = "compute the loss in float32" if near else "is it the mean over the images?"
        what = f"Loss of step {number} (expected: of the same logits, in float32)"
        expect.close(loss, exact, what, rtol=1e-4, because=because)
        way = _flat(net) - start
        expect(
            way.any(),
            "No weight changed. The order: optimizer.zero_grad(), backward, optimizer.step().",
        )
        what = f"Loss of step {number} (expected: of the training in float32)"
        float32_loss = plain_step(twin, twins, images, labels)
        expect.close(loss, float32_loss, what, rtol=0.1, because="is .grad of this step alone?")
    right = _flat(twin) - start
    length = way @ right / (right @ right)
    twice = (
        f"In 40 steps the weights went {length:.1f} times as far as in float32. One update a step."
    )
    expect(length < 1.5, twice)
    off = (way - right).norm() / right.norm()
    lost = f"After 40 small steps the weights are {off:.0%} off float32's way"
    expect(off < 0.1, f"{lost}: are small updates rounded away?")
    by_another = f"The weights are right, but the given optimizer made {len(made)} steps, not 40"
    expect(len(made) == 40, f"{by_another}: call `optimizer.step()`, once in a step.")


def _kinds(tensors) -> str:
    return ", ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}))


def _flat(net) -> torch.Tensor:
    return torch.cat([weight.detach().float().flatten() for weight in net.parameters()])


@check.exercise("14.3")
def bytes_kept_for_backward(kept_bytes, device):
    """What PyTorch keeps for backward, for nets with and without pooling, in float32 and
    bfloat16."""
    for name, make, shape, batch, kind in (
        ("digits", nets.torch_digits, (64,), 8, torch.float32),
        ("small VGG", small_vgg, (3, 16, 16), 12, torch.float32),
        ("VGG, 400 classes", partial(small_vgg, classes=400), (3, 16, 16), 24, torch.bfloat16),
    ):
        net = make().to(device, kind)
        images = torch.rand(batch, *shape, device=device, dtype=kind)
        layers, image, value = table(net, images), images[0].numel(), images.element_size()
        labels = torch.arange(batch, device=device) % 10
        right = kept(partial(_loss, net, images, labels), labels, *net.parameters())
        # Where a net has no pooling, the first three equal what is right, and are never named.
        pooled = layers.activations[layers.kind == "pool"].sum()
        others = layers.activations[layers.kind == "linear"].sum() - layers.activations.iloc[-1]
        eight = "8 bytes each, whatever `value` is"
        slips = {
            "the places are of one image. They grow with the batch": (
                right - (batch - 1) * 8 * pooled
            ),
            "the loss needs the outputs of the last layer": (
                right - batch * value * layers.activations.iloc[-1]
            ),
            f"pooling also keeps the places of its maxima, {eight}": right - batch * 8 * pooled,
            # In float32 the same as no outputs of pooling, which the next layer keeps.
            f"pooling keeps its outputs, as the next layer's input, and their places, {eight}": (
                right + batch * (value - 8) * pooled
            ),
            "these are the bytes of one image": right / batch,
            "a linear layer or convolution needs no output of its own for backward": (
                right + batch * value * others
            ),
            "the images are missing: the first layer needs its input": right
            - batch * value * image,
        }
        with check.case(f"{name}, {batch} images, {_kinds([images])}"):
            what = "bytes kept (expected: in PyTorch's tensors)"
            given = layers.copy()
            expect.close(
                kept_bytes(given, image, batch, value), right, what, rtol=2e-3, slips=slips
            )
            own = "the number is right, but `layers` was changed; it belongs to the caller"
            expect(given.equals(layers), f"{own}.")


def _loss(net, images, labels) -> torch.Tensor:
    return functional.cross_entropy(net(images), labels)


@check.exercise("14.4")
def checkpoints_by_segment(checkpointed):
    """Only the segments' inputs are kept, each layer runs twice, gradients are right; for several
    cuts."""
    for pairs, segments in [(1, 1), (3, 2), (8, 2), (5, 3), (7, 6)]:
        net, twin = deep(pairs), deep(pairs)
        x, labels = torch.randn(512, 64), torch.arange(512) % 10
        forward = partial(checkpointed, net, x, segments)
        longest = math.ceil(len(net) / segments)  # layers of a segment
        with check.case(f"{len(net)} layers, {counted(segments, 'segment')}"):
            held = kept(forward, *net.parameters()) / x.nbytes
            more = f"the forward pass keeps {held:.1f} times x. Keep the segments' inputs alone"
            expect(
                held < segments + 0.5,
                f"{more}: checkpoint each, the last too, {longest} layers long.",
            )
            few = f"the forward pass keeps only {held:.0f} times x. Is there one for each segment"
            expect(held > math.ceil(len(net) / longest) - 0.5, f"{few}? Is use_reentrant=False?")
            ran: list[int] = []  # layers, in their order
            for place, layer in enumerate(net):
                layer.register_forward_pre_hook(lambda *_, place=place, ran=ran: ran.append(place))
            logits = forward()
            expect(
                torch.is_tensor(logits), f"got {type(logits).__name__}. Does the function return x?"
            )
            loss, wanted = (functional.cross_entropy(out, labels) for out in (logits, twin(x)))
            expect.close(loss, wanted, "the loss (did every layer run?)")
            wanted.backward()
            try:
                loss.backward()
            except RuntimeError as error:
                cure = (
                    "does a function that you made in a loop look up a name which has changed"
                    " since?"
                )
                what = "the backward pass did not run the same layers again"
                raise CheckFailed(f"{what}: {cure} ({str(error)[:70]}…)") from None
            for number, (weight, right) in enumerate(
                zip(net.parameters(), twin.parameters(), strict=True)
            ):
                lost = f"no gradient for parameter {number}. Is use_reentrant=False?"
                expect(
                    weight.grad is not None, f"{lost} Was x detached, or were the layers copied?"
                )
                what = f"gradient of parameter {number}"
                expect.close(weight.grad, right.grad, what, rtol=1e-4, atol=1e-7)
            runs = [ran.count(place) for place in range(len(net))]
            expect(set(runs) == {2}, f"layers ran {runs} times; each should run twice.")
            again = ran[len(net) :]  # a segment's layers in a row, the last segment first
            jumps = [i for i in range(1, len(again)) if again[i] != again[i - 1] + 1]
            lengths = np.diff([0, *jumps, len(again)])[::-1].tolist()
            uneven = (
                f"the segments have {lengths} layers. Make them equally long, at most {longest}."
            )
            expect(max(lengths) <= longest, uneven)


def small_vgg(width: int = 8, side: int = 16, classes: int = 10) -> torch.nn.Sequential:
    """(n, 3, side, side) -> logits: convolutions, ReLU and max-pooling in VGG's order, two linear
    layers."""
    nn = torch.nn
    layers: list[torch.nn.Module] = []
    inputs = 3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for outputs in (width, 2 * width):
            for _ in range(2):
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        units = inputs * (side // 4) ** 2
        layers += [
            nn.Flatten(),
            nn.Linear(units, 8 * width),
            nn.ReLU(),
            nn.Linear(8 * width, classes),
        ]
        return nn.Sequential(*layers)


def deep(pairs: int, width: int = 64, classes: int = 10) -> torch.nn.Sequential:
    """(n, width) -> logits: so many pairs of linear layer and ReLU; the last ReLU is a
    classifier."""
    nn = torch.nn
    layers: list[torch.nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for _ in range(pairs):
            layers += [nn.Linear(width, width), nn.ReLU()]
        for layer in layers[::2]:  # as large in each layer, forward and backward (He et al. 2015)
            nn.init.normal_(layer.weight, std=(2 / width) ** 0.5)
        return nn.Sequential(*layers[:-1], nn.Linear(width, classes))


def table(net: torch.nn.Sequential, images: torch.Tensor) -> pandas.DataFrame:
    """The layers of `net`: kind, parameters, activations (numbers in one image's output).

    Columns as in nets.layer_table. A layer that only looks at its input in another shape has no
    row.
    """
    rows = []
    x = images[:1]
    with torch.no_grad():
        for layer in net:
            x = layer(x)
            kind = KINDS.get(type(layer).__name__)
            if kind:
                rows.append((kind, sum(p.numel() for p in layer.parameters()), x.numel()))
    return pandas.DataFrame(rows, columns=["kind", "parameters", "activations"])


def kept(forward: Callable[[], torch.Tensor], *apart: torch.Tensor) -> int:
    """Bytes that autograd keeps for backward in `forward()`, without those of the tensors
    `apart`."""
    storages: dict[int, torch.UntypedStorage] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    without = {_place(tensor) for tensor in apart}
    total = sum(storage.nbytes() for place, storage in storages.items() if place not in without)
    del result  # until here: what is freed could be used again, and counted once instead of twice
    return total


def peak(call: Callable[[], object], device: str = "cpu") -> int:
    """Most bytes that `call()` held at a time, above what was there before it.

    On a GPU the allocator's word (torch.cuda.max_memory_allocated); on a CPU the tensors made by
    PyTorch's operations, counted.
    """
    if str(device).startswith("cuda"):
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with _Live() as live:
        call()
    return live.most


class _Live(TorchDispatchMode):
    """Counts bytes of the storages that operations make while it is on, until they are freed."""

    def __init__(self):
        super().__init__()
        self.now = 0
        self.most = 0
        self._known: weakref.WeakSet = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        arguments = {_place(leaf) for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            # Else a view, or changed in place.
            if torch.is_tensor(leaf) and _place(leaf) not in arguments:
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        nbytes = storage.nbytes()
        self.now += nbytes
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._freed, nbytes)

    def _freed(self, nbytes: int) -> None:
        self.now -= nbytes


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def plain_step(net, optimizer, images, labels) -> float:
    """One training step that computes in the type that the weights have. Returns the loss before
    it."""
    optimizer.zero_grad()
    if images.is_floating_point():  # tokens stay whole numbers
        images = images.to(next(net.parameters()).dtype)
    loss = functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def train_scaled(step: Callable, device, *, seeds, **settings) -> tuple[dict, list]:
    """({way: accuracy (%) of each seed}, the scale by step, from the start on), of the digits.

    Ways: float32 and float16 with a scale of 1 that never changes, and float16 scaled, from 2^48
    (far too high, on purpose) with a patience of 20. step: the learner's scaled_step. settings:
    epochs, batch, and tiny, by which the loss is multiplied and the learning rate (0.2) divided.
    """
    never = 10**9
    ways = {
        "float32": (torch.float32, 1.0, never),
        "float16,\nno scaling": (torch.float16, 1.0, never),
        "float16,\nscaled": (torch.float16, 2.0**48, 20),
    }
    right: dict[str, list[float]] = {}
    for way, (kind, scale, patience) in ways.items():
        right[way] = []
        for seed in seeds:
            accuracy, scales = _train_scaled(step, kind, scale, patience, seed, device, **settings)
            right[way].append(accuracy)
    return right, scales


def _train_scaled(step, kind, scale, patience, seed, device, *, epochs, batch, tiny, rate=0.2):
    net = nets.torch_digits(nets.start_weights(seed)).to(device)
    low = copy.deepcopy(net).to(kind)
    scaling = {"scale": scale, "good": 0}
    scales = [scale]
    train_x, train_y, test_x, test_y = (torch.tensor(part, device=device) for part in data.digits())
    for epoch in range(epochs):
        for picked in data.batches(len(train_x), batch, epoch, seed):
            low.load_state_dict(net.state_dict())  # every float32 weight, rounded to `kind`
            low.zero_grad()
            loss = tiny * functional.cross_entropy(
                low(train_x[picked].to(kind)).float(), train_y[picked]
            )
            (loss * scaling["scale"]).backward()
            gradients = [weight.grad for weight in low.parameters()]
            step(list(net.parameters()), gradients, scaling, rate / tiny, patience)
            scales.append(scaling["scale"])
    return 100 * (net(test_x).argmax(1) == test_y).float().mean().item(), scales


def fine_training(
    mixed_step: Callable, epochs: int, device, batch: int = 64, rate: float = 0.01
) -> dict:
    """Mean training loss by epoch, a small learning rate: float32, mixed, weights kept in
    bfloat16."""
    ways = {"float32": plain_step, "mixed": mixed_step, "bfloat16 weights": plain_step}
    curves: dict[str, list[float]] = {}
    images, labels = (torch.tensor(part, device=device) for part in data.digits()[:2])
    for way, step in ways.items():
        net = nets.torch_digits().to(
            device, torch.bfloat16 if way.startswith("bfloat16") else torch.float32
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=rate)
        curves[way] = []
        for epoch in range(epochs):
            picks = data.batches(len(images), batch, epoch)
            losses = [step(net, optimizer, images[rows], labels[rows]) for rows in picks]
            curves[way].append(sum(losses) / len(losses))
    return curves


def abilities(device) -> str:
    """A line on what this device has for numbers of 16 bits."""
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return f"{torch.cuda.get_device_name(device)}, compute capability {major}.{minor}"
    told = Path("/proc/cpuinfo")
    flags = told.read_text(encoding="utf-8").split() if told.exists() else []
    wanted = {"avx512_bf16", "amx_bf16", "avx512_fp16", "amx_fp16", "bf16", "asimdhp"}
    here = ", ".join(sorted(wanted.intersection(flags))) or "none"
    return f"instructions for 16-bit numbers of this {platform.machine()} processor: {here}"


def speeds(images: int, runs: int, device) -> dict[str, timing.Measurement]:
    """A convolution net's training step by type and layout, such as "bfloat16, channels-last".

    All in turns, in one run.
    """
    steps: dict[str, Callable] = {}
    if device.type == "cuda":
        images = GPU_TIMES * images
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        for layout, order in LAYOUTS.items():
            if kind == torch.float16 and device.type == "cpu" and layout != "contiguous":
                continue  # seconds a step where no library has a kernel for it
            net = nets.torch_conv().to(device, memory_format=order)
            x = torch.rand(images, 3, 32, 32, device=device).contiguous(memory_format=order)
            steps[f"{str(kind)[6:]}, {layout}"] = partial(_conv_step, net, x, kind)
    return timing.in_turns(steps, repeat=runs, warmup=1, device=str(device))


def _conv_step(net, x, kind: torch.dtype) -> None:
    net.zero_grad()
    with torch.autocast(x.device.type, kind, enabled=kind != torch.float32):
        out = net(x)
    out.float().square().mean().backward()


def trade(checkpointed, pairs: int, rows: int, runs: int, device) -> dict:
    """A deep net's step by segments, beside all activations kept.

    "held": curves segments -> tensors of a layer's size held at the peak; "longer": curves segments
    -> how many times as long a step takes; "peaks" by segments (0: no checkpoints);
    "forward_share": of a step without checkpoints; "cut", the segments that the lab's prediction
    asks for, and "ratio", its time.
    """
    if device.type == "cuda":
        rows = GPU_TIMES * rows
    x = torch.rand(rows, 64, device=device)
    labels = torch.arange(rows, device=device) % 10

    def step(net, forward):
        net.zero_grad(set_to_none=False)
        functional.cross_entropy(forward(net, x), labels).backward()

    cuts = [cut for cut in CUTS if cut <= pairs]
    ways = {0: lambda net, x: net(x)} | {cut: partial(checkpointed, segments=cut) for cut in cuts}
    steps: dict = {}
    for cut, forward in ways.items():
        steps[cut] = partial(step, deep(pairs).to(device), forward)
        steps[cut]()  # from here on the gradients are there, and no part of the peak
    peaks = {cut: peak(call, device) / x.nbytes for cut, call in steps.items()}
    steps["forward"] = partial(deep(pairs).to(device), x)
    times = timing.in_turns(steps, repeat=runs, warmup=1, device=str(device))
    share = float(np.median(times["forward"].samples / times[0].samples))
    longer = {cut: times[cut].samples / times[0].samples for cut in cuts}
    cut = max(cut for cut in cuts if cut <= 8)
    return {
        "held": {
            "measured": {number: peaks[number] for number in cuts},
            "inputs + one segment": {number: number + pairs / number for number in cuts},
            "no checkpoints, measured": dict.fromkeys(cuts, peaks[0]),
        },
        "longer": {
            "measured": longer,
            "4/3: backward pass = 2 forward passes": dict.fromkeys(cuts, 4 / 3),
            "1 + measured share of the forward pass": dict.fromkeys(cuts, 1 + share),
        },
        "peaks": peaks,
        "forward_share": share,
        "cut": cut,
        "ratio": float(np.median(longer[cut])),
    }


class _Checkpointed(torch.nn.Module):
    """A network that computes as checkpointed(net, inputs, SEGMENTS) does."""

    def __init__(self, checkpointed: Callable, net: torch.nn.Sequential):
        super().__init__()
        self.checkpointed = checkpointed
        self.net = net

    def forward(self, inputs):
        return self.checkpointed(self.net, inputs, SEGMENTS)


def workload_ways(
    name: str, mixed_step: Callable, checkpointed: Callable, device
) -> dict[str, tuple[workloads.Speed, int]]:
    """{way: (speed, most bytes that a step holds besides the weights)} of a workload.

    Ways: float32 by `plain_step`, the learner's mixed_step, and that with the learner's
    checkpoints.
    """
    ways = {"float32": ("fp32", plain_step), "mixed": ("bf16", mixed_step)}
    ways["mixed, checkpoints"] = ways["mixed"]
    results = {}
    for way, (precision, train) in ways.items():
        load = workloads.load(name, str(device), precision)
        net = torch.nn.Sequential(*load.net)  # autocast is the learner's step's
        if way.endswith("checkpoints"):
            net = _Checkpointed(checkpointed, net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        step = partial(train, net, optimizer, load.inputs, load.labels)
        speed = load.speeds({way: step})[way]
        # Gradients of the timed steps would count as there already, and not as this step's.
        optimizer.zero_grad()
        results[way] = speed, peak(step, device)
    return results
