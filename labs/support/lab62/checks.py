"""Forward and backward passes over stages, tried on real ranks and held against one process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from labkit import check, expect, launch, nets
from labkit.counting import CallLog, on_every_size
from labkit.errors import LabError
from torch.nn import functional

from support.lab62.net import least_slowest

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


@check.exercise("62.1")
def check_cut(cut):
    """Whole, rising edges from 0 to the end, and no cut with a cheaper dearest stage."""
    trials = (
        ([1, 1, 1, 1], 2),
        ([9, 1, 1, 1, 9], 3),
        ([1, 2, 3, 4, 5, 6, 7], 3),
        ([4, 1], 1),
        ([7, 1, 1, 1], 3),
        ([1, 5, 5, 1], 3),
        ([2, 2, 5, 1], 2),
    )
    for costs, stages in trials:
        edges = list(cut(costs, stages))
        what = f"Blocks that cost {costs}, {stages} stages: edges {edges}"
        expect(len(edges) == stages + 1, f"{what}. {stages} stages have {stages + 1} edges.")
        expect(edges[0] == 0 and edges[-1] == len(costs), f"{what}. They begin at 0 and end at {len(costs)}.")
        expect(edges == sorted(set(edges)), f"{what}. Each stage has one block or more, so edges rise.")
        dearest = max(sum(costs[first:end]) for first, end in itertools.pairwise(edges))
        best = least_slowest(costs, stages)
        expect(dearest <= best, f"{what}. The dearest stage costs {dearest}; a better cut has {best:g}.")


@check.exercise("62.2")
def check_forward(forward, patience, ranks):
    """On 1 to 4 ranks, the answer of one process, by Send and Recv, and open for the way back."""

    def on_ranks(comm):
        return try_forward(comm, forward)

    one = alone()
    most = min(ranks, MOST)
    by_rank = launch.run(on_every_size, on_ranks, ranks=most, timeout=patience)
    for size in range(1, most + 1):
        tried = [of_sizes[size] for of_sizes in by_rank[:size]]
        for rank, got in enumerate(tried):
            where = f"{size} ranks, rank {rank}"
            expect(
                "send" not in got["calls"],
                f"{where}: `send` packs any object. `Send` carries the array itself.",
            )
            sends, receives = got["calls"].count("Send"), got["calls"].count("Recv")
            expect.equal(
                [sends, receives], [int(rank < size - 1), int(rank > 0)], f"{where}: calls of Send, Recv"
            )
            expect(
                got["joined"], f"{where}: what leaves has no past, so no gradient can come back through it."
            )
            if rank > 0:
                expect(
                    got["reachable"], f"{where}: what entered gets no gradient. Say `requires_grad_()` to it."
                )
        expect.close(tried[-1]["output"], one.output, f"{size} ranks: what leaves the last rank", rtol=1e-4)


@check.exercise("62.3")
def check_backward(backward, forward, patience, ranks):
    """On 1 to 4 ranks, every gradient that one process computes."""

    def on_ranks(comm):
        return try_backward(comm, forward, backward)

    one = alone()
    most = min(ranks, MOST)
    by_rank = launch.run(on_every_size, on_ranks, ranks=most, timeout=patience)
    for size in range(1, most + 1):
        tried = [of_sizes[size] for of_sizes in by_rank[:size]]
        gradients = [block for got in tried for block in got["gradients"]]
        for block, (got, want) in enumerate(zip(gradients, one.gradients, strict=True)):
            where = f"{size} ranks, block {block}"
            expect(got is not None, f"{where}: its parameters have no gradient. Who calls backward there?")
            for name, mine, theirs in zip(("weight", "bias"), got, want, strict=True):
                expect.close(mine, theirs, f"{where}: the gradient of its {name}", rtol=1e-4, atol=1e-6)
        for rank, got in enumerate(tried):
            calls = f"{size} ranks, rank {rank}: calls of Send, Recv on the way back"
            wanted = [int(rank > 0), int(rank < size - 1)]
            expect.equal([got["calls"].count("Send"), got["calls"].count("Recv")], wanted, calls)
