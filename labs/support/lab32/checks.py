"""What the check cells of lab 32 look at: a toy net's steps, the buckets of its sums, what hooks are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from labkit import nets, virtual
from labkit.counting import Call

from support.lab32.training import Steps, train

SIZES = (3000, 10, 5000, 700, 1, 2500)  # values of the tensors of a toy net
SECONDS = 1e-3  # of each of its layers, forward and backward
AFTER_FIRST_MS = 1e3 * SECONDS * (len(SIZES) - 1)  # of backward after the first gradient, without messages


class Told(NamedTuple):
    """A call of ready. i: what it was given; early: before backward began; there: the gradient is there."""

    i: object
    early: bool
    there: bool


def told_by_hooks(watch: Callable) -> list[Told]:
    """The calls of ready that watch(module, ready) brings about, in one backward pass of the digits' net."""
    import torch

    module = nets.torch_digits()
    weights = list(module.parameters())
    calls: list[Told] = []
    early = True

    def ready(i) -> None:
        there = isinstance(i, int) and weights[i].grad is not None
        calls.append(Told(i, early, there))

    watch(module, ready)
    loss = module(torch.ones(8, 64)).square().sum()
    early = False
    loss.backward()
    return calls


def one_step(way: Callable, ranks: int = 4, steps: int = 1, machine=None) -> Steps:
    """What the last rank saw of steps of the toy net on virtual ranks, 1 ms a layer."""
    times = [SECONDS] * len(SIZES)
    run = virtual.Cluster(ranks, machine=machine).run(train, way, SIZES, steps, times, times)
    return run.results[-1]


def planned(nbytes: float, most: int) -> list[list[int]]:
    """The buckets, each closed as soon as it holds `nbytes` or `most` tensors; the last may hold less."""
    buckets: list[list[int]] = [[]]
    for i in reversed(range(len(SIZES))):
        held = 4 * sum(SIZES[j] for j in buckets[-1])
        if buckets[-1] and (held >= nbytes or len(buckets[-1]) >= most):
            buckets.append([])
        buckets[-1].append(i)
    return buckets


EACH_ALONE = planned(1, 1)
ALL_TOGETHER = planned(1e9, len(SIZES))


def backward_ms(seen: Steps) -> list[float]:
    """How long each step's backward took after its first gradient."""
    return [1e3 * (end - ready[-1]) for ready, end in zip(seen.ready, seen.backward_ends, strict=True)]


class Begun(NamedTuple):
    """A sum. there: ms after the start at which its gradients (bucket) had come; at: ms when it began."""

    bucket: list[int]
    there: float
    at: float

    @property
    def in_time(self) -> bool:
        return self.at < self.there + 1e-6


def begun(seen: Steps, sums: Sequence[Call], buckets: list[list[int]], late: bool = False) -> list[Begun]:
    """When each sum of each step began. late: the last one of a step has time until backward is over."""
    starts = []
    for place, call in enumerate(sums):
        step, number = divmod(place, len(buckets))
        bucket = buckets[number]
        there = max(seen.ready[step][i] for i in bucket)
        if late and number == len(buckets) - 1:
            there = seen.backward_ends[step]
        starts.append(Begun(bucket, 1e3 * there, 1e3 * call.begin))
    return starts
