"""Ways to sum gradients on real ranks: PyTorch's nets trained in them."""

from __future__ import annotations

import numpy as np
from labkit import data, nets, placement
from labkit.counting import CollectiveLog

from support.lab32.staging import Arrays
from support.lab32.training import Net, functions_of


def torch_step(comm, way, module, watch, rate: float, staged: bool | None = None):
    """A PyTorch net trained in `way`. Returns step(inputs, labels) -> loss, and settle().

    watch(module, ready): makes PyTorch call ready(i) when parameter i has its gradient. settle: waits until
    the net's parameters are there to be read. The arrays of `net` are the module's own memory, without a
    copy; those of a module on a GPU are copied to and fro. staged: as for staging.Arrays.
    """
    from torch.nn import functional

    arrays = Arrays(module, staged)
    net = Net(arrays.parameters, arrays.gradients, rate)
    ready, finish, before = functions_of(way, CollectiveLog(comm), net)
    weights = list(module.parameters())
    number = {id(weight): i for i, weight in enumerate(weights)}

    def bring_and_tell(i) -> None:
        arrays.bring(i)
        ready(i)

    def wait_for(part) -> None:
        for weight in part.parameters(recurse=False):
            i = number[id(weight)]
            for wait in before:
                wait(i)
            arrays.take(i)

    watch(module, bring_and_tell)
    if before or arrays.staged:
        for part in module.modules():
            part.register_forward_pre_hook(lambda part, inputs: wait_for(part))

    def step(inputs, labels) -> float:
        module.zero_grad(set_to_none=False)  # zeros in place: the gradients' memory stays
        loss = functional.cross_entropy(module(inputs), labels)
        loss.backward()
        finish()
        return loss.item()

    def settle() -> None:
        for part in module.modules():
            wait_for(part)

    return step, settle


def train_digits(comm, way, watch, steps: int, batch: int, staged: bool | None = None) -> list[np.ndarray]:
    """Steps of lab 30's training in this way, on lab 30's net. Returns this rank's parameters at the end.

    batch: images of all ranks together. staged: as for staging.Arrays.
    """
    device = placement.through_numpy().device
    module = nets.torch_digits(nets.start_weights(seed=0)).to(device)
    training = _digits(device)
    step, settle = torch_step(comm, way, module, watch, rate=0.2, staged=staged)
    for rows in data.batches(len(training[0]), batch, epoch=0)[:steps]:
        own = rows[comm.rank :: comm.size]
        step(*(part[own] for part in training))
    settle()
    return [weight.detach().cpu().numpy().copy() for weight in module.parameters()]


def train_digits_alone(steps: int, batch: int) -> list[np.ndarray]:
    """The same in one process, in plain PyTorch."""
    import torch

    module = nets.torch_digits(nets.start_weights(seed=0))
    images, labels = _digits("cpu")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    for rows in data.batches(len(images), batch, epoch=0)[:steps]:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(images[rows]), labels[rows]).backward()
        optimizer.step()
    return [weight.detach().numpy() for weight in module.parameters()]


def _digits(device: str) -> list:
    import torch

    return [torch.tensor(part, device=device) for part in data.digits()[:2]]
