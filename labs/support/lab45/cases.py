"""What the checks of lab 45 try: gradients, Adasum by its formula, bytes, searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from labkit import nets, virtual
from labkit.checks import expect

MIB = 1 << 20
STRICT = virtual.ideal().but(eager=64)  # messages above 64 bytes wait for their receiver, as long ones do
WEIGHTS = [weight.size for weight in nets.start_weights()]  # values in each layer of the digits' net
LAYERS = [slice(end - size, end) for size, end in zip(WEIGHTS, np.cumsum(WEIGHTS).tolist(), strict=True)]
VALUES = 1003  # of the gradients on virtual ranks
ONE_LAYER = [slice(0, VALUES)]
THREE_LAYERS = [slice(0, 7), slice(7, 8), slice(8, VALUES)]

# Nodes -> bytes that a node sends for one value.
BYTES_A_VALUE = {
    2: {"float32": 4, "float16": 2, "Adasum": 4, "Adasum, float16": 2},
    4: {"float32": 6, "float16": 4, "Adasum": 6, "Adasum, float16": 3},
    8: {"float32": 7, "float16": 6, "Adasum": 7, "Adasum, float16": 3.5},
    64: {"float32": 7.875, "float16": 12, "Adasum": 7.875, "Adasum, float16": 3.9375},
}


def gradients(p: int, values: int, seed: int = 0) -> np.ndarray:
    """float32 of shape (p, values), neither orthogonal nor parallel: a part that all have, and one's own."""
    random = np.random.default_rng([seed, p, values])
    return (random.standard_normal(values) + random.standard_normal((p, values))).astype(np.float32)


class Pair(NamedTuple):
    """Two gradients. adasum: of both, float64. atol: what rounding of float32 may do to it."""

    what: str
    a: np.ndarray
    b: np.ndarray
    adasum: np.ndarray
    atol: float


def pairs() -> Iterator[Pair]:
    """Two gradients: orthogonal, parallel, opposite, zeros, huge, tiny, of one value, of float64."""
    a, b = gradients(2, VALUES)
    zero = np.zeros_like(a)
    across = np.where(np.arange(VALUES) % 2, a, 0)
    cases = {
        "Orthogonal gradients (Adasum is their sum)": (across, a - across),
        "Twice the same gradient (Adasum is that gradient)": (a, a),
        "A gradient and three times it (Adasum is their mean)": (a, 3 * a),
        "A gradient and its opposite": (a, -a),
        "0 and a gradient (Adasum is the gradient)": (zero, a),
        "A gradient and 0 (Adasum is the gradient)": (a, zero),
        "0 and 0": (zero, zero),
        "Two gradients": (a, b),
        "One of them 100 times as large": (a, 100 * b),
        "Values of 1e25, whose squares float32 does not hold": (1e25 * a, 1e25 * b),
        "Values of 1e-25, whose squares are 0 in float32": (1e-25 * a, 1e-25 * b),
        "Gradients of one value": (a[:1], b[:1]),
        "Gradients of float64": (a.astype(np.float64), b.astype(np.float64)),
    }
    for what, (first, second) in cases.items():
        largest = max(np.abs(first).max(), np.abs(second).max())
        yield Pair(what, first, second, adasum_of_two(first, second), 2e-6 * largest)


def adasum_of_two(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Adasum of two gradients, float64 (Maleki et al. 2020, "Adaptive Summation"; adasum.h)."""
    a = a.astype(np.float64)
    b = b.astype(np.float64)
    dot = a @ b
    of_a = 1 - dot / (2 * (a @ a)) if a.any() else 1
    of_b = 1 - dot / (2 * (b @ b)) if b.any() else 1
    return of_a * a + of_b * b


def adasum_of_all(of_ranks: np.ndarray, layers: Sequence[slice]) -> np.ndarray:
    """What all ranks should have: neighbours first, then pairs of pairs, each layer by itself."""
    parts = list(of_ranks)
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [np.concatenate([adasum_of_two(a[layer], b[layer]) for layer in layers]) for a, b in pairs]
    return parts[0].astype(np.float32)


class Machine:
    """What a search measures: `machine(*setting)` returns MB/s, and keeps the setting in `calls`.

    speed(setting, calls): MB/s, given the calls made so far, this one among them. best: the setting to find
    in so many `rounds`, in spite of `spite`.
    """

    SETTINGS = [(0, 1.0), (MIB, 1.0), (64 * MIB, 5.0)]  # bytes, ms

    def __init__(self, speed: Callable[[tuple, list], float], rounds: int, best: tuple, spite: str):
        self.speed = speed
        self.rounds = rounds
        self.best = best
        self.spite = spite
        self.calls: list[tuple] = []

    def __call__(self, *setting) -> float:
        first = self.SETTINGS[0]
        expect(setting in self.SETTINGS, f"measure{setting}: a setting is unpacked, as in measure{first}.")
        self.calls.append(setting)
        return self.speed(setting, self.calls)


def machines() -> list[Machine]:
    """Machines on which one run says little."""
    small, middle, large = Machine.SETTINGS

    def uneven(setting: tuple, calls: list) -> float:
        """The middle setting is best, but for its first run; the large one's last is lucky."""
        run = calls.count(setting)
        if (setting, run) == (middle, 1):
            return 1.0
        if (setting, run) == (large, 5):
            return 900.0
        return {small: 50.0, middle: 60.0, large: 20.0}[setting]

    def tiring(setting: tuple, calls: list) -> float:
        """It slows down by a tenth with each run; the large setting is best."""
        return (1 + Machine.SETTINGS.index(setting) / 2) * 0.9 ** len(calls)

    return [
        Machine(uneven, 5, middle, "one lucky run of a slow one, and one unlucky run of the best"),
        Machine(tiring, 4, large, "a machine that tires"),
    ]
