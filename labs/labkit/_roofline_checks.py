"""The checks of lab 12, and what they count with: PyTorch's operators and the bytes these move."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from labkit import timing
from labkit.expectations import expect
from labkit.measurement import FEWEST, Measurement

_NOT_READ = ("copy_", "fill_", "zero_")  # write to their first argument and do not look at it
_PICKS = ("index", "index_select", "gather", "embedding")  # read as much as they write


class Count(TorchDispatchMode):
    """While on, notes PyTorch's operators but those that only look at numbers in another shape.

    calls: their names. moved: bytes read and written. fresh: bytes of new tensors. sources: tensors read.
    double: whether float64 was among them.
    """

    def __init__(self):
        super().__init__()
        self.calls: list[str] = []
        self.moved = self.fresh = 0
        self.sources: list[torch.Tensor] = []
        self.double = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if func.namespace == "aten" and not func.is_view and not name.startswith(("empty", "new_empty")):
            self._note(func._schema.arguments, name, args, kwargs, out)
        return out

    def _note(self, arguments, name, args, kwargs, out) -> None:
        given = [*zip(arguments, args, strict=False), *((one, kwargs.get(one.name)) for one in arguments)]
        changed = [value for one, value in given if one.alias_info and one.alias_info.is_write]
        changed = _tensors(changed)
        read = [v for one, v in given if not (one.kwarg_only and one.alias_info) and v is not None]
        read = _tensors(read[1:] if name in _NOT_READ else read)
        written = changed or _tensors([out])
        self.calls.append(name)
        self.fresh += 0 if changed else _bytes(written)
        self.moved += _bytes(written) * (2 if name in _PICKS else 1)
        self.moved += 0 if name in _PICKS else _bytes(read)
        self.sources += read
        self.double |= any(one.dtype == torch.float64 for one in read + written)


def _tensors(values) -> list[torch.Tensor]:
    flat = [inner for one in values for inner in (one if isinstance(one, (list, tuple)) else [one])]
    return [one for one in flat if isinstance(one, torch.Tensor)]


def _bytes(tensors) -> int:
    return sum(one.nbytes for one in tensors)


def flops(call) -> int:
    """Floating-point operations of the products and convolutions in call(), as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


class Clock:
    """In a check, takes the place of timing.measure: runs the call once, counted, and tells known times."""

    TIMES = np.array([9.0, 1.0, 2.0, 2.5, 2.0])  # seconds: median 2, mean 3.3

    def __init__(self, device: str):
        self.device, self.asked, self.flops, self.count = str(device), 0, 0, Count()

    def measure(self, call, *, repeat=20, warmup=3, comm=None, device=None, seconds=None, batch=1):
        asynchronous = "a GPU's calls return before the work is done"
        expect(str(device) == self.device, f"Give timing.measure device=device: {asynchronous}.")
        expect(warmup > 0, "No warm-up: the first call pays for what later ones find ready.")
        expect(repeat >= FEWEST, f"Take at least {FEWEST} runs: fewer cannot show the spread.")
        self.asked += 1
        with self.count:
            self.flops = flops(call)
        return Measurement(self.TIMES)

    def watch(self, function, *args):
        """What function(*args) returns, with this clock."""
        with patch.object(timing, "measure", self.measure):
            result = function(*args)
        expect(self.asked, "Time the call with timing.measure: it was not used.")
        return result

    def expect_rate(self, got, work, unit, half) -> None:
        """That `got` is work per second, at the median."""
        expect(isinstance(got, (float, int)), f"Return one number, {unit} per second. This is {got!r}.")
        for seconds, said in ((1.0, "the fastest run"), (self.TIMES.mean(), "the mean")):
            expect(not np.isclose(got, work / seconds), f"This is {said}. Take the median of the runs.")
        expect(not np.isclose(2 * got, work / 2), f"Half of what was done: {half}.")
        expect(not np.isclose(got * work, 2), f"These are seconds per {unit}: turn the fraction round.")
        expect.close(got, work / 2, f"{unit} per second (in this check the median run takes 2 s)")


