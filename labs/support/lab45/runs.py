"""Adasum on virtual ranks: trainings beside sum and mean, and numbers of ranks that it must refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from labkit import nets, virtual
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
