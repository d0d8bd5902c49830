"""What a cut of a net costs at best, and what a stage holds in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch


def least_slowest(costs: Sequence[float], stages: int) -> float:
    """The least possible cost of the dearest of `stages` stages, each of one block or more.

    costs: of the blocks, in order. By dynamic programming over the place of the last cut.
    """
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)

    @lru_cache(None)
    def best(blocks: int, parts: int) -> float:
        if parts == 1:
            return sums[blocks]
        return min(max(best(cut, parts - 1), sums[blocks] - sums[cut]) for cut in range(parts - 1, blocks))

    return best(len(costs), stages)


def held(stage: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the stage's parameters, of their gradients, and of the optimizer's averages."""
    tensors = list(stage.parameters())
    tensors += [weights.grad for weights in stage.parameters() if weights.grad is not None]
    for state in optimizer.state.values():
        tensors += [value for value in state.values() if torch.is_tensor(value) and value.dim() > 0]
    return sum(tensor.nbytes for tensor in tensors)
