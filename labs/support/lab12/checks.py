"""The checks of lab 12: what a layer costs, the roofs, the roofline, and the mended step."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from labkit.checks import expect
from labkit.timing import Measurement

from support.lab12.counting import Clock, Count, flops


def expect_costs(linear_cost, conv_cost) -> None:
    """Layers of odd shapes, with strides and padding, in float32 and float16."""
    for batch, inputs, outputs in ((1, 5, 7), (3, 7, 5), (128, 4096, 4096)):
        layer = torch.nn.Linear(inputs, outputs, bias=False, device="meta")
        _expect_cost(linear_cost, layer, (batch, inputs), (batch, inputs, outputs))
    cases = ((2, 3, 9, 12, 5, 3, 1, 1), (3, 4, 11, 8, 6, 3, 2, 0), (1, 3, 224, 224, 64, 11, 4, 2))
    for *shape, filters, kernel, stride, padding in cases:
        how = {"stride": stride, "padding": padding, "bias": False, "device": "meta"}
        layer = torch.nn.Conv2d(shape[1], filters, kernel, **how)
        _expect_cost(conv_cost, layer, tuple(shape), (*shape, filters, kernel, stride, padding))


def _expect_cost(cost, layer, shape, arguments) -> None:
    """cost(*arguments, size) beside what PyTorch says of `layer`; on "meta" nothing is computed."""
    for size, kind in ((4, torch.float32), (2, torch.float16)):
        net, images = layer.to(kind), torch.empty(shape, device="meta", dtype=kind)
        right, out = flops(lambda net=net, images=images: net(images)), net(images)
        got = cost(*arguments, size)
        expect(np.shape(got) == (2,), "Return two numbers: flops, bytes.")
        parts = {"images": images.nbytes, "weights": net.weight.nbytes, "result": out.nbytes}
        expect(tuple(got) != (sum(parts.values()), right), "The other way round: flops first, then bytes.")
        for factor, cure in ((0.5, "a multiply-add is two operations"), (2, "each multiply-add twice?")):
            expect(got[0] != factor * right, f"{factor:g} times the flops of {layer}: {cure}.")
        expect.equal(got[0], right, f"flops of {layer} for images {shape} (out: {tuple(out.shape)})")
        for part, nbytes in parts.items():
            missing = f"Missing among the bytes of {layer}: the {part}, {nbytes:,} bytes."
            expect(got[1] != sum(parts.values()) - nbytes, missing)
        for wrong in {1, 2, 4} - {size}:
            said = f"Where a number has {size} bytes, you count {wrong} for it."
            expect(got[1] * size != sum(parts.values()) * wrong, said)
        expect.equal(got[1], sum(parts.values()), f"bytes of {layer} for images {shape}, {size} a number")


def expect_counts(matrix_peak, memory_bandwidth, device: str) -> None:
    """Both functions time the right call, and divide the right work by the median."""
    clock, n = Clock(device), 97
    got = clock.watch(matrix_peak, n, device)
    others = set(clock.count.calls) - {"mm", "matmul", "bmm"}
    expect(clock.flops, "The call that you time does no product of two matrices in PyTorch.")
    expect(not others, f"The call that you time does more than a product: {', '.join(sorted(others))}.")
    size = f"For n={n}, a product of n x n matrices does 2 n³ = {2 * n**3:,} operations"
    expect(clock.flops == 2 * n**3, f"{size}, yours {clock.flops:,}: are both n x n, whatever n is?")
    for one in clock.count.sources:
        expect(one.dtype == torch.float32, f"{one.dtype} numbers; the layers will use torch.float32.")
    clock.expect_rate(got, clock.flops, "flops", "a multiply-add is two operations")
    clock, nbytes = Clock(device), 4 * 30_001
    got, count = clock.watch(memory_bandwidth, nbytes, device), clock.count
    expect(count.moved, "The call that you time moves no numbers: a view is not a copy.")
    expect(
        not count.fresh, "Each call makes a new tensor, and finding memory takes time. Write to an old one."
    )
    expect(not count.onto_itself, "Source and target are one array: PyTorch sees that and copies nothing.")
    gaps = "The array that is read has gaps, or one number many times: take one without slices and expand."
    expect(all(one.is_contiguous() for one in count.sources), gaps)
    largest = max((one.nbytes for one in count.sources), default=0)
    size = f"The array that is read has {largest} bytes, not {nbytes}"
    expect(largest > 0.99 * nbytes, f"{size}: too near a cache.")
    expect(largest < 1.01 * nbytes, f"{size}: a float32 has 4 bytes.")
    zeros = "The array that is read was not written, or with zeros: the system may have one page for it all"
    written = not clock.whole.blank and all(bool(one.any()) for one in count.sources)
    expect(written, f"{zeros}. Fill it, with torch.ones for example.")
    clock.expect_rate(got, count.moved, "bytes", "what is read and what is written, both are moved")
    for function, size in ((matrix_peak, n), (memory_bandwidth, nbytes)):  # whether or not there is a GPU
        clock = Clock("meta")
        clock.watch(function, size, "meta")
        there = all(one.device.type == "meta" for one in clock.count.sources)
        expect(there, f"{function.__name__} leaves `device` out: make its arrays with device=device.")


def expect_bounds(attainable, least_seconds) -> None:
    """Both say what the roofline says of a machine of 1,000 flop/s and 100 bytes/s."""
    for work, nbytes in ((50, 100), (4000, 100), (1000, 100), (70, 7)):
        slanted, machine = 100 * work / nbytes, "of a peak of 1000, with 100 bytes/s"
        right, got = min(1000, slanted), attainable(work / nbytes, 1000, 100)
        expect(got == right or got != max(1000, slanted), "This is the higher of the two roofs.")
        expect.close(got, right, f"flop/s at {work / nbytes:g} flops per byte, {machine}")
        got, both = least_seconds(work, nbytes, 1000, 100), (work / 1000, nbytes / 100)
        expect(got != sum(both), "Arithmetic and memory go on at once: the longer one counts, not the sum.")
        expect(got == max(both) or got != min(both), "This is the shorter one. It waits for the other.")
        expect.close(got, max(both), f"seconds for {work} flops and {nbytes} bytes, {machine}")


def expect_forward(forward_time, device: str) -> None:
    """forward_time(layer, images, device) times one call of the layer, without recording for backward."""
    seen, clock = [], Clock(device)
    layer, images = torch.nn.Linear(3, 2).to(device), torch.ones(5, 3, device=device)
    with torch.inference_mode(), Count() as alone:
        flops(lambda: layer(images))
    forward = layer.forward

    def watched(given):
        out = forward(given)
        if clock.running:  # a call before the timed one is a warm-up
            seen.append((given, out.requires_grad))
        return out

    layer.forward = watched
    got = clock.watch(forward_time, layer, images, device)
    expect(clock.flops, "The layer has to run in the call that you time, not before.")
    expect(len(seen) == 1, f"In each timed call the layer ran {len(seen)} times.")
    expect(seen[0][0] is images, "The layer has to run on `images`, as they are.")
    expect(not seen[0][1], "Operations were recorded for a backward pass. Use torch.inference_mode().")
    more = sorted(set(clock.count.calls) - set(alone.calls))
    expect(not more, f"The call that you time does more than the layer: {', '.join(more)}.")
    expect(isinstance(got, Measurement), f"Return what timing.measure returned. This is {got!r}.")


def expect_mended(slow_step, prepare, quick_step) -> None:
    """The same training as slow_step's, with calls that do not grow with the batch, and bytes that do not
    grow with the data."""
    counts = {}
    for images, batch in ((40, 4), (40, 12), (400, 12)):
        random = torch.Generator().manual_seed(images)
        pixels = torch.randint(256, (images, 3, 8, 8), dtype=torch.uint8, generator=random)
        pixels //= torch.tensor([1, 2, 4], dtype=torch.uint8).view(3, 1, 1)  # colours differ, as in pictures
        labels = torch.randint(10, (images,), generator=random)
        nets = [_small_net() for _ in range(2)]
        slow, quick = (torch.optim.SGD(net.parameters(), lr=0.5) for net in nets)
        ready = prepare(pixels.clone())
        for step in range(3):
            rows = torch.randperm(images, generator=random)[:batch]
            old, losses = [one.detach().clone() for one in nets[1].parameters()], []
            least = flops(partial(_keep, losses, slow_step, nets[0], slow, pixels, labels, rows))
            with Count() as count:
                work = flops(partial(_keep, losses, quick_step, nets[1], quick, ready, labels, rows))
            want, got = losses
            expect(
                isinstance(got, float), f"Return the loss as a plain number, loss.item(). This is {got!r}."
            )
            expect(
                not np.isclose(got, batch * want), "This is the sum of the images' losses, not their mean."
            )
            where = f"the loss in step {step + 1} (mean and spread of all pixels? labels of `rows`?)"
            expect.close(got, want, where, rtol=3e-5)
            _expect_weights(nets, old, step)
        expect(not count.double, "float64: twice the bytes and less than half the speed for digits unused.")
        counts[images, batch] = count
        again = f"Right, but {work / least:.3g} times the flops of the slow step"
        expect(work <= least, f"{again}: does the net see more than the batch, or see it twice?")
    few, many, more = counts.values()
    four, twelve = (len(one.calls) + one.views for one in (few, many))
    calls = f"{four} operators for 4 images, {twelve} for 12"
    expect(four == twelve, f"Right, but {calls}: still something for each image.")
    grew = f"{many.moved:,} bytes a step with 40 images to choose from, {more.moved:,} with 400"
    expect(many.moved == more.moved, f"Right, but it moves {grew}: still something for the whole data set.")


def _keep(results: list, function, *arguments) -> None:
    results.append(function(*arguments))


def _expect_weights(nets, old, step: int) -> None:
    """That both nets have the same weights after a step; `old`: the second one's weights before it."""
    right, new = (list(net.parameters()) for net in nets)
    still = all(torch.equal(a, b) for a, b in zip(old, new, strict=True))
    expect(not still, "The weights do not move: zero_grad, then loss.backward(), then optimizer.step().")
    off = max(float((a - b).abs().max().detach()) for a, b in zip(right, new, strict=True))
    cure = "zero_grad in each step?" if step else "backward from the mean of the losses?"
    if off < 2e-3:
        cure = "do the images have quite the mean and the spread (std) of the slow step's?"
    said = f"The loss of step {step + 1} is right, the weights after it are off by {off:.2g}: {cure}"
    expect(off < 1e-4, said)


def _small_net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = [torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)]
    return torch.nn.Sequential(*body)
