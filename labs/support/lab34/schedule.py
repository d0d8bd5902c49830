"""The schedule of rates of lab 34: the right rate of a step, and what mistakes make of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Schedule(NamedTuple):
    """A training whose rates are asked for; the fields are the arguments of `learning_rate`, in its order."""

    batch: int
    base: float
    power: float
    warm_up: int
    epochs: int
    images: int
    base_batch: int

    def __str__(self) -> str:
        data = f"Batch {self.batch} of {self.images} images, base {self.base} at {self.base_batch}"
        return f"{data}, power {self.power}, warm-up {self.warm_up} of {self.epochs}"

    @property
    def first(self) -> int:
        """The first step after the warm-up."""
        return self.warm_up * (self.images // self.batch)

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        return self.epochs * (self.images // self.batch)

    @property
    def peak(self) -> float:
        return self.base * (self.batch / self.base_batch) ** self.power

    def steps(self) -> list[int]:
        """Steps to ask for: in the warm-up, at its end, later, and the last."""
        first = self.first
        total = self.total
        return sorted({0, 1, first // 2, abs(first - 1), first, (2 * first + total) // 3, total - 1})

    def rate(self, step: int) -> float:
        """The right rate of this step."""
        return _rate(step, self.first, self.total, self.base, self.peak)

    def slips(self, step: int) -> dict[str, float]:
        """What is wrong -> the rate that it makes of this step."""
        batch, base, power, warm_up, epochs, images, base_batch = self
        first = self.first
        total = self.total
        peak = self.peak
        per_epoch = images // batch
        default = 1536 // batch
        rounded_up = -(-images // batch)
        whole_ratio = max(1, batch // base_batch)
        epoch_begun = step - step % per_epoch
        without_brackets = epochs * images // batch
        return {
            f"An epoch has {images} // {batch} steps": _rate(
                step, warm_up * images / batch, epochs * images / batch, base, peak
            ),
            f"This is with 32 for base_batch, which is {base_batch} here": _rate(
                step, first, total, base, base * (batch / 32) ** power
            ),
            f"The ratio batch / base_batch is {batch / base_batch:g} here: take it as it is": _rate(
                step, first, total, base, base * whole_ratio**power
            ),
            f"This is with 1,536 images, but there are {images:,} here": _rate(
                step, warm_up * default, epochs * default, base, peak
            ),
            "What does not fill a batch is left out: round down": _rate(
                step, warm_up * rounded_up, epochs * rounded_up, base, peak
            ),
            "Python reads `epochs * images // batch` as `(epochs * images) // batch`: put `images // batch` "
            "into brackets": _rate(step, first, total, base, peak, fall_to=without_brackets),
            "Warm-up begins at the base rate, not at 0": _rate(step, first, total, 0, peak),
            "In the warm-up the rate climbs with every step, not with every epoch": _rate(
                epoch_begun if step < first else step, first, total, base, peak
            ),
            "The cosine begins when the warm-up is over, not at step 0": _rate(
                step, first, total, base, peak, fall_from=0
            ),
            "Before the last step one step is left, so f is not yet 1 there": _rate(
                step, first, total, base, peak, fall_to=total - 1
            ),
        }


# 100 does not divide 1,536; batches below, at and above the base batch; no warm-up; one step an epoch.
SCHEDULES = (
    Schedule(256, 0.025, 1, 5, 20, 1536, 16),
    Schedule(256, 0.025, 0.5, 5, 20, 1536, 16),
    Schedule(100, 0.1, 1, 3, 8, 1536, 32),
    Schedule(64, 0.05, 0, 2, 10, 1536, 16),
    Schedule(500, 0.025, 1, 0, 6, 1300, 50),
    Schedule(1536, 0.01, 0.5, 1, 4, 1536, 16),
    Schedule(64, 0.05, 1, 2, 6, 1300, 128),
)


def _rate(step, first, total, base, peak, fall_from=None, fall_to=None) -> float:
    """From base to peak in the steps before `first`, then by a cosine to 0 at step `total`.

    fall_from, fall_to: the steps at which the cosine begins and ends, if not at these two.
    """
    if step < first:
        return base + (peak - base) * step / first
    begin = first if fall_from is None else fall_from
    end = total if fall_to is None else fall_to
    return peak * (1 + np.cos(np.pi * (step - begin) / (end - begin))) / 2
