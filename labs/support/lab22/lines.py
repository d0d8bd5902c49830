"""Two lines α + nβ: one for short messages, which MPI sends eagerly, one for long ones, by rendezvous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from labkit.errors import LabError
from labkit.timing import digits, human

MOST = 1 << 21  # bytes up to which two lines are fitted


class TwoLines(NamedTuple):
    """α and β of a line for messages of up to `eager` bytes, and of another above."""

    eager: int
    alpha: float
    beta: float
    alpha_above: float
    beta_above: float

    def time(self, nbytes: float) -> float:
        """Seconds of a message."""
        if nbytes <= self.eager:
            return self.alpha + nbytes * self.beta
        return self.alpha_above + nbytes * self.beta_above

    def numbers(self, times: Mapping[int, float], busy: float, step: float) -> dict[str, float]:
        """What virtual.machine("here") needs of a link, in seconds and bytes.

        times: the ping-pong's, bytes -> seconds; the bandwidth is the median over the long messages, as one
        line would follow those that happen to fit a cache. busy: from one short message to the next where
        many are in flight, LogGP's gap. step: a collective's with 1 KiB (benchmarks.step).
        """
        rates = [
            nbytes / (seconds - self.alpha_above)
            for nbytes, seconds in times.items()
            if nbytes > self.eager and seconds > 2 * self.alpha_above
        ]
        endless = 1 / self.beta_above if self.beta_above > 0 else float("inf")
        return {
            "alpha": self.alpha,
            "bandwidth": float(np.median(rates)) if rates else endless,
            "eager": self.eager,
            "handshake": max(0.0, self.alpha_above - self.alpha),
            "busy": busy,
            "step": step,
        }

    def __str__(self) -> str:
        below = _line(self.alpha, self.beta)
        above = _line(self.alpha_above, self.beta_above)
        return f"{below} up to {self.eager} bytes, {above} above"


def two_lines(times: Mapping[int, float], fit: Callable) -> TwoLines:
    """Two lines through {bytes: seconds}, cut where that leaves the least sum of squared relative errors.

    fit: fit(sizes, seconds) gives α and β first. The cut is looked for from 256 bytes to 128 KiB, where MPI
    libraries change from eager messages to rendezvous, and in the times of up to 2 MiB: beyond, caches and
    memory bend the line.
    """
    sizes = np.array([nbytes for nbytes in times if nbytes <= MOST], float)
    seconds = np.array([times[nbytes] for nbytes in times if nbytes <= MOST], float)
    candidates = []
    for cut in range(3, len(sizes) - 2):
        if 256 <= sizes[cut - 1] <= 1 << 17:
            below = fit(sizes[:cut], seconds[:cut])[:2]
            above = fit(sizes[cut:], seconds[cut:])[:2]
            lines = TwoLines(int(sizes[cut - 1]), *map(float, below), *map(float, above))
            model = np.array([lines.time(nbytes) for nbytes in sizes])
            error = float(np.sum((model / seconds - 1) ** 2))
            candidates.append((error, lines))
    if not candidates:
        raise LabError("Two lines need three sizes of up to some 256 bytes, and three above.")
    return min(candidates)[1]


def _line(alpha: float, beta: float) -> str:
    """A line as one reads it; without its bandwidth where it falls."""
    return human(alpha) + (f" + n / {digits(1e-9 / beta)} GB/s" if beta > 0 else "")
