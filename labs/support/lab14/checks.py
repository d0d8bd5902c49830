"""What checks ask of loss scaling, mixed precision, checkpointing and the largest batch (lab 14)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from numbers import Integral

import torch
from labkit import data, nets
from labkit.checks import expect
from labkit.errors import CheckFailed
from torch.nn import functional

from support.lab14 import memory


def plain_step(net, optimizer, images, labels) -> float:
    """One training step that computes in the type that the weights have. Returns the loss before it."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(net(images.to(next(net.parameters()).dtype)), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def expect_scaling(step: Callable) -> None:
    """Fail unless `step` unscales, skips, halves and doubles as loss scaling does (patience 3)."""
    scaling, scale, good, bad = {"scale": 2.0**16, "good": 0}, 2.0**16, 0, (float("inf"), float("nan"))
    for number, last in enumerate(
        (1, 2.0**-14, 1, 1, bad[0], 1, 2, 1, bad[1], 1, 1, -bad[0], bad[0], 1, 1, 1), 1
    ):
        gradients = [torch.tensor([1, -2, 2.0**-10]).half(), torch.tensor([0.5, last]).half()]
        gradients = gradients[::-1] if number == 9 else gradients  # the nan comes in the first tensor
        weights, fine = [torch.zeros(len(one)) for one in gradients], last not in (*bad, -bad[0])
        taken = step(weights, [one.clone() for one in gradients], scaling, 8.0, 3)
        who = f"step {number}, scale {scale:g}"
        for weight, gradient in zip(weights, gradients, strict=True):
            _look_at_update(weight, -8 * gradient.float(), scale, fine, last, who)
        expect.equal(taken, fine, f"{who}: whether the step was taken")
        good = good + 1 if fine else 0
        scale = scale if fine else scale / 2
        scale, good = (2 * scale, 0) if good == 3 else (scale, good)
        expect.equal(scaling["scale"], scale, f"{who}: the scale after it (patience 3)")
    scaling, weights = {"scale": 1.0, "good": 0}, [torch.zeros(1)]
    step(weights, [torch.tensor([bad[0]]).half()], scaling, 8.0, 3)
    expect.equal(scaling["scale"], 0.5, "inf at scale 1: the scale after it (it may go below 1)")
    step(weights, [torch.tensor([60_000.0]).half()], scaling, 8.0, 3)
    expect.close(weights[0], [-960_000.0], "a gradient of 60,000 at scale 0.5, rate 8: the weight, 0 before")
    _look_at_good_steps(step)


def _look_at_good_steps(step: Callable) -> None:
    """Fail unless six good steps in a row go right: a large scale, another rate and patience."""
    scaling, scale, want, rate = {"scale": 2.0**30, "good": 0}, 2.0**30, 1.0, 2.0**10
    weights = [torch.ones(2), torch.ones(1)]
    for number in range(1, 7):
        who = f"good step {number} of 6, scale 2^{math.log2(scale):g}, rate {rate:g}, patience 2"
        taken = step(weights, [torch.full_like(one, 65504).half() for one in weights], scaling, rate, 2)
        fine = f"{who}: 65,504, float16's largest number, is finite: take the step. A sum of them is not."
        expect(taken, fine)
        want -= rate * 65504 / scale
        for weight in weights:
            expect.close(weight, [want] * len(weight), f"{who}: the weights, 1 at the start, after it")
        scale *= 1 + (number % 2 == 0)
        expect.equal(scaling["scale"], scale, f"{who}: the scale after it (it doubles after 2, 4 and 6)")


def _look_at_update(weight, raw, scale: float, fine: bool, last: float, who: str) -> None:
    if not fine:
        sentence = f"{who}: one gradient is {last}, and yet a weight changed. Look at all, then change."
        expect(not weight.any(), sentence)
        return
    expect(weight.any(), f"{who}: no weight changed. Change it in place, and divide in float32.")
    expect(
        not torch.allclose(weight, raw), f"{who}: the gradients are still times the scale. Divide it away."
    )
    expect(not torch.allclose(weight, -raw / scale, atol=0), f"{who}: uphill. Subtract the gradient.")
    lost = ((weight == 0) & (raw != 0)).any()
    expect(not lost, f"{who}: a small gradient became 0 on its way. Divide in float32, not in float16.")
    expect.close(weight, raw / scale, f"{who}: the weights (they were 0; the rate is 8)", 1e-4, 0)


