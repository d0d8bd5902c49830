"""A net that large batches are hard for, its training in NumPy, and what steps would take on GPUs. Lab 34.

An update(weights, gradients, state, rate) moves a list of arrays in place: matrices (inputs, outputs) and
biases in turn. Its state has t, the step's number 1, 2, …, and lists m and v of arrays like the weights, 0 at
the start. A way to train is a pair: such an update, and rate(step, batch) with steps 0, 1, ….
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from labkit import data
from labkit.errors import LabError
from threadpoolctl import threadpool_limits

SIZES = (64, 64, 64, 64, 64, 10)  # units per layer, input first: 17,290 parameters, no normalisation


class Trained(NamedTuple):
    """One training: % of the test images right at its end, and epochs until `goal` % were (None: never)."""

    right: float
    epochs_to_goal: float | None


def start_weights(seed: int = 0) -> list[np.ndarray]:
    """[W1 (64, 64), b1 (64,), …], float32: normal with variance 2 / inputs (He et al. 2015), biases 0."""
    rng, weights = np.random.default_rng(seed), []
    for inputs, outputs in zip(SIZES, SIZES[1:], strict=False):
        weights.append((rng.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)).astype(np.float32))
        weights.append(np.zeros(outputs, np.float32))
    return weights


def fresh_state(weights: list[np.ndarray]) -> SimpleNamespace:
    """What an update may remember, before the first step."""
    return SimpleNamespace(t=0, m=[0 * one for one in weights], v=[0 * one for one in weights])


def join(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """All arrays as one flat vector."""
    return np.concatenate([one.ravel() for one in arrays])


def cut(vector: np.ndarray, like: list[np.ndarray]) -> list[np.ndarray]:
    """Such a vector as arrays of the shapes of `like` (views)."""
    parts = np.split(vector, np.cumsum([one.size for one in like])[:-1])
    return [part.reshape(one.shape) for part, one in zip(parts, like, strict=True)]


def _forward(weights, images) -> list[np.ndarray]:
    """What goes into each layer (before its ReLU), and the logits."""
    values = [images]
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        values.append(np.maximum(values[-1], 0) @ matrix + bias)  # the images are not below 0
    return values


def gradient(weights: list[np.ndarray], images: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Of the mean cross-entropy of these images, by each of the weights."""
    *inputs, logits = _forward(weights, images)
    back = np.exp(logits - logits.max(axis=1, keepdims=True))
    back /= back.sum(axis=1, keepdims=True)
    back[np.arange(len(labels)), labels] -= 1
    back /= len(labels)
    found: list[np.ndarray] = []
    for matrix, into in zip(weights[-2::-2], inputs[::-1], strict=True):
        found[:0] = [np.maximum(into, 0).T @ back, back.sum(axis=0)]
        back = (back @ matrix.T) * (into > 0)
    return found


@cache
def digits() -> data.Dataset:
    """data.digits(), read once."""
    return data.digits()


@cache
def train(update: Callable, rates: tuple, batch: int, epochs: int, seed: int, goal: float) -> Trained:
    """Train on the digits, one rate a step; the same call twice trains once. goal: % of the test images.

    The test images are looked at four times an epoch (after each step, where there are fewer).
    """
    images, labels, *_ = digits()
    weights = start_weights(seed)
    state, reached = fresh_state(weights), None
    order = [rows for epoch in range(epochs) for rows in data.batches(len(images), batch, epoch, seed)]
    per_epoch = len(order) // epochs
    right = 0.0
    # A rate that is too high ends in inf. Products as small as these gain nothing from a second thread.
    with np.errstate(all="ignore"), threadpool_limits(1):
        for state.t, (rows, rate) in enumerate(zip(order, rates, strict=True), start=1):
            update(weights, gradient(weights, images[rows], labels[rows]), state, rate)
            if state.t % max(1, per_epoch // 4) == 0 or state.t == len(order):
                right = _percent_right(weights)
                if reached is None and right >= goal:
                    reached = state.t / per_epoch
                if not np.isfinite(weights[-1]).all():
                    break
    return Trained(right, reached)


def _percent_right(weights) -> float:
    guesses = _forward(weights, digits().test_x)[-1].argmax(axis=1)
    return 100 * float(np.mean(guesses == digits().test_y))


def sweep(ways: Mapping, batches: Iterable[int], seeds: Iterable[int], epochs: int, goal: float) -> dict:
    """way -> {batch: [a Trained for each seed]}. ways: name -> (update, rate(step, batch))."""
    batches, seeds = list(batches), list(seeds)
    if not batches or not all(1 <= batch <= data.TRAIN_IMAGES for batch in batches):
        raise LabError(f"batches must be some numbers from 1 to {data.TRAIN_IMAGES}, not {batches}.")
    if epochs < 1:
        raise LabError(f"epochs must be at least 1, not {epochs}.")
    if not seeds:
        raise LabError("seeds must hold one number or more: there is a training for each.")
    found: dict = {}
    for name, (update, rate) in ways.items():
        found[name] = {}
        for batch in batches:
            total = epochs * (data.TRAIN_IMAGES // batch)
            rates = tuple(float(rate(step, batch)) for step in range(total))
            found[name][batch] = [train(update, rates, batch, epochs, seed, goal) for seed in seeds]
    return found
