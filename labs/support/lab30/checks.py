"""What the checks of lab 30 see of the learner's functions on a rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from labkit import nets, world
from labkit.checks import expect
from labkit.counting import CallLog


class Started(NamedTuple):
    """A rank's weights by name, flat: its own at first, rank 0's at first, and those after `start_equal`."""

    own: dict[str, np.ndarray]
    of_rank_0: dict[str, np.ndarray]
    after: dict[str, np.ndarray]


def started(comm, start_equal: Callable) -> Started:
    """What start_equal(comm, net) makes of nets whose weights and biases differ from rank to rank."""
    import torch

    net = nets.torch_digits(nets.start_weights(seed=comm.rank)).to(world.device())
    with torch.no_grad():
        for weight in net.parameters():
            weight += 0.1 * (comm.rank + 1)  # biases differ, too; and no seed draws rank 0's
    own = _by_name(net)
    of_rank_0 = comm.bcast(own, root=0)
    start_equal(comm, net)
    return Started(own, of_rank_0, _by_name(net))


def expect_average(comm, average: Callable) -> list[str]:
    """Fail unless average(comm, net) leaves the mean in all gradients. Returns the calls of MPI it made."""
    import torch

    net = nets.torch_digits().to(world.device())
    for weight in net.parameters():
        draw = torch.Generator().manual_seed(comm.rank)
        weight.grad = torch.rand(weight.shape, generator=draw).to(weight)
    own = {name: _flat(weight.grad) for name, weight in net.named_parameters()}
    before = _by_name(net)
    log = CallLog(comm)
    average(log, net)
    for name, weight in net.named_parameters():
        total = sum(comm.allgather(own[name]))
        slips = {
            "this is the sum, not the mean": total,
            f"the gradient of {name} is still this rank's own": own[name],
        }
        what = f"{comm.size} ranks, rank {comm.rank}, gradient of {name}"
        expect.close(_flat(weight.grad), total / comm.size, what, slips=slips)
        expect.unchanged(before[name], _flat(weight), f"{comm.size} ranks: the weight {name} itself")
    return log.calls


class Seen(NamedTuple):
    """A training on a rank, and what was seen whenever the gradients were about to be averaged.

    losses: of every step, as the learner's function returns them. weights: at the end, flat.
    averages: calls of average. missing: of these, how often there were no gradients.
    images: images that went through the net between two calls. moved: have the weights moved since the start,
    at the second call? gradient: the flat gradient at the first call. apart: [call] distance of the
    weights to rank 0's.
    """

    losses: list
    weights: np.ndarray
    averages: int
    missing: int
    images: list[int]
    moved: bool
    gradient: np.ndarray
    apart: np.ndarray


def watched(comm, train: Callable, average: Callable, **options) -> Seen:
    """train(comm, average=…, **options), watched. `average` is called as the learner's function calls it."""
    apart: list[float] = []
    images: list[int] = []
    through = [0]
    missing = [0]
    gradients: list[np.ndarray] = []
    weights_seen: list[np.ndarray] = []

    def count_images(net, inputs) -> None:
        through[0] += len(inputs[0])

    def watch(comm, net) -> None:
        if not apart:
            net.register_forward_pre_hook(count_images)
        else:
            images.append(through[0])
        through[0] = 0
        weights = _flat(*net.parameters())
        # Across ranks: rank 0's weights, to compare with.
        of_rank_0 = comm.bcast(weights, root=0)
        apart.append(float(np.linalg.norm(weights - of_rank_0)))
        if len(weights_seen) < 2:
            weights_seen.append(weights)
        if any(weight.grad is None for weight in net.parameters()):
            missing[0] += 1
            return
        if not gradients:
            gradients.append(_flat(*(weight.grad for weight in net.parameters())))
        average(comm, net)

    losses, weights = train(comm, average=watch, **options)
    moved = len(weights_seen) < 2 or not np.array_equal(*weights_seen)
    gradient = gradients[0] if gradients else np.zeros(0, np.float32)
    return Seen(losses, weights, len(apart), missing[0], images, moved, gradient, np.array(apart))


def _by_name(net) -> dict[str, np.ndarray]:
    return {name: _flat(weight) for name, weight in net.named_parameters()}


def _flat(*tensors) -> np.ndarray:
    """The numbers of tensors in one array, copied."""
    return np.concatenate([tensor.detach().cpu().numpy().ravel() for tensor in tensors])