def expect_counts(matrix_peak, memory_bandwidth, device: str) -> None:
    """Both functions time the right call, and divide the right work by the median."""
    clock, n = Clock(device), 97
    got = clock.watch(matrix_peak, n, device)
    others = set(clock.count.calls) - {"mm", "matmul", "bmm"}
    expect(clock.flops, "There is no matrix product in the call that you time.")
    expect(not others, f"The call that you time does more than a product: {', '.join(sorted(others))}.")
    expect(clock.flops >= 2 * n**3, f"For n={n}, a product of n x n matrices does 2 n³ operations.")
    expect(not clock.count.double, "These are float64 numbers; the layers will use float32.")
    clock.expect_rate(got, clock.flops, "flops", "a multiply-add is two operations")
    clock, nbytes = Clock(device), 4 * 30_001
    got, count = clock.watch(memory_bandwidth, nbytes, device), clock.count
    expect(count.moved, "The call that you time moves no numbers: a view is not a copy.")
    expect(
        not count.fresh, "Each call makes a new tensor, and finding memory takes time. Write to an old one."
    )
    largest = max((one.nbytes for one in count.sources), default=0)
    expect(largest >= nbytes, f"The array that is read has {largest} bytes, not {nbytes}: too near a cache.")
    zeros = "The array that is read was never written, or with zeros: the system may have one page for it all"
    expect(all(bool(one.any()) for one in count.sources), f"{zeros}. Fill it, with torch.ones for example.")
    clock.expect_rate(got, count.moved, "bytes", "what is read and what is written, both are moved")


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
    layer.register_forward_hook(lambda _, given, out: seen.append((given[0], out.requires_grad)))
    got = clock.watch(forward_time, layer, images, device)
    expect(clock.flops, "The layer has to run in the call that you time, not before.")
    expect(len(seen) == 1, f"In each timed call the layer ran {len(seen)} times.")
    expect(seen[0][0] is images, "The layer has to run on `images`, as they are.")
    expect(not seen[0][1], "Operations were recorded for a backward pass. Use torch.inference_mode().")
    expect(isinstance(got, Measurement), f"Return what timing.measure returned. This is {got!r}.")


def expect_mended(slow_step, prepare, quick_step) -> None:
    """The same training as slow_step's, with calls that do not grow with the batch, and bytes that do not
    grow with the data."""
    counts = {}
    for images, batch in ((40, 4), (40, 12), (400, 12)):
        random = torch.Generator().manual_seed(images)
        pixels = torch.randint(256, (images, 3, 8, 8), dtype=torch.uint8, generator=random)
        labels = torch.randint(10, (images,), generator=random)
        nets = [_small_net() for _ in range(2)]
        slow, quick = (torch.optim.SGD(net.parameters(), lr=0.5) for net in nets)
        ready = prepare(pixels.clone())
        for step in range(3):
            rows = torch.randperm(images, generator=random)[:batch]
            want = slow_step(nets[0], slow, pixels, labels, rows)
            with Count() as count:
                got = quick_step(nets[1], quick, ready, labels, rows)
            expect(
                isinstance(got, float), f"Return the loss as a plain number, loss.item(). This is {got!r}."
            )
            expect(
                not np.isclose(got, batch * want), "This is the sum of the images' losses, not their mean."
            )
            expect.close(got, want, f"the loss in step {step + 1}", rtol=3e-5)
            pairs = zip(*(net.parameters() for net in nets), strict=True)
            off = max(float((a - b).abs().max().detach()) for a, b in pairs)
            expect(
                off < 1e-4,
                f"The loss of step {step + 1} is right, the weights after it are off by {off:.2g}.",
            )
        expect(not count.double, "float64: twice the bytes and less than half the speed for digits unused.")
        counts[images, batch] = count
    few, many, more = counts.values()
    calls = f"{len(few.calls)} operators for 4 images, {len(many.calls)} for 12"
    expect(len(few.calls) == len(many.calls), f"Right, but {calls}: still something for each image.")
    grew = f"{many.moved:,} bytes a step with 40 images to choose from, {more.moved:,} with 400"
    expect(many.moved == more.moved, f"Right, but it moves {grew}: still something for the whole data set.")


def _small_net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = [torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)]
    return torch.nn.Sequential(*body)
