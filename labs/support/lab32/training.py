"""A toy net whose gradients come one by one, trained on virtual ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from labkit import virtual
from labkit.counting import CollectiveLog
from labkit.errors import LabError


class Net:
    """parameters, gradients: lists of flat float32 arrays, one a tensor. rate: of plain SGD."""

    def __init__(self, parameters: list[np.ndarray], gradients: list[np.ndarray], rate: float):
        self.parameters = parameters
        self.gradients = gradients
        self.rate = rate
        self.updates = 0  # calls of update so far

    @property
    def numbers(self) -> range:
        """0, 1, …: the tensors' numbers, in forward order."""
        return range(len(self.parameters))

    def join(self, numbers: Sequence[int]) -> np.ndarray:
        """The gradients of these tensors, one behind the other in a new array."""
        return np.concatenate([self.gradients[i] for i in numbers])

    def cut(self, vector: np.ndarray, numbers: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        """What `join` of the same numbers put together: [(number of the tensor, its piece of vector)]."""
        if not numbers:
            raise LabError(
                "net.cut: no tensors. Was the list cleared after the sum began? Keep a copy of it."
            )
        ends = np.cumsum([len(self.gradients[i]) for i in numbers])
        if len(vector) != ends[-1]:
            raise LabError(f"net.cut: tensors {list(numbers)} have {ends[-1]} values, not {len(vector)}.")
        return list(zip(numbers, np.split(vector, ends[:-1]), strict=True))

    def update(self, i: int, mean) -> None:
        """One SGD step of tensor i with the mean gradient: parameters[i] -= rate * mean."""
        self.updates += 1
        mean = np.asarray(mean)
        if mean.shape != self.parameters[i].shape:
            raise LabError(
                f"net.update({i}, …): tensor {i} has {self.parameters[i].size} values, and its mean gradient "
                f"has shape {mean.shape}."
            )
        self.parameters[i] -= np.float32(self.rate) * mean


def functions_of(way, comm, net: Net) -> tuple:
    """(ready, finish, a list of before: empty if there is none) that way(comm, net) returns."""
    returned = way(comm, net)
    if not isinstance(returned, tuple) or len(returned) not in (2, 3) or not all(map(callable, returned)):
        name = getattr(way, "__name__", getattr(getattr(way, "func", None), "__name__", "The way"))
        got = "nothing" if returned is None else f"{type(returned).__name__}"
        raise LabError(f"{name}(comm, net) returns {got}; it should end with `return ready, finish`.")
    ready, finish, *before = returned
    return ready, finish, before


class Steps(NamedTuple):
    """What a rank did. calls: its collectives, each a labkit.counting.Call.

    ready, forward: [step][tensor] seconds at which a gradient came, and at which its layer began.
    backward_ends: [step] seconds. parameters: at the end. updates: calls of net.update.
    """

    calls: list
    ready: list
    forward: list
    backward_ends: list
    parameters: list
    updates: int


def train(comm, way, sizes, steps=1, forward=None, backward=None, rate=0.5, swapped=(), scale=1.0) -> Steps:
    """`steps` SGD steps of a toy net on (virtual) ranks; its loss is |parameters - target of rank|² / 2.

    sizes: values of each tensor. forward, backward: seconds that its layer takes, comm.compute passes them.
    swapped: ranks whose last two gradients come in the other order. scale: values that one value stands for.
    """
    free = [0.0] * len(sizes)
    forward = forward or free
    backward = backward or free
    targets = targets_of(comm.rank, sizes)
    net = Net([np.zeros(n, np.float32) for n in sizes], [np.zeros(n, np.float32) for n in sizes], rate)
    log = CollectiveLog(comm, scale)
    seen = Steps([], [], [], [], net.parameters, 0)
    ready, finish, before = functions_of(way, log, net)
    order = list(reversed(range(len(sizes))))
    if comm.rank in swapped:
        order[:2] = reversed(order[:2])
    for _ in range(steps):
        seen.forward.append([0.0] * len(sizes))
        seen.ready.append([0.0] * len(sizes))
        for i in range(len(sizes)):
            for wait in before:
                wait(i)
            seen.forward[-1][i] = log.clock()
            comm.compute(forward[i])
        for i in order:
            comm.compute(backward[i])
            net.gradients[i][:] = net.parameters[i] - targets[i]
            seen.ready[-1][i] = log.clock()
            ready(i)
        seen.backward_ends.append(log.clock())
        finish()
    for i in range(len(sizes)):
        for wait in before:
            wait(i)
    return seen._replace(calls=log.calls, updates=net.updates)


def targets_of(rank: int, sizes: Sequence[int]) -> list[np.ndarray]:
    """Where the toy net's rank `rank` pulls: whole numbers, other ones for each rank."""
    random = np.random.default_rng([rank, len(sizes)])
    return [random.integers(-99, 99, n).astype(np.float32) for n in sizes]


def trained_alone(ranks: int, sizes: Sequence[int], steps: int, rate: float = 0.5) -> list[np.ndarray]:
    """The parameters that one process with the data of all `ranks` ranks has after `steps` steps."""
    targets = [targets_of(rank, sizes) for rank in range(ranks)]
    means = [np.mean(of_ranks, axis=0) for of_ranks in zip(*targets, strict=True)]
    return [mean - mean * np.float32(1 - rate) ** steps for mean in means]


def swapped(way, sizes: Sequence[int]) -> str:
    """What happens if the last two gradients come the other way round on rank 1 of 2? A sentence."""
    try:
        virtual.Cluster(2).run(train, way, sizes, swapped=[1])
    except LabError as error:
        return str(error)
    return "Both ranks made the same calls."
