"""Adasum on virtual ranks: trainings and steps beside sum and mean; numbers of ranks that it must refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from labkit import data, nets, virtual
from labkit.errors import CheckFailed, LabError

from support.lab45.cases import LAYERS, gradients

OF_NODES = "Adasum, nodes of 4"


def accuracies(adasum: Callable, sizes, rate: float, seeds, epochs: int) -> dict[str, dict[int, list[float]]]:
    """Way of adding gradients -> virtual ranks -> % of the digits' test images right, for each seed.

    Each rank takes 16 images a step; rate: of plain SGD, the same for any number of ranks. OF_NODES is what
    Horovod does with GPUs in a build with NCCL: the mean of each node's four ranks, and Adasum of the nodes.
    """

    def add(comm, gradient, kept):
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        return total

    def mean(comm, gradient, kept):
        return add(comm, gradient, kept) / comm.size

    def layer_by_layer(comm, gradient, kept):
        return adasum(comm, gradient, LAYERS)

    def nodes_of_four(comm, gradient, kept):
        inside = comm.Split(comm.rank // 4, comm.rank)
        across = comm.Split(inside.rank, comm.rank)
        return layer_by_layer(across, mean(inside, gradient, kept), kept)

    powers = [p for p in sizes if not p & (p - 1)]
    right: dict = {}
    with np.errstate(all="ignore"):  # where training diverges, numbers overflow
        ways = {"sum": add, "mean": mean, "Adasum": layer_by_layer, OF_NODES: nodes_of_four}
        for way, average in ways.items():
            right[way] = {
                p: nets.accuracy(average, seeds=seeds, epochs=epochs, batch=16 * p, rate=rate, ranks=p)
                for p in powers
            }
    return right


def first_steps(adasum: Callable, ranks: int, seeds) -> dict[str, list[float]]:
    """How long the first step of the digits' net is by each way of adding, over the mean's: for each seed.

    Each of so many virtual ranks takes 16 images.
    """
    lengths: dict[str, list[float]] = {"sum": [], "Adasum": []}
    for seed in seeds:
        by_sum, by_mean, by_adasum = virtual.Cluster(ranks).run(_first_step, adasum, seed).results[0]
        lengths["sum"].append(round(by_sum / by_mean, 1))
        lengths["Adasum"].append(round(by_adasum / by_mean, 1))
    return lengths


def _first_step(comm, adasum: Callable, seed: int) -> tuple[float, float, float]:
    images, labels, _, _ = data.digits()
    rows = next(iter(data.batches(len(images), 16 * comm.size, 0, seed)))
    own_rows = data.shard(rows, comm.rank, comm.size)
    own = nets.join(nets.gradient(nets.start_weights(seed), images[own_rows], labels[own_rows]))
    total = np.empty_like(own)
    comm.Allreduce(own, total)
    steps = (total, total / comm.size, adasum(comm, own, LAYERS))
    by_sum, by_mean, by_adasum = (float(np.linalg.norm(step)) for step in steps)
    return by_sum, by_mean, by_adasum


def refusals(adasum: Callable, p: int) -> virtual.Run:
    """A run on p ranks, no power of two. Its results: the text of each rank's ValueError, "" without one."""
    try:
        return virtual.Cluster(nodes=p).run(_refusal, adasum, gradients(p, 8))
    except LabError as error:
        raise CheckFailed(f"With {p} ranks, not a power of two: no ValueError, but {error}") from None


def _refusal(comm, adasum: Callable, of_ranks: np.ndarray) -> str:
    try:
        adasum(comm, of_ranks[comm.rank].copy(), [slice(0, 8)])
    except ValueError as error:
        return str(error)
    return ""
