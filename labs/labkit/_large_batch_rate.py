"""What a check asks of a schedule of rates. Names as in large_batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit.expectations import expect

# batch, base rate, power, epochs of warm-up, epochs, images, base batch. 100 does not divide 1,536.
CASES = (
    (256, 0.025, 1, 5, 20, 1536, 16),
    (256, 0.025, 0.5, 5, 20, 1536, 16),
    (100, 0.1, 1, 3, 8, 1536, 32),
    (64, 0.05, 0, 2, 10, 1536, 16),
    (500, 0.025, 1, 0, 6, 1300, 50),
    (1536, 0.01, 0.5, 1, 4, 1536, 16),
    (64, 0.05, 1, 2, 6, 1300, 128),
)


def expect_rate(rate: Callable) -> None:
    """Fail unless rate(step, batch, base, power, warm_up, epochs, images, base_batch) is as lab 34 has it."""
    for case in CASES:
        batch, base, power, warm, epochs, images, base_batch = case
        per_epoch = images // batch
        total, first = per_epoch * epochs, per_epoch * warm
        terms = (base, base * (batch / base_batch) ** power, warm, epochs)
        who = f"Batch {batch} of {images} images, base {base} at {base_batch}, power {power}, "
        who += f"warm-up {warm} of {epochs}"
        for step in sorted({0, 1, first // 2, abs(first - 1), first, (2 * first + total) // 3, total - 1}):
            got, what = rate(step, *case), f"{who}: the rate of step {step} of {total}"
            expect(np.ndim(got) == 0 and got is not None, f"{what} should be a number, not {got!r}.")
            want = _rate(step, per_epoch, *terms)
            for words, wrong in _slips(step, case).items():
                like = np.isclose(got, wrong) and not np.isclose(want, wrong)
                expect(not like, f"{what}: {got:.4g}. {words}.")
            expect.close(got, want, what, rtol=1e-9)


def _slips(step, case) -> dict[str, float]:
    """What is wrong -> the rate that it makes of this step."""
    batch, base, power, warm, epochs, images, base_batch = case
    per_epoch, peak = images // batch, base * (batch / base_batch) ** power
    terms, begun = (base, peak, warm, epochs), step - step % per_epoch
    stairs = begun if step < warm * per_epoch else step
    return {
        f"An epoch has {images} // {batch} steps": _rate(step, images / batch, *terms),
        f"This is with 32 for base_batch, which is {base_batch} here": _rate(
            step, per_epoch, base, base * (batch / 32) ** power, warm, epochs
        ),
        f"batch / base_batch is {batch / base_batch:g} here: take it as it is": _rate(
            step, per_epoch, base, base * max(1, batch // base_batch) ** power, warm, epochs
        ),
        f"This is with 1,536 images, but there are {images:,} here": _rate(step, 1536 // batch, *terms),
        "What does not fill a batch is left out: round down": _rate(step, -(-images // batch), *terms),
        "Python reads `epochs * images // batch` as `(epochs * images) // batch`: put `images // batch` into "
        "brackets": _rate(step, per_epoch, *terms, left=per_epoch * epochs - epochs * images // batch),
        "Warm-up begins at the base rate, not at 0": _rate(step, per_epoch, 0, *terms[1:]),
        "In the warm-up the rate climbs with every step, not with every epoch": _rate(
            stairs, per_epoch, *terms
        ),
        "The cosine begins when the warm-up is over, not at step 0": _rate(step, per_epoch, *terms, 0),
        "Before the last step one step is left, so f is not yet 1 there": _rate(
            step, per_epoch, *terms, left=1
        ),
    }


def _rate(step, per_epoch, base, peak, warm, epochs, since=None, left=0) -> float:
    """since: the step at which the cosine begins. left: steps before the end at which it is 0."""
    first = warm * per_epoch
    if step < first:
        return base + (peak - base) * step / first
    since = first if since is None else since
    return peak * (1 + np.cos(np.pi * (step - since) / (epochs * per_epoch - left - since))) / 2
