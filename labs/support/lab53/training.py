"""The digits' net, trained by ranks that are not all waited for, or that average only now and then."""

from __future__ import annotations

import numpy as np
from labkit import data, nets

BATCH = 8  # images of a rank in a step
RATE = 0.1


def train(used: np.ndarray, *, every: int = 1, own_digits: bool = False, seed: int = 0) -> np.ndarray:
    """Percent of the test images of each digit that are right after training: (10,).

    used: (steps, ranks), whether a rank's gradient was in time; all True for local SGD.
    every: so many steps of plain SGD each rank takes on its own, then the weights of all are averaged.
    own_digits: rank r reads only images of digit r modulo 10; else each rank reads of all.
    """
    images, labels, test_images, test_labels = data.digits()
    steps, ranks = used.shape
    rng = np.random.default_rng(seed)
    start = nets.start_weights(seed)
    shards = _shards(labels, ranks, own_digits, rng)
    vectors = np.stack([nets.join(start)] * (ranks if every > 1 else 1))
    for step in range(steps):
        batches = [rng.choice(shard, BATCH) for shard in shards]
        if every == 1:
            batches = [np.concatenate([batches[rank] for rank in np.flatnonzero(used[step])])]
        for vector, rows in zip(vectors, batches, strict=True):
            vector -= RATE * nets.join(nets.gradient(nets.cut(vector, start), images[rows], labels[rows]))
        if (step + 1) % every == 0:
            vectors[:] = vectors.mean(axis=0)
    weights = nets.cut(vectors.mean(axis=0), start)
    shown = [test_labels == digit for digit in range(10)]
    return np.array([nets.percent_right(weights, test_images[rows], test_labels[rows]) for rows in shown])


def _shards(labels: np.ndarray, ranks: int, own_digits: bool, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of the training images that each rank reads."""
    if own_digits:
        return [np.flatnonzero(labels == rank % 10) for rank in range(ranks)]
    return np.array_split(rng.permutation(len(labels)), ranks)
