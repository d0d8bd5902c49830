"""Laws fitted to measured times, with 95 % intervals. `labkit.scaling` offers them (labs 22, 50, 52)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labkit.errors import LabError
from labkit.timing import digits, human, quartiles, samples_of

_RESAMPLES = 400
# Student's t for a 95 % interval, by degrees of freedom; two stands for all beyond.
_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


@dataclass(frozen=True)
class Fit:
    """A fitted law. serial: the share of the work that more ranks do not speed up, 0 to 1, with its 95 %
    interval.

    one: seconds on one rank, as fitted. law: "Amdahl" (times at equal work) or "Gustafson" (at equal work
    per rank).
    """

    serial: float
    low: float
    high: float
    one: float
    law: str

    def speedup(self, ranks):
        """Speed-up the law gives at `ranks` (number or array)."""
        ranks = np.asarray(ranks, dtype=float)
        if self.law == "Amdahl":
            return 1 / (self.serial + (1 - self.serial) / ranks)
        return ranks - self.serial * (ranks - 1)

    def time(self, ranks):
        """Seconds the law gives at `ranks`."""
        work = 1.0 if self.law == "Amdahl" else np.asarray(ranks, dtype=float)
        return self.one * work / self.speedup(ranks)

    @property
    def limit(self) -> float:
        """The speed-up that no number of ranks passes; infinite for Gustafson's law unless all is serial."""
        if self.law == "Amdahl":
            return 1 / self.serial if self.serial > 0 else float("inf")
        return float("inf") if self.serial < 1 else 1.0

    def __str__(self) -> str:
        text = f"{self.law}: serial share {self.serial:.1%} (95 % interval {self.low:.1%} to {self.high:.1%})"
        return f"{text}, at most {digits(self.limit)} times faster" if self.limit < 1e6 else text


@dataclass(frozen=True)
class AlphaBeta:
    """A message of n bytes takes alpha + n beta seconds (Hockney 1994), with 95 % intervals of both.

    misfit: how far the measured times lie from the line, as a share (root mean square).
    """

    alpha: float
    beta: float
    alpha_low: float
    alpha_high: float
    beta_low: float
    beta_high: float
    misfit: float

    def time(self, n):
        """Seconds for n bytes (number or array)."""
        return self.alpha + np.asarray(n, dtype=float) * self.beta

    @property
    def bandwidth(self) -> float:
        """Bytes per second that very long messages reach."""
        return 1 / self.beta if self.beta > 0 else float("inf")

    @property
    def half(self) -> float:
        """Bytes at which half of that bandwidth is reached (Hockney's n½): alpha / beta."""
        return self.alpha / self.beta if self.beta > 0 else float("inf")

    def __str__(self) -> str:
        return (
            f"α = {human(self.alpha)} ({human(self.alpha_low)} to {human(self.alpha_high)}), "
            f"1/β = {digits(self.bandwidth / 1e9)} GB/s, half of it at {digits(self.half)} bytes, "
            f"misfit {self.misfit:.0%}"
        )


def fit_amdahl(ranks, times=None) -> Fit:
    """Amdahl's serial share from times at equal total work: t(p) = t1 (s + (1-s)/p), t1 and s both fitted.

    ranks, times: a dict ranks -> seconds | samples | Measurement, or two sequences. Least squares on
    relative errors, s kept within 0 and 1 (super-linear times give 0). The interval is the wider of
    bootstrap over the samples and jackknife over the points. Amdahl, AFIPS 1967.
    """
    return _fit_law(_points(ranks, times), "Amdahl")


def fit_gustafson(ranks, times=None) -> Fit:
    """Gustafson's serial share from times at equal work per rank: p t1/t(p) = p - s(p-1).

    Arguments and interval as in fit_amdahl. Gustafson, CACM 31(5), 1988.
    """
    return _fit_law(_points(ranks, times), "Gustafson")


def fit_alpha_beta(sizes, seconds=None) -> AlphaBeta:
    """α and β of t(n) = α + nβ from message sizes in bytes and times.

    A dict bytes -> seconds | samples | Measurement, or two sequences. Relative least squares: each time
    counts by its percentage, or the longest message would decide α. Neither is let below 0.
    """
    points = _points(sizes, seconds, least=0)
    n = np.array(list(points))
    t = np.array([quartiles(value)[0] for value in points.values()])
    columns = np.stack([np.ones_like(n), n], axis=1)
    (alpha, beta), errors, residual = _relative_least_squares(columns, t)
    low, high = np.maximum(0, [alpha, beta] - errors), [alpha, beta] + errors
    return AlphaBeta(alpha, beta, low[0], high[0], low[1], high[1], residual)


