"""Two lines α + nβ: short messages, which MPI sends eagerly, and long ones, by rendezvous. Lab 22."""

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
        long = [
            n / (t - self.alpha_above)
            for n, t in times.items()
            if n > self.eager and t > 2 * self.alpha_above
        ]
        endless = 1 / self.beta_above if self.beta_above > 0 else float("inf")
        return {
            "alpha": self.alpha,
            "bandwidth": float(np.median(long)) if long else endless,
            "eager": self.eager,
            "handshake": max(0.0, self.alpha_above - self.alpha),
            "busy": busy,
            "step": step,
        }

    def __str__(self) -> str:
        lines = [
            human(a) + (f" + n / {digits(1e-9 / b)} GB/s" if b > 0 else "") for a, b in (self[1:3], self[3:])
        ]
        return f"{lines[0]} up to {self.eager} bytes, {lines[1]} above"


def two_lines(times: Mapping[int, float], fit: Callable) -> TwoLines:
    """Two lines through {bytes: seconds}, cut where that leaves the least sum of squared relative errors.

    fit: fit(sizes, seconds) gives α and β first. The cut is looked for from 256 bytes to 128 KiB, where MPI
    libraries change from eager messages to rendezvous, and in the times of up to 2 MiB: beyond, caches and
    memory bend the line.
    """
    sizes, seconds = (np.array(one, float) for one in zip(*times.items(), strict=True))
    sizes, seconds = sizes[sizes <= MOST], seconds[sizes <= MOST]
    found = []
    for cut in range(3, len(sizes) - 2):
        if 256 <= sizes[cut - 1] <= 1 << 17:
            ends = [fit(sizes[part], seconds[part])[:2] for part in (slice(cut), slice(cut, None))]
            lines = TwoLines(int(sizes[cut - 1]), *(float(number) for pair in ends for number in pair))
            model = np.array([lines.time(nbytes) for nbytes in sizes])
            found.append((float(np.sum((model / seconds - 1) ** 2)), lines))
    if not found:
        raise LabError("Two lines need three sizes of up to some 256 bytes, and three above.")
    return min(found)[1]
