"""The checks of lab 12: they look at timed calls, labkit's own roofs, the slow step and the quick one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from labkit import check, expect, timing
from labkit.timing import FEWEST

from support.lab12.cases import small_images, small_net, trial_layers
from support.lab12.counting import Clock, Count, Timed, flops

WITHIN = 4  # two measurements of a roof may differ by this factor, as the lab says: others use the machine


@check.exercise("12.1")
def flops_and_bytes(linear_cost, conv_cost):
    """You count the flops that PyTorch counts, and the bytes of its tensors, for layers of odd
    shapes, with strides and padding, in float32 and float16.
    """
    for trial in trial_layers():
        cost = {"linear": linear_cost, "conv": conv_cost}[trial.kind](*trial.arguments, trial.size)
        expect(np.shape(cost) == (2,), "Return two numbers: flops, bytes.")
        work, moved = cost
        wrong_flops = {
            "the other way round: flops first, then bytes": trial.nbytes,
            "a multiply-add is two operations": trial.flops / 2,
            "each multiply-add twice?": trial.flops * 2,
        }
        expect.equal(work, trial.flops, f"flops of {trial}", slips=wrong_flops)
        sizes = f"bytes of {trial}, {trial.size} a number"
        expect.equal(moved, trial.nbytes, sizes, slips=trial.wrong_bytes())


@check.exercise("12.2")
def two_roofs(matrix_peak, memory_bandwidth, device, rows, megabytes):
    """One product of two n x n float32 matrices is timed, and 2 n³ over the median is returned; a
    copy of a dense, filled array is timed, and the bytes moved over the median come out; arrays lie
    on `device`; and both speeds are about what labkit's own functions measure.
    """
    expect_product(matrix_peak, device)
    expect_copy(memory_bandwidth, device)
    for function in (matrix_peak, memory_bandwidth):
        # "meta": a device that is everywhere, and computes nothing
        left_out = f"{function.__name__} leaves `device` out: make its arrays with device=device."
        expect(watch(function, 100, "meta").devices == {"meta"}, left_out)
    n = rows if device == "cpu" else 4 * rows
    peak, own = measure_both("peak", matrix_peak, n, device)
    expect.between(peak, own / 4, own * 4, f"flop/s, beside labkit's own measurement, {own:.3g}")
    bandwidth, own = measure_both("bandwidth", memory_bandwidth, megabytes * 10**6, device)
    expect.between(bandwidth, own / 4, own * 4, f"bytes/s, beside labkit's own measurement, {own:.3g}")


@check.exercise("12.3")
def roofline(attainable, least_seconds):
    """You return the lower of the two roofs, and the longer of the two times, on two machines."""
    for work, moved in ((50, 100), (4000, 100), (1000, 100), (70, 7)):  # flops, bytes
        expect_roofs(attainable, least_seconds, work, moved, top=1000, speed=100)
        expect_roofs(attainable, least_seconds, work, moved, top=300, speed=50)


@check.exercise("12.4")
def mended_step(prepare, quick_step, slow_step):
    """The training stays the same, a batch of 4 takes as many operators as one of 12, the net runs
    once a step, and a step moves as many bytes where 40 images are stored as where 400 are.
    """
    of_4 = train_both(slow_step, prepare, quick_step, images=40, batch=4)
    of_12 = train_both(slow_step, prepare, quick_step, images=40, batch=12)
    of_400 = train_both(slow_step, prepare, quick_step, images=400, batch=12)
    for training in (of_4, of_12, of_400):
        expect_same_training(training)
    calls = f"{of_4.operators} operators for 4 images, {of_12.operators} for 12"
    expect(of_4.operators == of_12.operators, f"Right, but {calls}: still something for each image.")
    runs = f"the net ran {of_12.runs} times for one batch. Give it all images of the batch at once."
    expect(of_12.runs == 1, f"Right, but {runs}")
    grew = f"{of_12.moved:,} bytes a step with 40 images to choose from, {of_400.moved:,} with 400"
    whole = f"Right, but it moves {grew}: still something for the whole data set."
    expect(of_12.moved == of_400.moved, whole)


def expect_product(matrix_peak, device: str) -> None:
    """The timed call is one product of two n x n float32 matrices, and 2 n³ over the median is returned."""
    timed = watch(matrix_peak, 97, device)
    others = timed.others("mm", "matmul", "bmm")
    expect(timed.flops, "The call that you time does no product of two matrices in PyTorch.")
    expect(not others, f"The call that you time does more than a product: {others}.")
    because = "are both n x n, whatever n is?"
    expect.equal(timed.flops, 2 * 97**3, "For n=97, the operations of a product", because=because)
    expect.equal(timed.types, ["float32"], "Types of the numbers (the layers will use torch.float32)")
    expect(isinstance(timed.result, float), f"Return one number, flops per second. This is {timed.result!r}.")
    what = "flops per second (in this check the median run takes 2 s)"
    wrong = wrong_rates(timed.flops, "flops", half="a multiply-add is two operations")
    expect.close(timed.result, timed.flops / 2, what, slips=wrong)


def expect_copy(memory_bandwidth, device: str) -> None:
    """The timed call copies a dense, filled array of 120,004 bytes; bytes moved over the median come out."""
    timed = watch(memory_bandwidth, 120_004, device)
    expect(timed.moved, "The call that you time moves no numbers: a view is not a copy.")
    fresh = "Each call makes a new tensor, and finding memory takes time. Write to an old one."
    expect(not timed.fresh, fresh)
    expect(not timed.onto_itself, "Source and target are one array: PyTorch sees that and copies nothing.")
    gaps = "The array that is read has gaps, or one number many times: take one without slices and expand."
    expect(timed.dense, gaps)
    size = f"The array that is read has {timed.read} bytes, not 120004"
    expect(timed.read > 0.99 * 120_004, f"{size}: too near a cache.")
    expect(timed.read < 1.01 * 120_004, f"{size}: a float32 has 4 bytes.")
    zeros = "The array that is read was not written, or with zeros: the system may have one page for it all"
    expect(timed.filled, f"{zeros}. Fill it, with torch.ones for example.")
    expect(isinstance(timed.result, float), f"Return one number, bytes per second. This is {timed.result!r}.")
    what = "bytes per second (in this check the median run takes 2 s)"
    wrong = wrong_rates(timed.moved, "bytes", half="what is read and what is written, both are moved")
    expect.close(timed.result, timed.moved / 2, what, slips=wrong)


def expect_roofs(attainable, least_seconds, work: float, moved: float, top: float, speed: float) -> None:
    """Both functions for so many flops and bytes, on a machine with these roofs, in flop/s and bytes/s."""
    intensity = work / moved
    machine = f"of a peak of {top}, with {speed} bytes/s"
    slanted = speed * intensity  # flop/s
    higher = {"this is the higher of the two roofs": max(top, slanted)}
    what = f"flop/s at {intensity:g} flops per byte, {machine}"
    expect.close(attainable(intensity, top, speed), min(top, slanted), what, slips=higher)
    arithmetic = work / top  # seconds
    memory = moved / speed
    wrong_seconds = {
        "arithmetic and memory go on at once: the longer one counts, not the sum": arithmetic + memory,
        "this is the shorter one. It waits for the other": min(arithmetic, memory),
    }
    what = f"seconds for {work} flops and {moved} bytes, {machine}"
    seconds_needed = least_seconds(work, moved, top, speed)
    expect.close(seconds_needed, max(arithmetic, memory), what, slips=wrong_seconds)


def expect_same_training(training: Training) -> None:
    """Three steps with the losses and weights of the slow step, in float32, and not more arithmetic."""
    for step in training.steps:
        number = f"Return the loss as a plain number, loss.item(). This is {step.loss!r}."
        expect(isinstance(step.loss, float), number)
        what = f"the loss in step {step.number} (mean and spread of all pixels? labels of `rows`?)"
        summed = {"this is the sum of the images' losses, not their mean": training.batch * step.wanted}
        expect.close(step.loss, step.wanted, what, rtol=3e-5, slips=summed)
        still = "The weights do not move: zero_grad, then loss.backward(), then optimizer.step()."
        expect(step.moved, still)
        off = f"the weights after it are off by {step.difference:.2g}: {step.cure()}"
        expect(step.difference < 1e-4, f"The loss of step {step.number} is right, {off}")
    double = "float64: twice the bytes and less than half the speed for digits unused."
    expect(not training.double, double)
    again = f"{training.flops / training.flops_of_slow:.3g} times the flops of the slow step"
    twice = f"Right, but {again}: does the net see more than the batch, or see it twice?"
    expect(training.flops <= training.flops_of_slow, twice)


def watch(function, size: int, device: str) -> Timed:
    """What function(size, device) times and returns, with a clock whose median is 2 s."""
    return Clock(device).watch(function, size, device)


def wrong_rates(work: float, unit: str, half: str) -> dict[str, float]:
    """Mistake -> the rate that it gives by the check's clock: fastest 1 s, median 2 s, mean 3.3 s.

    work: what was done, in `unit`. half: why half of it may have been forgotten.
    """
    return {
        "this is the fastest run. Take the median of the runs": work / Clock.TIMES.min(),
        "this is the mean. Take the median of the runs": work / Clock.TIMES.mean(),
        f"half of what was done: {half}": work / 2 / 2,
        f"this is seconds for one of the {unit}: turn the fraction round": 2 / work,
        f"this is the time. Divide the {unit} by it": 2,
    }


def _own_peak(n: int, device: str) -> float:
    """FLOP/s of the product of two n x n matrices, as labkit measures it."""
    a, b, c = (torch.randn(n, n, device=device) for _ in range(3))
    product = partial(torch.mm, a, b, out=c)
    return timing.measure(product, device=device, repeat=FEWEST).rate(2 * n**3)


def _own_bandwidth(nbytes: int, device: str) -> float:
    """Bytes/s, read and written, of a copy, as labkit measures it."""
    source, target = (torch.ones(nbytes // 4, device=device) for _ in range(2))
    copy = partial(target.copy_, source)
    return timing.measure(copy, device=device, repeat=FEWEST).rate(2 * source.nbytes)


OWN = {"peak": _own_peak, "bandwidth": _own_bandwidth}


def measure_both(roof: str, function, size: int, device: str) -> tuple[float, float]:
    """(the learner's rate, labkit's own), measured anew up to five times until they agree within WITHIN.

    Somebody else may use the machine in one of the two measurements. roof: "peak" or "bandwidth".
    """
    for _ in range(5):
        rate = function(size, device)
        reference = OWN[roof](size, device)
        if reference / WITHIN < rate < reference * WITHIN:
            break
    return rate, reference


@dataclass
class Step:
    """One step of two equal nets. difference: the largest between their weights after it."""

    number: int  # from 1
    loss: object  # as the quick step returned it
    wanted: float  # the slow step's
    moved: bool  # whether the quick step changed a weight
    difference: float

    def cure(self) -> str:
        """A question about weights that differ, though the losses agree."""
        if self.difference < 2e-3:
            return "do the images have quite the mean and the spread (std) of the slow step's?"
        return "zero_grad in each step?" if self.number > 1 else "backward from the mean of the losses?"


@dataclass
class Training:
    """Three steps of both, and what the last of the quick ones did."""

    batch: int
    steps: list[Step]
    double: bool  # whether float64 was among the numbers
    operators: int
    runs: int  # of the net, told by its convolution
    moved: int  # bytes
    flops: int
    flops_of_slow: int


def train_both(slow_step, prepare, quick_step, images: int, batch: int) -> Training:
    """Three steps of each on equal nets, with batches of so many of these images; the last one counted."""
    random = torch.Generator().manual_seed(images)
    pixels, labels = small_images(images, random)
    slow_net = small_net()
    quick_net = small_net()
    slow = torch.optim.SGD(slow_net.parameters(), lr=0.5)
    quick = torch.optim.SGD(quick_net.parameters(), lr=0.5)
    ready = prepare(pixels.clone())
    steps = []
    for number in (1, 2, 3):
        rows = torch.randperm(images, generator=random)[:batch]
        before = [weight.detach().clone() for weight in quick_net.parameters()]
        losses: list = []
        flops_of_slow = flops(partial(_keep, losses, slow_step, slow_net, slow, pixels, labels, rows))
        with Count() as count:
            work = flops(partial(_keep, losses, quick_step, quick_net, quick, ready, labels, rows))
        wanted, loss = losses
        moved = any(not torch.equal(old, new) for old, new in _pairs(before, quick_net.parameters()))
        difference = _largest_difference(slow_net, quick_net)
        steps.append(Step(number, loss, wanted, moved, difference))
    operators = len(count.calls) + count.views
    runs = count.calls.count("convolution")  # small_net has one
    return Training(batch, steps, count.double, operators, runs, count.moved, work, flops_of_slow)


def _keep(results: list, function, *arguments) -> None:
    results.append(function(*arguments))


def _pairs(first, second):
    return zip(first, second, strict=True)


@torch.no_grad()
def _largest_difference(net, other) -> float:
    return max(float((a - b).abs().max()) for a, b in _pairs(net.parameters(), other.parameters()))
