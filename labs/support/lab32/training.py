"""A toy net whose gradients come one by one, trained on virtual ranks. Part of labkit.overlap."""

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
        self.parameters, self.gradients, self.rate = parameters, gradients, rate
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


class Steps(NamedTuple):
    """What a rank did. calls: Call. ready: [step][tensor] seconds at which its gradient came; forward: at

    which its layer began; ends: [step], after backward. parameters: at the end. tests: in ready or before.
    updates: calls of net.update.
    """

    calls: list
    ready: list
    forward: list
    backward_ends: list
    parameters: list
    tests: int
    updates: int


def train(comm, way, sizes, steps=1, forward=None, backward=None, rate=0.5, swapped=(), scale=1.0) -> Steps:
    """`steps` SGD steps of a toy net on (virtual) ranks; its loss is |parameters - target of rank|² / 2.

    sizes: values of each tensor. forward, backward: seconds that its layer takes, comm.compute passes them.
    swapped: ranks whose last two gradients come in the other order. scale: values that one value stands for.
    """
    free = [0.0] * len(sizes)
    forward, backward = forward or free, backward or free
    targets = targets_of(comm.rank, sizes)
    net = Net([np.zeros(n, np.float32) for n in sizes], [np.zeros(n, np.float32) for n in sizes], rate)
    watched, seen = CollectiveLog(comm, scale), Steps([], [], [], [], net.parameters, 0, 0)
    ready, finish, *before = way(watched, net)
    order = list(reversed(range(len(sizes))))
    if comm.rank in swapped:
        order[:2] = reversed(order[:2])
    tests = 0
    for _ in range(steps):
        seen.forward.append([0.0] * len(sizes))
        seen.ready.append([0.0] * len(sizes))
        for i in range(len(sizes)):
            for wait in before:
                wait(i)
            seen.forward[-1][i] = watched.clock()
            comm.compute(forward[i])
        for i in order:
            comm.compute(backward[i])
            net.gradients[i][:] = net.parameters[i] - targets[i]
            seen.ready[-1][i] = watched.clock()
            ready(i)
        tests = watched.tests
        seen.backward_ends.append(watched.clock())
        finish()
    for i in range(len(sizes)):
        for wait in before:
            wait(i)
    return seen._replace(calls=watched.calls, tests=tests, updates=net.updates)


def targets_of(rank: int, sizes: Sequence[int]) -> list[np.ndarray]:
    """Where the toy net's rank `rank` pulls: whole numbers, other ones for each rank."""
    random = np.random.default_rng([rank, len(sizes)])
    return [random.integers(-99, 99, n).astype(np.float32) for n in sizes]


def trained_alone(ranks: int, sizes: Sequence[int], steps: int, rate: float = 0.5) -> list[np.ndarray]:
    """The parameters that one process with the data of all `ranks` ranks has after `steps` steps."""
    means = [
        np.mean(all_, axis=0) for all_ in zip(*(targets_of(r, sizes) for r in range(ranks)), strict=True)
    ]
    return [mean - mean * np.float32(1 - rate) ** steps for mean in means]


def swapped(way, sizes: Sequence[int]) -> str:
    """What happens if the last two gradients come the other way round on rank 1 of 2? A sentence."""
    try:
        virtual.Cluster(2).run(train, way, sizes, swapped=[1])
    except LabError as error:
        return str(error)
    return "Both ranks made the same calls."
