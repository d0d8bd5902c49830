"""What the checks of lab 35 try: gradients of all kinds, with the right means, and errors carried on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

LENGTHS = (1, 7, 8, 9, 1003)  # values: one, around a full byte of bits, and not a multiple of 2, 3, 4 or 8
# Of float16: usual values; with a scale; four of these add up to inf; these become 0 unless scaled up.
HALVES = ((1.0, 1.0), (1.0, 1024.0), (60_000.0, 1.0), (1e-8, 2.0**20))


def gradients(n: int, p: int = 1, size: float = 1.0) -> dict[str, np.ndarray]:
    """What gradients may look like: name -> float32, shape (p, n), magnitudes from size/10 to size."""
    above = size * np.random.default_rng([n, p]).uniform(0.1, 1, (p, n)).astype(np.float32)
    signs = np.where(np.arange(n) % 3 == 1, -1, 1).astype(np.float32)
    return {
        "both signs": above * signs,
        "all above 0": above,
        "all below 0": -above,
        "all 0": 0 * above,
        "every third 0": above * (np.arange(n) % 3 > 0),
    }


class Vector(NamedTuple):
    """A gradient of one rank. means: of the values below 0, and of the others; by_means: each by its."""

    what: str
    values: np.ndarray
    means: tuple[float, float]
    by_means: np.ndarray


def vectors() -> Iterator[Vector]:
    """Gradients of all kinds, of each of LENGTHS."""
    for n in LENGTHS:
        for name, (values,) in gradients(n).items():
            up = values >= 0
            below = 0.0 if up.all() else float(values[~up].mean())
            above = float(values[up].mean()) if up.any() else 0.0
            yield Vector(f"{n} values, {name}", values, (below, above), np.where(up, above, below))


def whole(values: np.ndarray) -> np.ndarray:
    """A simple message to test with: values to the nearest whole number, -128 to 127, a byte each."""
    return np.rint(values).astype(np.int8).view(np.uint8)


def from_whole(message: np.ndarray, n: int) -> np.ndarray:
    """The n values (float32) of such a message."""
    return message.view(np.int8).astype(np.float32)


class Half(NamedTuple):
    """A mean by way of float16. gradients: (ranks, values). rtol: what rounding may do. because: why."""

    what: str
    gradients: np.ndarray
    scale: float
    mean: np.ndarray
    rtol: float
    because: str = ""


def half_cases(p: int, lengths=LENGTHS) -> Iterator[Half]:
    """Gradients of p ranks: usual, large, tiny, zeros; some whose sum loses values, one with an overflow."""
    for n in lengths:
        for size, scale in HALVES:
            for name, of_ranks in gradients(n, p, size).items():
                what = f"{n} values, {name}, up to {size:g}, scale {scale:g}"
                # float16 has 11 significant bits: two roundings are at most 2 * 2**-11 off.
                yield Half(what, of_ranks, scale, of_ranks.astype(np.float64).mean(axis=0), 1.5e-3)
        # To a float16 of 1024, 0.499 adds nothing. Both are float16 already: only the mean is rounded, by
        # 2**-11.
        of_ranks = np.full((p, n), np.float16(0.499), np.float32)
        of_ranks[0] = 1024
        what = f"{n} values, 1024 on rank 0 and 0.499 elsewhere"
        yield Half(what, of_ranks, 1.0, of_ranks.mean(axis=0), 5.5e-4, "It is the mean of a float32 sum")
        of_ranks = gradients(n, p)["both signs"]
        mean = of_ranks.mean(axis=0)
        of_ranks[-1, -1] = 1e6
        mean[-1] = np.inf
        what = f"{n} values, the last of rank {p - 1} is 1e6"
        yield Half(what, of_ranks, 1.0, mean, 2e-3, "The last should be inf, so that all can see it")


class Step(NamedTuple):
    """A step with error feedback. gradients: (ranks, values).

    mean: of what the messages say. errors: what is left on each rank. forgetful_…: the same if nothing was
    left of the step before.
    """

    gradients: np.ndarray
    mean: np.ndarray
    errors: np.ndarray
    forgetful_mean: np.ndarray
    forgetful_errors: np.ndarray


def feedback_steps(p: int, n: int, compress: Callable, expand: Callable) -> list[Step]:
    """Some steps of p ranks with n values each, worked out without messages between ranks."""

    def said(vectors: np.ndarray) -> np.ndarray:
        return np.array([expand(compress(vector), n) for vector in vectors])

    steps = []
    errors = np.zeros((p, n), np.float32)
    for of_ranks in gradients(n, p, size=10).values():
        wanted = of_ranks + errors
        errors = wanted - said(wanted)
        forgetful = said(of_ranks)
        mean = said(wanted).mean(axis=0)
        steps.append(Step(of_ranks, mean, errors, forgetful.mean(axis=0), of_ranks - forgetful))
    return steps
