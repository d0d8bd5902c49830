"""Two lines α + nβ: short messages, which MPI sends eagerly, and long ones, by rendezvous. Lab 22."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from labkit.errors import LabError
from labkit.measurement import digits, human


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

    def numbers(self, busy: float) -> dict[str, float]:
        """What virtual.machine("here") needs: α, bandwidth, eager, handshake, overhead and gap of a link.

        busy: seconds from one short message to the next where many are in flight: LogGP's gap, not longer
        than one message alone takes. Each side's overhead is at most that, both together at most α.
        """
        return {
            "alpha": self.alpha,
            "bandwidth": 1 / self.beta_above,
            "eager": self.eager,
            "handshake": max(0.0, self.alpha_above - self.alpha),
            "overhead": min(busy, self.alpha / 2),
            "gap": min(busy, self.alpha),
        }

    def __str__(self) -> str:
        lines = [
            human(a) + (f" + n / {digits(1e-9 / b)} GB/s" if b > 0 else "") for a, b in (self[1:3], self[3:])
        ]
        return f"{lines[0]} up to {self.eager} bytes, {lines[1]} above"


def two_lines(times: Mapping[int, float], fit: Callable) -> TwoLines:
    """Two lines through {bytes: seconds}, cut where that leaves the least sum of squared relative errors.

    fit: fit(sizes, seconds) gives α and β first. The cut is looked for from 256 bytes to 1 MiB, where MPI
    libraries change from eager messages to rendezvous.
    """
    sizes, seconds, found = np.array(list(times), float), np.array(list(times.values())), []
    for cut in range(3, len(sizes) - 2):
        if 256 <= sizes[cut - 1] <= 1 << 20:
            ends = [fit(sizes[part], seconds[part])[:2] for part in (slice(cut), slice(cut, None))]
            lines = TwoLines(int(sizes[cut - 1]), *(float(number) for pair in ends for number in pair))
            model = np.array([lines.time(nbytes) for nbytes in sizes])
            found.append((float(np.sum((model / seconds - 1) ** 2)), lines))
    if not found:
        raise LabError("Two lines need three sizes of up to some 256 bytes, and three above.")
    return min(found)[1]
