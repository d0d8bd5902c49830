"""What lab 12's checks look at: the timed call, labkit's own roofs, the slow step beside the quick one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from labkit import timing
from labkit.timing import FEWEST

from support.lab12.cases import small_images, small_net
from support.lab12.counting import Clock, Count, Timed, flops

WITHIN = 4  # two measurements of a roof may differ by this factor, as the lab says: others use the machine


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