def _fit_law(points: dict, law: str) -> Fit:
    ranks = np.array(list(points))
    samples = [samples_of(value) for value in points.values()]
    middle = np.array([np.median(part) for part in samples])
    serial, one = _law(ranks, middle, law)
    low, high = serial, serial
    random = np.random.default_rng(0)
    if min(len(part) for part in samples) > 1:
        draws = [np.median(random.choice(part, (_RESAMPLES, len(part))), axis=1) for part in samples]
        shares = [_law(ranks, drawn, law)[0] for drawn in np.transpose(draws)]
        low, high = np.percentile(shares, (2.5, 97.5))
    elif len(ranks) == 2:
        low, high = 0.0, 1.0  # two single times fit any line; they cannot say how well
    if len(ranks) > 2:
        margin = _jackknife(ranks, middle, law)
        low, high = min(low, serial - margin), max(high, serial + margin)
    return Fit(serial, max(0.0, float(min(low, serial))), min(1.0, float(max(high, serial))), one, law)


def _law(ranks, times, law: str) -> tuple[float, float]:
    """(serial share, seconds on one rank). Both laws are lines: t = a + b/p and 1/t = a + b/p."""
    columns = np.stack([np.ones_like(ranks), 1 / ranks], axis=1)
    values = times if law == "Amdahl" else 1 / times
    (a, b), _, _ = _relative_least_squares(columns, values)
    share = a / (a + b) if law == "Amdahl" else b / (a + b)
    return float(share), float(a + b if law == "Amdahl" else 1 / (a + b))


def _jackknife(ranks, times, law: str) -> float:
    """Half the 95 % interval of the serial share, from leaving out each point in turn (Tukey 1958)."""
    count = len(ranks)
    without = [_law(np.delete(ranks, i), np.delete(times, i), law)[0] for i in range(count)]
    error = np.sqrt((count - 1) / count * np.sum((without - np.mean(without)) ** 2))
    return float(_t95(count - 1) * error)


def _relative_least_squares(columns, values):
    """Coefficients >= 0 that fit `values` with the least relative error; their 95 % margins; the residual."""
    weight = 1 / values
    for _ in range(4):  # weights from the fit itself: weights from noisy values pull the line down
        coefficients = _not_negative(columns * weight[:, None], values * weight)
        fitted = columns @ coefficients
        weight = 1 / np.maximum(fitted, 1e-3 * values)
    residuals = (values - fitted) / fitted
    freedom = len(values) - 2
    if freedom < 1:
        return coefficients, np.full(2, np.inf), 0.0
    scaled = columns * weight[:, None]
    variance = np.sum(residuals**2) / freedom * np.diag(np.linalg.pinv(scaled.T @ scaled))
    return coefficients, _t95(freedom) * np.sqrt(variance), float(np.sqrt(np.mean(residuals**2)))


def _not_negative(columns, values):
    """Least squares in two coefficients; where one would fall below 0, it is 0 and the other fitted alone."""
    scale = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    first, second = (columns / scale).T
    angle = first @ second  # the two normal equations, solved by hand: the bootstrap asks hundreds of times
    right = np.array([first @ values, second @ values])
    if 1 - angle**2 > 1e-12:
        best = (right - angle * right[::-1]) / (1 - angle**2) / scale
        if best.min() >= 0:
            return best
    alone = [max(0.0, column @ values / (column @ column)) for column in columns.T]
    ways = [np.array([alone[0], 0.0]), np.array([0.0, alone[1]])]
    return min(ways, key=lambda way: np.sum((columns @ way - values) ** 2))


def _t95(freedom: int) -> float:
    return _T95[freedom - 1] if freedom <= len(_T95) else 2.1


def _points(x, y, least: float = 1) -> dict:
    """Checked and ordered {x: y}."""
    if y is None and not isinstance(x, Mapping):
        raise LabError(
            "Give a dict of measured times, for example {1: 2.0, 2: 1.1, 4: 0.6}, or two sequences."
        )
    if y is not None:
        if len(x) != len(y):
            raise LabError(f"{len(x)} points and {len(y)} times do not belong together.")
        x = dict(zip(_plain(x), y, strict=True))
    points = ordered(x, least)
    if len(points) < 2:
        raise LabError(
            "A fit needs times at two different points or more; three or more tell how good it is."
        )
    return points


def _plain(numbers: Sequence) -> list[float]:
    return [float(number) for number in numbers]


def ordered(times: Mapping, least: float = 1) -> dict:
    """`times` in order of its keys; LabError when a key is below `least` or a time is not above 0."""
    if not times:
        raise LabError("There are no times to look at.")
    for key, value in times.items():
        if not key >= least:
            raise LabError(f"{key} is not a number of ranks or bytes that can be measured.")
        seconds = samples_of(value)
        if not (len(seconds) and np.all(np.isfinite(seconds)) and np.all(seconds > 0)):
            raise LabError(f"The time at {key} is {value!r}; every time must be a number of seconds above 0.")
    return dict(sorted(times.items()))
