"""The order in which all ranks read their samples: the same on every rank, without a message."""

from __future__ import annotations

import numpy as np

from labkit.errors import LabError


def batches(n: int, batch: int, epoch: int, seed: int = 0) -> list[np.ndarray]:
    """The global batches of one epoch: index arrays of length `batch` into n samples, freshly
    shuffled.

    The order depends on (seed, epoch) alone, so every rank computes the same list without a
    message. What does not fill a batch is left out of this epoch: all steps then have the same size
    on all ranks.
    """
    if not 0 < batch <= n:
        raise LabError(f"batch must be between 1 and the {n} samples there are, but it is {batch}.")
    order = np.random.default_rng((seed, epoch)).permutation(n)
    return [order[start : start + batch] for start in range(0, n - batch + 1, batch)]


def shard(indices: np.ndarray, rank: int, size: int) -> np.ndarray:
    """The part of a global batch that belongs to `rank`: every size-th index, beginning with the
    rank-th."""
    if not 0 <= rank < size:
        raise LabError(f"rank must be in 0..{size - 1} for {size} ranks, but it is {rank}.")
    return indices[rank::size]
