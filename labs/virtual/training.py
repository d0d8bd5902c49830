"""The digits' net trained on virtual ranks, with an exchange of gradients of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from labkit import data, nets

from virtual.cluster import Cluster


def accuracy(
    average: Callable,
    *,
    seeds: Iterable[int] = (0,),
    epochs: int = 10,
    batch: int = 32,
    rate: float = 0.1,
    ranks: int = 4,
) -> list[float]:
    """Percent of the digits' test images that are right after training, for each seed.

    average(comm, gradient, kept) returns the flat gradient with which all ranks go on, of each
    rank's own. kept: a vector as long, 0 at first, in which a rank may keep what it needs in its
    next step. batch: images per step over all ranks. rate: of plain SGD.
    """
    cluster = Cluster(nodes=ranks)
    return [cluster.run(_train, average, seed, epochs, batch, rate).results[0] for seed in seeds]


def _train(comm, average: Callable, seed: int, epochs: int, batch: int, rate: float) -> float:
    images, labels, test_images, test_labels = data.digits()
    start = nets.start_weights(seed)
    vector = nets.join(start)
    weights = nets.cut(vector, start)
    kept = np.zeros_like(vector)
    for epoch in range(epochs):
        for rows in data.batches(len(images), batch, epoch, seed):
            own_rows = data.shard(rows, comm.rank, comm.size)
            own = nets.join(nets.gradient(weights, images[own_rows], labels[own_rows]))
            vector -= rate * average(comm, own, kept)
    return nets.percent_right(weights, test_images, test_labels)