def expect_mixed(step: Callable, device) -> None:
    """Fail unless step(net, optimizer, images, labels) computes in bfloat16 and keeps float32 weights.

    40 small steps on the digits' net must move the weights as float32 does.
    """
    net, twin, outs = nets.torch_digits().to(device), nets.torch_digits().to(device), []
    start = _flat(net)
    for layer in net[::2]:
        layer.register_forward_hook(lambda layer, given, out: outs.append(out.detach()))
    ours, theirs = (torch.optim.SGD(one.parameters(), lr=0.003) for one in (net, twin))
    images, labels = (torch.tensor(part[:64], device=device) for part in data.digits()[:2])
    for number in range(1, 41):
        outs.clear()
        got, want = step(net, ours, images, labels), plain_step(twin, theirs, images, labels)
        expect(isinstance(got, float), "Return loss.item(), a plain number.")
        _look_at_types("The layers should give bfloat16", outs, "bfloat16")
        _look_at_types("The weights should stay float32", net.parameters(), "float32")
        ran = len(outs) // len(net[::2])
        expect(ran == 1, f"net ran {ran} times in a step. Return the loss that backward started from.")
        exact = functional.cross_entropy(outs[-1].float(), labels).item()
        near = abs(got - exact) < 0.05 * exact
        why = "Compute the loss in float32." if near else "Is it the mean over the images?"
        rounded = f"Loss {got:.6g}; of the same logits in float32 it is {exact:.6g}. {why}"
        expect(abs(got - exact) < 1e-4 * exact, rounded)
        still = torch.equal(_flat(net), start)
        expect(not still, "No weight changed. The order: optimizer.zero_grad(), backward, optimizer.step().")
        far = f"Loss of step {number}: {got:.4g}; in float32 {want:.4g}. Is .grad of this step alone?"
        expect(abs(got - want) < 0.1 * want, far)
    way, right = _flat(net) - start, _flat(twin) - start
    off = ((way - right).norm() / right.norm()).item()
    longer = (way @ right / (right @ right)).item()
    twice = f"In 40 steps the weights went {longer:.1f} times as far as in float32. One update a step."
    expect(longer < 1.5, twice)
    lost = f"After 40 small steps the weights are {off:.0%} off float32's way"
    expect(off < 0.1, f"{lost}: are small updates rounded away?")


def _look_at_types(sentence: str, tensors, wanted: str) -> None:
    kinds = sorted({str(tensor.dtype)[6:] for tensor in tensors})
    expect(kinds == [wanted], f"{sentence}; here it is {', '.join(kinds) or 'none: net was not called'}.")


def _flat(net) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in net.parameters()]).clone()


