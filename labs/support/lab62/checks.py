"""Forward and backward passes over stages, tried on real ranks and held against one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from labkit import nets
from labkit.counting import CallLog
from labkit.errors import LabError
from torch.nn import functional

WIDTHS = (12, 9, 16, 7, 11, 5)  # of the net of the trials: every block has another shape
EDGES = {1: (0, 5), 2: (0, 2, 5), 3: (0, 2, 4, 5), 4: (0, 1, 2, 4, 5), 5: (0, 1, 2, 3, 4, 5)}
MOST = max(EDGES)  # ranks of the trials


class Alone(NamedTuple):
    """One process's output (n, 5), its loss, and the gradients of all parameters by block."""

    output: np.ndarray
    loss: float
    gradients: list[list[np.ndarray]]


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(6, WIDTHS[0], generator=generator), torch.arange(6) % WIDTHS[-1]


def alone() -> Alone:
    """The net of the trials in one process."""
    images, labels = _batch()
    blocks = nets.torch_blocks(WIDTHS)
    output = torch.nn.Sequential(*blocks)(images)
    loss = functional.cross_entropy(output, labels)
    loss.backward()
    gradients = [[weights.grad.numpy() for weights in block.parameters()] for block in blocks]
    return Alone(output.detach().numpy(), loss.item(), gradients)


def _stage(comm) -> torch.nn.Sequential:
    edges = EDGES[comm.size]
    return torch.nn.Sequential(*nets.torch_blocks(WIDTHS)[edges[comm.rank] : edges[comm.rank + 1]])


def _pair(passed: object) -> tuple[torch.Tensor, torch.Tensor]:
    """(entering, leaving) as the forward pass is to return them. Raises LabError when they are not these."""
    if not (isinstance(passed, tuple) and len(passed) == 2 and all(map(torch.is_tensor, passed))):
        raise LabError("The forward pass returns two tensors: what entered the stage, and what leaves it.")
    return passed


def try_forward(comm, forward: Callable) -> dict:
    """This rank's output, whether gradients can reach what entered, and the names of its calls."""
    images, _ = _batch()
    log = CallLog(comm)
    entering, leaving = _pair(forward(log, _stage(comm), images))
    return {
        "output": leaving.detach().numpy(),
        "entering": tuple(entering.shape),
        "reachable": bool(entering.requires_grad) and entering.is_leaf,
        "joined": bool(leaving.requires_grad),
        "calls": list(log.calls),
    }


def try_backward(comm, forward: Callable, backward: Callable) -> dict:
    """This rank's gradients by block, and the names of the calls of its backward pass."""
    images, labels = _batch()
    stage = _stage(comm)
    entering, leaving = _pair(forward(comm, stage, images))
    log = CallLog(comm)
    last = comm.rank == comm.size - 1
    loss = functional.cross_entropy(leaving, labels) if last else None
    backward(log, entering, leaving, loss)
    gradients: list[Sequence[np.ndarray] | None] = []
    for block in stage:
        missing = any(weights.grad is None for weights in block.parameters())
        gradients.append(None if missing else [weights.grad.numpy() for weights in block.parameters()])
    return {"gradients": gradients, "calls": list(log.calls)}
