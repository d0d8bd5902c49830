"""Laws fitted to measured times, with 95 % intervals: Amdahl's serial share and a link's α and β.

Labs 50 and 22. Both are lines of two coefficients that are at least 0. Errors count relative to the
times: a fit by seconds would listen to the longest time alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labkit.scaling.laws import amdahl, to_fit
from labkit.timing import digits, human, quartiles, samples_of

RESAMPLES = 400  # of the bootstrap


@dataclass(frozen=True)
class AmdahlFit:
    """A fit of Amdahl's law.

    serial: the share of the work that more ranks do not speed up, 0 to 1; low, high: its 95 %
    interval. alone: seconds on one rank, as fitted.
    """

    serial: float
    low: float
    high: float
    alone: float

    def speedup(self, ranks):
        """Speed-up the law gives at `ranks` (number or array)."""
        return amdahl(ranks, self.serial)

    def time(self, ranks):
        """Seconds the law gives at `ranks`."""
        return self.alone / self.speedup(ranks)

    @property
    def limit(self) -> float:
        """The speed-up that no number of ranks passes."""
        return 1 / self.serial if self.serial > 0 else float("inf")

    def __str__(self) -> str:
        text = (
            f"Amdahl: serial share {self.serial:.1%} (95 % interval {self.low:.1%} to"
            f" {self.high:.1%})"
        )
        return f"{text}, at most {digits(self.limit)} times faster" if self.limit < 1e6 else text


@dataclass(frozen=True)
class AlphaBetaFit:
    """A message of n bytes takes alpha + n beta seconds (Hockney 1994), with 95 % intervals of
    both.

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


def fit_alpha_beta(times) -> AlphaBetaFit:
    """α and β of t(n) = α + nβ from the times of messages of n bytes.

    times: bytes -> seconds | samples | Measurement. Relative least squares: each time counts by its
    percentage, or the longest message would decide α. Neither is let below 0.
    """
    table = to_fit(times, least=0)
    n = np.array(list(table), dtype=float)
    medians = np.array([quartiles(value)[0] for value in table.values()])
    columns = np.stack([np.ones_like(n), n], axis=1)
    (alpha, beta), margins, misfit = _relative_least_squares(columns, medians)
    alpha_low, beta_low = np.maximum(0, [alpha, beta] - margins)
    alpha_high, beta_high = [alpha, beta] + margins
    return AlphaBetaFit(alpha, beta, alpha_low, alpha_high, beta_low, beta_high, misfit)


def fit_amdahl(times) -> AmdahlFit:
    """Amdahl's serial share from times at equal total work: t(p) = t1 (s + (1-s)/p), t1 and s both
    fitted.

    times: ranks -> seconds | samples | Measurement. Least squares on relative errors, s kept within
    0 and 1 (super-linear times give 0). The interval is the wider of bootstrap over the samples and
    jackknife over the points. Amdahl, AFIPS 1967.
    """
    table = to_fit(times)
    ranks = np.array(list(table), dtype=float)
    samples = [samples_of(value) for value in table.values()]
    medians = np.array([np.median(part) for part in samples])
    serial, alone = _serial_share(ranks, medians)
    low = serial
    high = serial
    if min(len(part) for part in samples) > 1:
        low, high = _bootstrap(ranks, samples)
    elif len(ranks) == 2:
        low, high = 0.0, 1.0  # two single times fit any line; they cannot say how well
    if len(ranks) > 2:
        margin = _jackknife(ranks, medians)
        low = min(low, serial - margin)
        high = max(high, serial + margin)
    return AmdahlFit(serial, max(0.0, min(low, serial)), min(1.0, max(high, serial)), alone)


def _serial_share(ranks, times) -> tuple[float, float]:
    """(serial share, seconds on one rank): the law is a line, t = a + b/p."""
    columns = np.stack([np.ones_like(ranks), 1 / ranks], axis=1)
    (constant, shared), _, _ = _relative_least_squares(columns, times)
    alone = float(constant + shared)
    return float(constant) / alone, alone


def _bootstrap(ranks, samples) -> tuple[float, float]:
    """95 % interval of the serial share, from drawing each point's samples again (Efron 1979)."""
    from scipy import stats

    def shares(*drawn, axis: int):
        medians = np.array([np.median(part, axis=axis) for part in drawn])
        return np.apply_along_axis(lambda times: _serial_share(ranks, times)[0], 0, medians)

    interval = stats.bootstrap(
        samples, shares, n_resamples=RESAMPLES, method="percentile", rng=0
    ).confidence_interval
    return float(interval.low), float(interval.high)


def _jackknife(ranks, times) -> float:
    """Half the 95 % interval of the serial share, from leaving out each point in turn (Tukey
    1958)."""
    count = len(ranks)
    without = [_serial_share(np.delete(ranks, i), np.delete(times, i))[0] for i in range(count)]
    error = np.sqrt((count - 1) / count * np.sum((without - np.mean(without)) ** 2))
    return float(_student(count - 1) * error)


def _relative_least_squares(columns, values):
    """(coefficients, half their 95 % intervals, root mean square of the relative errors).

    columns: [points, 2], values: [points]. The coefficients are at least 0.
    """
    from scipy.optimize import nnls

    weight = 1 / values
    for _ in range(4):  # weights from the fit itself: weights from noisy values pull the line down
        weighted = columns * weight[:, None]
        scale = np.linalg.norm(weighted, axis=0)  # nnls takes small numbers beside large ones for 0
        coefficients = nnls(weighted / scale, values * weight)[0] / scale
        fitted = columns @ coefficients
        weight = 1 / np.maximum(fitted, 1e-3 * values)
    errors = (
        values - fitted
    ) * weight  # of the fit, which may be 0 where noise has let no constant stand
    freedom = len(values) - 2
    if freedom < 1:
        return coefficients, np.full(2, np.inf), 0.0
    weighted = columns * weight[:, None]
    variances = np.sum(errors**2) / freedom * np.diag(np.linalg.pinv(weighted.T @ weighted))
    return coefficients, _student(freedom) * np.sqrt(variances), float(np.sqrt(np.mean(errors**2)))


def _student(freedom: int) -> float:
    """Student's t of a 95 % interval."""
    from scipy import stats

    return float(stats.t.ppf(0.975, freedom))