def expect_checkpoints(forward: Callable) -> None:
    """Fail unless forward(net, x, segments) keeps the segments' inputs alone, and computes the rest again."""
    for pairs, segments in ((1, 1), (3, 2), (8, 2), (8, 5), (12, 4)):
        net, twin, x, calls = memory.deep(pairs), memory.deep(pairs), torch.randn(512, 64), Counter()
        layers = len(net)
        for place in range(0, layers, 2):
            net[place].register_forward_pre_hook(lambda *_, place=place, calls=calls: calls.update([place]))
        who, labels = f"{layers} layers, {segments} segment{'s' * (segments > 1)}", torch.arange(512) % 10
        longest = -(-layers // segments)
        units = memory.kept(lambda net=net, x=x, k=segments: forward(net, x, k), *net.parameters()) / x.nbytes
        more = f"{who}: forward keeps {units:.1f} times x for backward. Keep the segments' inputs alone"
        expect(units < segments + 0.5, f"{more}: checkpoint each, the last too, {longest} layers long.")
        few = f"{who}: forward keeps only {units:.0f} times x. Is there an input for each segment"
        expect(units > -(-layers // longest) - 0.5, f"{few}? Is use_reentrant=False?")
        calls.clear()
        logits = forward(net, x, segments)
        expect(torch.is_tensor(logits), f"{who}: got {type(logits).__name__}. Does the function return x?")
        loss = functional.cross_entropy(logits, labels)
        wanted = functional.cross_entropy(twin(x), labels)
        expect.close(loss, wanted, f"{who}: the loss (did every layer run?)")
        _look_at_backward(loss, wanted, net, twin, who)
        times = [calls[place] for place in range(0, layers, 2)]
        expect(
            times == [2] * len(times), f"{who}: linear layers ran {times} times; forward and again makes 2."
        )
        most = memory.peak(lambda net=net, x=x, k=segments: forward(net, x, k).sum().backward()) / x.nbytes
        weights = sum(weight.nbytes for weight in net.parameters()) / x.nbytes  # their gradients come on top
        fair = segments + longest / 2 + 3 + weights
        expect(most < fair, f"{who}: {most:.0f} times x at the peak: the segments are not equally long.")


def _look_at_backward(loss, wanted, net, twin, who: str) -> None:
    wanted.backward()
    try:
        loss.backward()
    except RuntimeError as error:
        why = "does a function that you made in a loop look up a name which has changed since?"
        raise CheckFailed(
            f"{who}: backward did not run the same layers again: {why} ({str(error)[:70]}…)"
        ) from None
    lost = "Is use_reentrant=False? Was x detached, or were the layers copied?"
    for place, (mine, right) in enumerate(zip(net.parameters(), twin.parameters(), strict=True)):
        expect(
            mine.grad is not None,
            f"{who}: no gradient for parameter {place}. {lost}",
        )
        expect.close(mine.grad, right.grad, f"{who}: gradient of parameter {place}", 1e-4, 1e-7)


def expect_largest(largest: Callable) -> None:
    """Fail unless largest(peaks, budget) is the last batch that fits: on made-up peaks, then on real ones."""
    for fixed, each in ((1000, 30), (0, 7), (5_000_000, 38_912), (1000, 30.5)):
        peaks = {batch: int(fixed + batch * each) for batch in (16, 40)}
        for count, room, want in (
            (100, 1, 100),  # a byte to spare: a fit's last digits must not decide
            (100, each - 1, 100),
            (101, 1, 101),
            (100, -1, 99),
            (0, 1, 0),
        ):
            given = math.ceil(fixed + count * each + room)
            who = f"peaks {peaks}, budget {given:,}: the largest batch"
            got = largest(peaks, given)
            expect.equal(got, want, who)
            expect(isinstance(got, Integral), f"{who}: {got} is no whole number to Python. Use int(…).")
    net, images, labels = memory.small_vgg(), torch.rand(200, 3, 16, 16), torch.arange(200) % 10

    def step(batch):
        net.zero_grad()
        functional.cross_entropy(net(images[:batch]), labels[:batch]).backward()

    peaks = {batch: memory.peak(partial(step, batch)) for batch in (16, 32)}
    found, real = largest(peaks, 4_000_000), memory.largest(step, 4_000_000, most=200)
    expect.equal(
        found, real, "a small VGG with 4,000,000 bytes (expected: found by trying): the largest batch"
    )


# What a check asks of a step's memory, predicted by part, and which kind of wrong it finds (lab 14).


OPTIMIZERS = {
    "SGD": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
}
PARTS = {"parameters", "gradients", "optimizer", "activations"}
_KEYS = '"parameters", "gradients", "optimizer", "activations"'
NETS = {"digits": (nets.torch_digits, (64,)), "small VGG": (memory.small_vgg, (3, 16, 16))}
NETS["VGG, 400 classes"] = (partial(memory.small_vgg, classes=400), (3, 16, 16))


def compare_parts(predict: Callable, name: str, how: str, count: int, kind: torch.dtype, device) -> tuple:
    """(predicted, measured) bytes by part, of a step of the net `name` on `count` images of type `kind`."""
    make, shape = NETS[name]
    net, images = make().to(device, kind), torch.rand(count, *shape, device=device, dtype=kind)
    labels = torch.arange(count, device=device) % 10
    optimizer = OPTIMIZERS[how](net.parameters(), lr=0.01)
    layers, image = memory.table(net, images), images[0].numel()
    predicted = predict(layers, image, count, how, images.element_size())
    return predicted, memory.parts(net, optimizer, images, labels)


def expect_parts(predict: Callable, device) -> None:
    """Fail unless predict(layers, image, batch, optimizer, value) gives what PyTorch's tensors hold."""
    trials = [(name, how, 8, torch.float32) for name in ("digits", "small VGG") for how in OPTIMIZERS]
    more = [("small VGG", "Adam", 24, torch.bfloat16), ("VGG, 400 classes", "SGD", 8, torch.float32)]
    for name, how, count, kind in [*trials, *more]:
        wrong: list[str] = []

        def watched(layers, image, count, how, value, wrong=wrong):
            got = predict(layers, image, count, how, value)
            expect(isinstance(got, dict) and set(got) == PARTS, f"Return a dict with the keys {_KEYS}.")
            wrong.append(kind_of_wrong(got["activations"], layers, image, count, value))
            return got

        got, real = compare_parts(watched, name, how, count, kind, device)
        for part, nbytes in real.items():
            where = f"{name}, {how}, {count} images, {str(kind)[6:]}: {part}"
            expect(part != "activations" or not wrong[0], f"{where}: {wrong[0]}")
            expect.close(got[part], nbytes, f"{where} (expected: bytes in PyTorch's tensors)", rtol=2e-3)


def kind_of_wrong(got, layers, image: int, count: int, value: int) -> str:
    """A sentence on what is wrong with `got` bytes of activations, "" if they are right or no guess fits."""
    sums = layers.groupby("kind").activations.sum()
    relu, pooled, last = sums.get("relu", 0), sums.get("pool", 0), layers.activations.iloc[-1]
    right = value * (image + relu + pooled + last) + 8 * pooled
    rest = layers.activations.sum() - relu - pooled - last
    both = "pooling keeps its outputs and, 8 bytes each whatever `value` is, the places of its maxima."
    guesses = (  # pooling first: in these nets it has as many outputs as an image has numbers
        (right / count - right, f"these are the bytes of one image; a step keeps {count} of them."),
        *((off * pooled, both) for off in (-8, -value, value - 8, 2 * value - 8)),
        (-value * image, "the images are missing: the first layer needs its input."),
        (value * image * (1 / count - 1), f"the image is counted once; a step has {count} of them."),
        (-value * last, "the last layer's outputs are missing: the loss keeps as many numbers."),
        (-value * relu, "ReLU's outputs are missing."),
        (value * rest, "a linear layer or convolution needs no output of its own for backward."),
        (value * (rest - image), "linear layers and convolutions keep inputs, so the image, not outputs."),
        (value * rest - 8 * pooled, "not every layer's output is kept; and pooling also keeps places."),
    )
    off = got / count - right
    near = [why for guess, why in guesses if guess and abs(off - guess) < 1e-4 * right]
    return near[0] if near and abs(off) > 2e-3 * right else ""
