"""A net that large batches are hard for, and its training in NumPy.

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
from labkit import data, nets
from labkit.errors import LabError
from threadpoolctl import threadpool_limits

SIZES = (64, 64, 64, 64, 64, 10)  # units per layer, input first: 17,290 parameters, no normalisation


class Trained(NamedTuple):
    """One training: % of the test images right at its end, and epochs until `goal` % were (None: never)."""

    right: float
    epochs_to_goal: float | None


def start_weights(seed: int = 0) -> list[np.ndarray]:
    """[W1 (64, 64), b1 (64,), …], float32, as `nets.start_weights` draws them."""
    return nets.start_weights(seed, SIZES)


def fresh_state(weights: list[np.ndarray]) -> SimpleNamespace:
    """What an update may remember, before the first step."""
    return SimpleNamespace(t=0, m=[0 * w for w in weights], v=[0 * w for w in weights])


@cache
def digits() -> data.Dataset:
    """data.digits(), read once."""
    return data.digits()


@cache
def train(update: Callable, rates: tuple, batch: int, epochs: int, seed: int, goal: float) -> Trained:
    """Train on the digits, one rate a step; the same call twice trains once. goal: % of the test images.

    The test images are looked at four times an epoch (after each step, where there are fewer).
    """
    images, labels, test_images, test_labels = digits()
    weights = start_weights(seed)
    state = fresh_state(weights)
    reached = None
    order = [rows for epoch in range(epochs) for rows in data.batches(len(images), batch, epoch, seed)]
    per_epoch = len(order) // epochs
    right = 0.0
    # A rate that is too high ends in inf. Products as small as these gain nothing from a second thread.
    with np.errstate(all="ignore"), threadpool_limits(1):
        for state.t, (rows, rate) in enumerate(zip(order, rates, strict=True), start=1):
            update(weights, nets.gradient(weights, images[rows], labels[rows]), state, rate)
            if state.t % max(1, per_epoch // 4) == 0 or state.t == len(order):
                right = nets.percent_right(weights, test_images, test_labels)
                if reached is None and right >= goal:
                    reached = state.t / per_epoch
                if not np.isfinite(weights[-1]).all():
                    break
    return Trained(right, reached)


def sweep(ways: Mapping, batches: Iterable[int], seeds: Iterable[int], epochs: int, goal: float) -> dict:
    """way -> {batch: [a Trained for each seed]}. ways: name -> (update, rate(step, batch))."""
    batches = list(batches)
    seeds = list(seeds)
    if not batches or not all(1 <= batch <= data.TRAIN_IMAGES for batch in batches):
        raise LabError(f"batches must be some numbers from 1 to {data.TRAIN_IMAGES}, not {batches}.")
    if epochs < 1:
        raise LabError(f"epochs must be at least 1, not {epochs}.")
    if not seeds:
        raise LabError("seeds must hold one number or more: there is a training for each.")
    trained: dict = {}
    for name, (update, rate) in ways.items():
        trained[name] = {}
        for batch in batches:
            total = epochs * (data.TRAIN_IMAGES // batch)
            rates = tuple(float(rate(step, batch)) for step in range(total))
            trained[name][batch] = [train(update, rates, batch, epochs, seed, goal) for seed in seeds]
    return trained
