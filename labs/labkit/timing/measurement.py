"""What a timing is: several runs, their median and middle half, and a verdict: may the median be
quoted?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labkit.errors import counted
from labkit.timing.reading import digits, human, time_unit

FEWEST = 5  # with fewer runs the quartiles are single runs, not a range
WIDEST = 0.25  # (q3 - q1) / median above which a median is not quoted
TICKS = 20  # a call shorter than this many ticks of its clock is known to 5 % at best
DRIFT = 0.10  # first and last third of the runs differ by more than this share, and hardly overlap


class _Spread:
    """Median, quartiles and verdict of `.samples`."""

    samples: np.ndarray
    resolution: float = 0.0

    @property
    def median(self) -> float:
        return float(np.median(self.samples))

    @property
    def q1(self) -> float:
        return float(np.percentile(self.samples, 25))

    @property
    def q3(self) -> float:
        return float(np.percentile(self.samples, 75))

    @property
    def spread(self) -> float:
        """Width of the middle half of the runs over the median: 0.02 is quiet, above 0.25 is not
        quoted."""
        return (self.q3 - self.q1) / self.median if self.median > 0 else float("inf")

    @property
    def steady(self) -> bool:
        """True when the median may be quoted."""
        return not self._doubt()

    @property
    def verdict(self) -> str:
        """ "steady", or "do not quote: " with the reason and what to change."""
        doubt = self._doubt()
        return f"do not quote: {doubt}" if doubt else "steady"

    def _doubt(self) -> str:
        count = len(self.samples)
        if count < FEWEST:
            return (
                f"{counted(count, 'run')} cannot show the spread, take at least {FEWEST}"
                f" (repeat={FEWEST})"
            )
        if self.median < TICKS * self.resolution:
            tick = human(self.resolution)
            return (
                f"shorter than {TICKS} ticks of the clock ({tick} each), time many calls at once"
                " (batch=1000)"
            )
        moved = _drift(self.samples)
        if abs(moved) > DRIFT:
            way = "slower" if moved > 0 else "faster"
            return (
                f"the last runs were {abs(moved):.0%} {way} than the first, warm up longer"
                " (warmup=…)"
            )
        if self.spread > WIDEST:
            return (
                f"the middle half is {self.spread:.0%} of the median wide, something else is"
                " running: quiet the machine or take more runs (repeat=…)"
            )
        return ""

    def _quoted(self, text: str) -> str:
        return text if self.steady else f"{text}; {self.verdict}"


@dataclass(frozen=True, eq=False)
class Measurement(_Spread):
    """Timed runs of one call, in the order measured.

    samples: seconds per call; across ranks, of the slowest rank.
    resolution: seconds, the clock's smallest step, per call.
    """

    samples: np.ndarray
    resolution: float = 0.0

    def rate(self, work: float) -> float:
        """Work per second at the median; `work` is what one call does (images, bytes,
        operations)."""
        return work / self.median

    def __str__(self) -> str:
        unit, factor = time_unit(self.median)
        low = digits(self.q1 * factor)
        high = digits(self.q3 * factor)
        return self._quoted(
            f"{human(self.median)} (middle half {low} to {high} {unit},"
            f" {counted(len(self.samples), 'run')})"
        )


@dataclass(frozen=True, eq=False)
class Ratio(_Spread):
    """How many times as long `a` takes as `b`: pairs of runs, one straight after the other.

    Noise that slows both runs of a pair alike leaves the ratio steady, even where `a` and `b` alone
    are not.
    """

    a: Measurement
    b: Measurement

    @property
    def samples(self) -> np.ndarray:
        return self.a.samples / self.b.samples

    def __str__(self) -> str:
        low = digits(self.q1)
        high = digits(self.q3)
        pairs = len(self.samples)
        return self._quoted(
            f"{digits(self.median)} times (middle half {low} to {high}, {pairs} pairs)"
        )

    def _doubt(self) -> str:
        for part in (self.a, self.b):
            if part.median < TICKS * part.resolution:
                return part._doubt()
        return super()._doubt()


def quartiles(value) -> tuple[float, float, float]:
    """(median, q1, q3) of a Measurement, of several samples, or of one number (then all three are
    equal)."""
    if hasattr(value, "q1") and hasattr(value, "median"):
        return value.median, value.q1, value.q3
    low, middle, high = np.percentile(np.atleast_1d(np.asarray(value, dtype=float)), (25, 50, 75))
    return float(middle), float(low), float(high)


def samples_of(value) -> np.ndarray:
    """The samples of a Measurement, or the numbers given, as a float array."""
    return np.atleast_1d(np.asarray(getattr(value, "samples", value), dtype=float))


def _drift(samples: np.ndarray) -> float:
    """How much slower the last third ran than the first, over the median; 0 where the two
    overlap."""
    third = len(samples) // 3
    if third < 3:
        return 0.0
    first = samples[:third]
    last = samples[-third:]
    # Share of all pairs, as Mann and Whitney count.
    slower = float(np.mean(last[:, None] > first[None, :]))
    if 0.05 < slower < 0.95:
        return 0.0
    return float((np.median(last) - np.median(first)) / np.median(samples))
