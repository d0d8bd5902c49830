"""What lab 13's checks look at: a step on ten images and virtual ranks, and what bound ranks report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from labkit import nets, virtual
from labkit.counting import CallLog

from support.lab13.cases import digits, part_of

IMAGES = 10
LEFT_OVER = 1.0  # in .grad before the step, as of a step before


@dataclass
class TrialStep:
    """What the ranks have after a step: by rank the gradient in one vector, and what it did on its way."""

    gradients: list[np.ndarray]
    moved: list[bool]
    calls: list[list[str]]  # the names of a rank's calls of MPI
    right: np.ndarray  # gradient of the mean loss of all images
    own: list[np.ndarray]  # by rank, of the sum of its losses over all images

    def wrong(self, rank: int) -> dict[str, np.ndarray]:
        """Mistake -> the gradient that it leaves on this rank."""
        ranks = len(self.own)
        parts = [len(part_of(IMAGES, ranks, number)) for number in range(ranks)]
        means = [own * IMAGES / part for own, part in zip(self.own, parts, strict=True)]
        stale = "gradients of the step before are still in it. Set them to 0 first"
        return {
            "this is only this rank's own gradient": self.own[rank],
            stale: self.right + LEFT_OVER,
            f"{stale} (on each rank)": self.right + ranks * LEFT_OVER,
            "this is the gradient of the sum over the images. Take the mean": IMAGES * self.right,
            f"this is {ranks} times the right gradient. Divide once, by `batch`": ranks * self.right,
            f"this is {1 / ranks:.3g} times the right gradient. Divide once, by `batch`": self.right / ranks,
            "this is a tenth of the right gradient. A mean is divided already": self.right / IMAGES,
            "this is a mean of means of unequal parts. Sum losses, divide by `batch`": sum(means) / ranks,
        }


def ten_images(step: Callable, ranks: int) -> TrialStep:
    """step(comm, net, images, labels, batch) on ten of the digits' images and so many virtual ranks."""
    images, labels = digits(IMAGES)
    results = virtual.Cluster(nodes=ranks).run(partial(_try_step, step)).results
    own = [_gradient_of(part_of(IMAGES, ranks, rank), images, labels) for rank in range(ranks)]
    gradients, moved, calls = zip(*results, strict=True)
    right = _gradient_of(np.arange(IMAGES), images, labels)
    return TrialStep(list(gradients), list(moved), list(calls), right, own)


def _try_step(step: Callable, comm) -> tuple[np.ndarray, bool, list[str]]:
    import torch

    images, labels = digits(IMAGES)
    own = part_of(IMAGES, comm.size, comm.rank)
    net = nets.torch_digits()
    for weight in net.parameters():
        weight.grad = torch.full_like(weight, LEFT_OVER)
    before = [weight.detach().clone() for weight in net.parameters()]
    log = CallLog(comm)
    step(log, net, images[own], labels[own], IMAGES)
    moved = any(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))
    return _gradient(net), moved, log.calls


def _gradient_of(part: np.ndarray, images, labels) -> np.ndarray:
    """What a rank with these images has alone: the sum of its losses, divided by all images."""
    import torch

    net = nets.torch_digits()
    loss = torch.nn.functional.cross_entropy(net(images[part]), labels[part], reduction="sum")
    (loss / len(images)).backward()
    return _gradient(net)


def _gradient(net) -> np.ndarray:
    parts = [weight.grad.numpy().ravel() for weight in net.parameters() if weight.grad is not None]
    return np.concatenate(parts) if parts else np.empty(0)


def shares_by_host(reports: list[dict]) -> dict[str, list[list[int]]]:
    """Host -> the cores of each of its ranks. reports: by rank, of `ways`."""
    shares: dict[str, list[list[int]]] = {}
    for report in reports:
        shares.setdefault(report["host"], []).append(report["cores"])
    return shares
