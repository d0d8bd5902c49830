"""What a rank holds, and what its collectives send."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Numbers that a rank sends, as a share of the numbers of the longest array of the call, times (p - 1) / p: an
# allreduce is a reduce-scatter and an allgather (lab 23). A broadcast is as long as a ring's.
_WEIGHT = {"allreduce": 2, "allgather": 1, "reduce_scatter": 1, "broadcast": 1}


class Traffic(TorchDispatchMode):
    """A block that notes the collectives of torch.distributed in this rank: `.sent` by kind, in numbers.

    As of ring algorithms, whose parts all ranks share alike: (p - 1) / p of an allgather or reduce-scatter.
    """

    def __init__(self, ranks: int):
        super().__init__()
        self.ranks = ranks
        self.sent: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if name.startswith("c10d."):
            kind = next((kind for kind in _WEIGHT if kind in name.replace("_base", "")), None)
            if kind:
                longest = max(_lengths(args))
                share = _WEIGHT[kind] * (self.ranks - 1) / self.ranks
                self.sent[kind] = self.sent.get(kind, 0) + share * longest
                self.calls[kind] = self.calls.get(kind, 0) + 1
        return function(*args, **(kwargs or {}))

    @property
    def all_sent(self) -> float:
        """Numbers sent by this rank."""
        return sum(self.sent.values())


def _lengths(values) -> list[int]:
    lengths = []
    for value in values:
        if isinstance(value, torch.Tensor):
            lengths.append(value.numel())
        elif isinstance(value, (list, tuple)):
            lengths += _lengths(value)
    return lengths


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def held(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes on this rank, after a step: of parameters, gradients, and the optimizer's averages.

    Of a sharded tensor this rank's part counts.
    """
    parameters = list(net.parameters())
    inner = getattr(optimizer, "optim", optimizer)  # ZeroRedundancyOptimizer's own part
    states = [value for state in inner.state.values() for value in state.values() if torch.is_tensor(value)]
    return {
        "parameters": sum(_local(weights).nbytes for weights in parameters),
        "gradients": sum(_local(weights.grad).nbytes for weights in parameters if weights.grad is not None),
        "optimizer": sum(_local(value).nbytes for value in states if value.dim() > 0),
    }
