"""When a bucket of gradients is complete: what PyTorch's DDP does around the averaging itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

Bucket = list[torch.nn.Parameter]


def buckets_of(net: torch.nn.Module, most_bytes: int) -> list[Bucket]:
    """The net's parameters from last to first, in buckets of at most `most_bytes`, each of one or more.

    From last to first, as the way back computes their gradients.
    """
    buckets: list[Bucket] = []
    room = 0
    for weights in reversed(list(net.parameters())):
        if weights.nbytes > room or not buckets:
            buckets.append([])
            room = most_bytes
        buckets[-1].append(weights)
        room -= weights.nbytes
    return buckets


def attach(buckets: Sequence[Bucket], start: Callable, finish: Callable) -> Callable[[], None]:
    """Call start(bucket) when the last gradient of a bucket is there, in every step.

    Returns a function for the end of the way back: it calls finish(bucket, started) for each bucket, where
    `started` is what start gave for it. Every parameter must get a gradient in every step.
    """
    missing = [len(bucket) for bucket in buckets]
    started: list[tuple[int, object]] = []

    def arrived(number: int, weights: torch.nn.Parameter) -> None:
        missing[number] -= 1
        if missing[number] == 0:
            started.append((number, start(buckets[number])))

    for number, bucket in enumerate(buckets):
        for weights in bucket:
            weights.register_post_accumulate_grad_hook(partial(arrived, number))

    def end_of_step() -> None:
        for number, result in started:
            finish(buckets[number], result)
        started.clear()
        missing[:] = [len(bucket) for bucket in buckets]

    return end_of_step
