"""Training in NumPy: the gradient of a small net, and its training on virtual ranks.

The weights are a list of arrays, as of `start_weights`: for each layer a matrix (inputs, outputs) and a
bias (outputs,), with ReLU between layers. NumPy, because PyTorch would start threads for each virtual rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from labkit import data, virtual
from labkit.nets.digits import start_weights


def gradient(weights: list[np.ndarray], images: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Of the mean cross-entropy of these images, by each of the weights.

    images: (n, pixels), not below 0. labels: (n,) integers.
    """
    *inputs, logits = _forward(weights, images)
    back = np.exp(logits - logits.max(axis=1, keepdims=True))
    back /= back.sum(axis=1, keepdims=True)
    back[np.arange(len(labels)), labels] -= 1
    back /= len(labels)
    gradients: list[np.ndarray] = []
    for matrix, into in zip(weights[-2::-2], inputs[::-1], strict=True):
        gradients[:0] = [np.maximum(into, 0).T @ back, back.sum(axis=0)]
        back = (back @ matrix.T) * (into > 0)
    return gradients


def percent_right(weights: list[np.ndarray], images: np.ndarray, labels: np.ndarray) -> float:
    """Percent of these images that the net gives their labels."""
    guesses = _forward(weights, images)[-1].argmax(axis=1)
    return 100 * float(np.mean(guesses == labels))


def join(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """All arrays as one flat vector."""
    return np.concatenate([array.ravel() for array in arrays])


def cut(vector: np.ndarray, like: list[np.ndarray]) -> list[np.ndarray]:
    """Such a vector as arrays of the shapes of `like` (views)."""
    parts = np.split(vector, np.cumsum([array.size for array in like])[:-1])
    return [part.reshape(array.shape) for part, array in zip(parts, like, strict=True)]


def accuracy(
    average: Callable,
    *,
    seeds: Iterable[int] = (0,),
    epochs: int = 10,
    batch: int = 32,
    rate: float = 0.1,
    ranks: int = 4,
) -> list[float]:
    """Percent of the digits' test images that are right after training, for each seed; on virtual ranks.

    average(comm, gradient, kept) returns the flat gradient with which all ranks go on, of each rank's own.
    kept: a vector as long, 0 at first, in which a rank may keep what it needs in its next step.
    batch: images per step over all ranks. rate: of plain SGD.
    """
    cluster = virtual.Cluster(nodes=ranks)
    return [cluster.run(_train, average, seed, epochs, batch, rate).results[0] for seed in seeds]


def _train(comm, average: Callable, seed: int, epochs: int, batch: int, rate: float) -> float:
    images, labels, test_images, test_labels = data.digits()
    start = start_weights(seed)
    vector = join(start)
    weights = cut(vector, start)
    kept = np.zeros_like(vector)
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed):
            own_rows = data.shard(rows, comm.rank, comm.size)
            own = join(gradient(weights, images[own_rows], labels[own_rows]))
            vector -= rate * average(comm, own, kept)
    return percent_right(weights, test_images, test_labels)


def _forward(weights: list[np.ndarray], images: np.ndarray) -> list[np.ndarray]:
    """What goes into each layer (before its ReLU), and the logits."""
    values = [images]
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        values.append(np.maximum(values[-1], 0) @ matrix + bias)  # the images are not below 0
    return values
