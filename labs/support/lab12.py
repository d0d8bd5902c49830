"""Lab 12: its checks, which count what a call does, and the layers and the step that it
measures."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import numpy as np
import torch
from labkit import check, expect, nets, plots, timing
from labkit.timing import FEWEST, Measurement
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

LINEAR = ((1, 5, 7), (3, 7, 5), (128, 4096, 4096))  # batch, inputs, outputs
# batch, channels, height, width, filters, kernel, stride, padding
CONV = ((4, 2, 10, 12, 5, 3, 1, 1), (2, 7, 18, 21, 9, 4, 3, 0), (1, 3, 224, 224, 64, 11, 4, 2))
# two measurements of a roof may differ by this factor, as the lab says: others use the machine
WITHIN = 4
# These write to their first argument and do not look at it.
_NOT_READ = ("copy_", "fill_", "zero_", "uniform_", "normal_", "random_")
# These read as much as they write.
_PICKS = ("index", "index_select", "gather", "embedding")
RUNS = np.array(
    [9.0, 1.0, 2.0, 2.5, 2.0]
)  # seconds that a check's clock tells: fastest 1, median 2, mean 3.3


@check.exercise("12.1")
def flops_and_bytes(linear_cost, conv_cost):
    """You count the flops that PyTorch counts, and the bytes of its tensors, for layers of odd
    shapes, with strides and padding, in float32 and float16.
    """
    make = partial(torch.nn.Linear, bias=False, device="meta")  # shapes alone, nothing is computed
    for batch, inputs, outputs in LINEAR:
        _cost(linear_cost, make(inputs, outputs), (batch, inputs), (batch, inputs, outputs))
    make = partial(torch.nn.Conv2d, bias=False, device="meta")
    for *images, filters, kernel, stride, padding in CONV:
        layer = make(images[1], filters, kernel, stride=stride, padding=padding)
        _cost(conv_cost, layer, images, (*images, filters, kernel, stride, padding))


def _cost(cost, layer, shape, arguments):
    for size, kind in ((4, torch.float32), (2, torch.float16)):
        layer = layer.to(kind)
        images = torch.empty(shape, device="meta", dtype=kind)
        work = flops(partial(layer, images))
        result = layer(images)
        right = images.nbytes + layer.weight.nbytes + result.nbytes
        with check.case(f"{layer} for images {tuple(shape)}"):
            answer = cost(*arguments, size)
            expect(np.shape(answer) == (2,), "Return two numbers: flops, bytes.")
            expect.equal(
                answer[0],
                work,
                f"flops (out: {tuple(result.shape)})",
                slips={
                    "the other way round: flops first, then bytes": right,
                    "a multiply-add is two operations": work / 2,
                    "each multiply-add twice?": work * 2,
                },
            )
            expect.equal(
                answer[1],
                right,
                f"bytes, {size} a number",
                slips={
                    "missing among the bytes: the result": right - result.nbytes,
                    "missing among the bytes: the weights": right - layer.weight.nbytes,
                    f"where a number has {size} bytes, you count {6 - size} for it": (
                        right * (6 - size) / size
                    ),
                },
            )


@check.exercise("12.2")
def two_roofs(matrix_peak, memory_bandwidth, device, rows, megabytes):
    """One product of two n x n float32 matrices is timed, and 2 n³ over the median is returned; a
    copy of a filled array is timed, and the bytes moved over the median come out; arrays lie on
    `device`; and both speeds are about what labkit's own functions measure.
    """
    _product(matrix_peak, device)
    _copy(memory_bandwidth, device)
    for function in (matrix_peak, memory_bandwidth):
        # "meta": a device that is everywhere, and computes nothing
        _, count, _ = watch(function, 100, "meta")
        there = {tensor.device.type for tensor in count.sources} == {"meta"}
        expect(
            there, f"{function.__name__} leaves `device` out: make its arrays with device=device."
        )
    n = rows if device == "cpu" else 4 * rows
    a, b, c = (torch.randn(n, n, device=device) for _ in range(3))
    product = partial(torch.mm, a, b, out=c)
    _agree(partial(matrix_peak, n, device), product, 2 * n**3, "flop/s", device)
    nbytes = megabytes * 10**6
    source, target = (torch.ones(nbytes // 4, device=device) for _ in range(2))
    copy = partial(target.copy_, source)
    _agree(partial(memory_bandwidth, nbytes, device), copy, 2 * nbytes, "bytes/s", device)


def _agree(rate, call, work, unit, device):
    """Up to three times, as somebody else may use the machine in one of two measurements."""
    for _ in range(3):
        yours = rate()
        own = timing.measure(call, device=device, repeat=FEWEST).rate(work)
        if own / WITHIN < yours < own * WITHIN:
            break
    expect.between(
        yours, own / WITHIN, own * WITHIN, f"{unit}, beside labkit's own measurement, {own:.3g}"
    )


def _product(matrix_peak, device):
    result, count, work = watch(matrix_peak, 97, device)
    expect(work, "The call that you time does no product of two matrices in PyTorch.")
    others = ", ".join(sorted(set(count.calls) - {"mm", "matmul", "bmm"}))
    expect(not others, f"The call that you time does more than a product: {others}.")
    because = "are both n x n, whatever n is?"
    expect.equal(work, 2 * 97**3, "For n=97, the operations of a product", because=because)
    _, _, more = watch(matrix_peak, 300, device)
    expect.equal(more, 2 * 300**3, "For n=300, the operations of a product", because=because)
    kinds = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in count.sources})
    expect.equal(kinds, ["float32"], "Types of the numbers (the layers will use torch.float32)")
    _rate(result, work, "flops", half="a multiply-add is two operations")


def _copy(memory_bandwidth, device):
    result, count, _ = watch(memory_bandwidth, 120_008, device)
    expect(count.moved, "The call that you time moves no numbers: a view is not a copy.")
    fresh = "Each call makes a new tensor, and finding memory takes time. Write to an old one."
    expect(not count.fresh, fresh)
    expect(
        not count.onto_itself,
        "Source and target are one array: PyTorch sees that and copies nothing.",
    )
    gaps = (
        "The array that is read has gaps, or one number many times: take one without slices and"
        " expand."
    )
    expect(all(tensor.is_contiguous() for tensor in count.sources), gaps)
    _, large, _ = watch(memory_bandwidth, 8_000_000, device)
    for asked, counted in ((120_008, count), (8_000_000, large)):
        read = max((tensor.nbytes for tensor in counted.sources), default=0)
        size = f"The array that is read has {read} bytes, not {asked}"
        expect(read > 0.99 * asked, f"{size}: too near a cache.")
        expect(read < 1.01 * asked, f"{size}: a float32 has 4 bytes.")
    zeros = (
        "The array that is read was not written, or with zeros: the system may have one page for"
        " it all"
    )
    filled = not count.blank and all(bool(tensor.any()) for tensor in count.sources)
    expect(filled, f"{zeros}. Fill it, with torch.ones for example.")
    _rate(result, count.moved, "bytes", half="what is read and what is written, both are moved")


def _rate(result, work, unit, half):
    number = f"Return one number, {unit} per second. This is {result!r}."
    expect(np.ndim(result) == 0 and not isinstance(result, Measurement), number)
    expect.close(
        result,
        work / 2,
        f"{unit} per second (in this check the median run takes 2 s)",
        slips={
            "this is the fastest run. Take the median of the runs": work / RUNS.min(),
            "this is the mean. Take the median of the runs": work / RUNS.mean(),
            f"half of what was done: {half}": work / 2 / 2,
        },
    )


@check.exercise("12.3")
def roofline(attainable, least_seconds):
    """You return the lower of the two roofs, and the longer of the two times, on two machines."""
    for work, moved in ((50, 100), (4000, 100), (1000, 100), (28, 7), (3, 8)):  # flops, bytes
        for top, speed in ((1000, 100), (300, 50)):  # flop/s, bytes/s
            with check.case(f"a peak of {top} flop/s, {speed} bytes/s"):
                intensity = work / moved
                slanted = speed * intensity
                higher = {"this is the higher of the two roofs": max(top, slanted)}
                what = f"flop/s at {intensity:g} flops per byte"
                expect.close(
                    attainable(intensity, top, speed), min(top, slanted), what, slips=higher
                )
                arithmetic, memory = work / top, moved / speed
                sentence = "arithmetic and memory go on at once: the longer one counts, not the sum"
                slips = {
                    sentence: arithmetic + memory,
                    "this is the shorter one. It waits for the other": min(arithmetic, memory),
                }
                least = least_seconds(work, moved, top, speed)
                what = f"seconds for {work} flops and {moved} bytes"
                expect.close(least, max(arithmetic, memory), what, slips=slips)


@check.exercise("12.4")
def step_without_the_faults(prepare, quick_step, slow_step):
    """The training stays the same, a batch of 4 takes as many operators as one of 12, the net runs
    once a step, and a step moves as many bytes where 40 images are stored as where 400 are.
    """
    few, batch, many = (
        _train_both(slow_step, prepare, quick_step, images, size)
        for images, size in ((40, 4), (40, 12), (400, 12))
    )
    operators = [len(count.calls) + count.views for count in (few, batch)]
    calls = f"{operators[0]} operators for 4 images, {operators[1]} for 12"
    expect(operators[0] == operators[1], f"Right, but {calls}: still something for each image.")
    runs = batch.calls.count("convolution")  # small_net has one
    sentence = f"the net ran {runs} times for one batch. Give it all images of the batch at once."
    expect(runs == 1, f"Right, but {sentence}")
    grew = f"{batch.moved:,} bytes a step with 40 images to choose from, {many.moved:,} with 400"
    whole = f"Right, but it moves {grew}: still something for the whole data set."
    expect(batch.moved == many.moved, whole)


def _train_both(slow_step, prepare, quick_step, images: int, batch: int) -> Count:
    """Three steps of each on equal nets, with batches of so many of these images; the last one
    counted."""
    random = torch.Generator().manual_seed(images)
    pixels = torch.randint(256, (images, 3, 8, 8), dtype=torch.uint8, generator=random)
    # Colours differ, as in pictures.
    pixels //= torch.tensor([1, 2, 4], dtype=torch.uint8).view(3, 1, 1)
    labels = torch.randint(10, (images,), generator=random)
    slow_net, quick_net = small_net(), small_net()
    slow, quick = (torch.optim.SGD(net.parameters(), lr=0.5) for net in (slow_net, quick_net))
    made = []  # steps of the optimizer that quick_step is given
    quick.register_step_post_hook(lambda *_: made.append("a step"))
    ready = prepare(pixels.clone())
    for number in (1, 2, 3):
        rows = torch.randperm(images, generator=random)[:batch]
        if number == 2:
            rows[-1] = rows[0]
        before = [weight.detach().clone() for weight in quick_net.parameters()]
        slow_flops, wanted = _flops_and_result(slow_step, slow_net, slow, pixels, labels, rows)
        with Count() as count:
            work, loss = _flops_and_result(quick_step, quick_net, quick, ready, labels, rows)
        not_plain = f"Return the loss as a plain number, loss.item(). This is {loss!r}."
        expect(isinstance(loss, (float, np.floating)), not_plain)
        summed = {"this is the sum of the images' losses, not their mean": batch * wanted}
        cause = "an image is twice in `rows`" if number == 2 else "labels of `rows`?"
        what = f"the loss in step {number} (mean and spread of all pixels? {cause})"
        expect.close(loss, wanted, what, rtol=3e-5, slips=summed)
        pairs = list(zip(slow_net.parameters(), quick_net.parameters(), before, strict=True))
        moved = any(not torch.equal(old, new) for _, new, old in pairs)
        expect(
            moved,
            "The weights do not move: zero_grad, then loss.backward(), then optimizer.step().",
        )
        off = max(float((right - own).detach().abs().max()) for right, own, _ in pairs)
        cure = "zero_grad in each step?" if number > 1 else "backward from the mean of the losses?"
        if off < 2e-3:
            cure = "do the images have quite the mean and the spread (std) of the slow step's?"
        sentence = (
            f"The loss of step {number} is right, the weights after it are off by {off:.2g}: {cure}"
        )
        expect(off < 1e-4, sentence)
        by_another = "The weights are right, but the given optimizer did not move them"
        expect(len(made) == number, f"{by_another}: call `optimizer.step()`, once in a step.")
    expect(
        not count.double, "float64: twice the bytes and less than half the speed for digits unused."
    )
    again = f"{work / slow_flops:.3g} times the flops of the slow step"
    twice = f"Right, but {again}: does the net see more than the batch, or see it twice?"
    expect(work <= slow_flops, twice)
    return count


def small_net() -> torch.nn.Sequential:
    """A net for them, always with the same weights."""
    nn = torch.nn
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))


def watch(function, size: int, device: str) -> tuple[object, Count, int]:
    """(what function(size, device) returns, the call that it times, counted, its flops). A median
    of 2 s."""
    count = Count()  # of the timed call
    whole = Count()  # of all that the function does
    timed = []

    def measure(call, *, repeat=20, warmup=3, comm=None, device=None, seconds=None, batch=1):
        sentence = (
            "a function, which it calls many times: write `lambda:` before what is to be timed"
        )
        expect(callable(call), f"Give timing.measure {sentence}.")
        asynchronous = "a GPU's calls return before the work is done"
        expect(str(device) == str(there), f"Give timing.measure device=device: {asynchronous}.")
        expect(warmup > 0, "No warm-up: the first call pays for what later ones find ready.")
        expect(repeat >= FEWEST, f"Take at least {FEWEST} runs: fewer cannot show the spread.")
        with count:
            timed.append(flops(call))
        return Measurement(RUNS)

    there = device
    with patch.object(timing, "measure", measure), whole:
        result = function(size, device)
    count.blank = whole.blank
    expect(timed, "Time the call with timing.measure: it was not used.")
    return result, count, timed[-1]


def flops(call) -> int:
    """Floating-point operations of the products and convolutions in call(), as PyTorch counts
    them."""
    return _flops_and_result(call)[0]


def _flops_and_result(function, *arguments) -> tuple[int, object]:
    with FlopCounterMode(display=False) as counter:
        result = function(*arguments)
    return counter.get_total_flops(), result


class Count(TorchDispatchMode):
    """While on, notes PyTorch's operators but those that only look at numbers in another shape.

    calls: their names. moved: bytes read and written. fresh: bytes of new tensors. sources: tensors
    read. views: how often numbers were looked at in another shape. double, blank, onto_itself:
    whether float64 was among them, a tensor that was read before anything was written to it, or one
    that was copied onto itself.
    """

    def __init__(self):
        super().__init__()
        self.calls: list[str] = []
        self.sources: list[torch.Tensor] = []
        self.moved = 0
        self.fresh = 0
        self.views = 0
        self.double = False
        self.blank = False
        self.onto_itself = False
        self._empty: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name.startswith(("empty", "new_empty")):
            self._empty.add(_place(out))
            self.fresh += out.nbytes
        elif func.is_view:
            self.views += 1
        elif func.namespace == "aten":
            self._note(func._schema.arguments, name, args, kwargs, out)
        return out

    def _note(self, arguments, name, args, kwargs, out) -> None:
        by_name = [(argument, kwargs.get(argument.name)) for argument in arguments]
        passed = [*zip(arguments, args, strict=False), *by_name]
        changed = _tensors([value for argument, value in passed if _is_written(argument)])
        read = _tensors([value for argument, value in passed if _is_read(argument)])
        if name in _NOT_READ:
            read = read[1:]
        written = changed or _tensors([out])
        self.calls.append(name)
        self.sources += read
        if not changed:
            self.fresh += _bytes(written)
        self.moved += _bytes(written) + (_bytes(written) if name in _PICKS else _bytes(read))
        self.blank |= not self._empty.isdisjoint(map(_place, read))
        self._empty -= set(map(_place, written))
        self.onto_itself |= name == "copy_" and read[0].data_ptr() == written[0].data_ptr()
        self.double |= any(tensor.dtype == torch.float64 for tensor in read + written)


def _is_written(argument) -> bool:
    return bool(argument.alias_info and argument.alias_info.is_write)


def _is_read(argument) -> bool:
    return not (argument.kwarg_only and argument.alias_info)  # out=… is written alone


def _tensors(values) -> list[torch.Tensor]:
    flat = []
    for value in values:
        flat += value if isinstance(value, (list, tuple)) else [value]
    return [value for value in flat if isinstance(value, torch.Tensor)]


def _bytes(tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def layers(linear_cost, conv_cost, side: int, device: str) -> dict:
    """name -> (layer, its images, flops, bytes). side: inputs and outputs of the linear layer.

    conv: of ResNet's first stage. ReLU works in place and counts as a flop a number.
    """
    rows = {}
    for batch in (1, 8, 32, 128):
        linear = torch.nn.Linear(side, side, bias=False)
        rows[f"linear, {batch}"] = linear, (batch, side), linear_cost(batch, side, side, 4)
    for kernel, filters in ((3, 64), (1, 256)):
        padding = kernel // 2
        conv = torch.nn.Conv2d(64, filters, kernel, padding=padding, bias=False)
        cost = conv_cost(8, 64, 56, 56, filters, kernel, 1, padding, 4)
        rows[f"conv {kernel} x {kernel}, 8"] = conv, (8, 64, 56, 56), cost
    numbers = 16 * 64 * 112 * 112
    rows["ReLU, 16"] = torch.nn.ReLU(inplace=True), (16, 64, 112, 112), (numbers, 2 * 4 * numbers)
    return {
        name: (layer.to(device), torch.randn(shape, device=device), *cost)
        for name, (layer, shape, cost) in rows.items()
    }


def show_roofline(points: dict, attainable, peak, bandwidth, device) -> None:
    """Plot the learner's roof and the measured layers: "kind, images" -> (flops/byte, flop/s)."""
    last = 2 * max(5 * peak / bandwidth, *(float(intensity) for intensity, _ in points.values()))
    grid = np.geomspace(0.06, last, 200)
    series = {"the two roofs": (grid, [attainable(place, peak, bandwidth) / 1e9 for place in grid])}
    labels = {}
    for name, (intensity, speed) in points.items():
        kind, images = name.split(", ")
        for values, value in zip(
            series.setdefault(kind, ([], [])), (intensity, speed / 1e9), strict=True
        ):
            values.append(float(value))
        labels.setdefault(kind, []).append(images)
    plots.lines(
        series,
        labels=labels,
        xlabel="arithmetic intensity (flops/byte)",
        ylabel="Gflop/s",
        title=f"Roofline of this machine ({device})",
        name="roofline",
        logx=True,
        logy=True,
    )


def setting(pictures: int, batch: int, device: str):
    """net, optimizer, pixels (uint8, noise in CIFAR-10's shape), labels, and the rows of one
    batch."""
    pixels = torch.randint(256, (pictures, 3, 32, 32), dtype=torch.uint8, device=device)
    labels = torch.randint(10, (pictures,), device=device)
    net = nets.torch_conv().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    return net, optimizer, pixels, labels, torch.randperm(pictures, device=device)[:batch]
