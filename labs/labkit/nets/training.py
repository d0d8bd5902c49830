"""Training in NumPy: the gradient of a small net, for virtual ranks.

The weights are a list of arrays, as of `start_weights`: for each layer a matrix (inputs, outputs)
and a bias (outputs,), with ReLU between layers. NumPy, because PyTorch would start threads for each
virtual rank.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


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


def _forward(weights: list[np.ndarray], images: np.ndarray) -> list[np.ndarray]:
    """What goes into each layer (before its ReLU), and the logits."""
    values = [images]
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        values.append(np.maximum(values[-1], 0) @ matrix + bias)  # the images are not below 0
    return values
