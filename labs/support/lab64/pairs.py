"""The pair f and g of sequence parallelism: outside of it each rank has some of the places of the texts.

Korthikanti and others, "Reducing Activation Recomputation in Large Transformer Models", 2022 (arXiv
2205.05198), section 4.2.2.
"""

from __future__ import annotations

import torch


def gathered(comm, part: torch.Tensor) -> torch.Tensor:
    """All ranks' places, behind each other: (ranks * n, …) of (n, …)."""
    whole = torch.empty(comm.size * len(part), *part.shape[1:])
    comm.Allgather(part.detach().contiguous().numpy(), whole.numpy())
    return whole


def added_part(comm, whole: torch.Tensor) -> torch.Tensor:
    """This rank's places of the sum over all ranks: (n, …) of (ranks * n, …)."""
    part = torch.empty(len(whole) // comm.size, *whole.shape[1:])
    comm.Reduce_scatter_block(whole.detach().contiguous().numpy(), part.numpy())
    return part


class Gather(torch.autograd.Function):
    """f: all places of what has been dealt out; on the way back the sum, of which each rank keeps its own."""

    @staticmethod
    def forward(ctx, part, comm):
        ctx.comm = comm
        return gathered(comm, part)

    @staticmethod
    def backward(ctx, gradient):
        return added_part(ctx.comm, gradient), None


class Scatter(torch.autograd.Function):
    """g: the sum of the ranks' terms, of which each keeps its own places; on the way back all places."""

    @staticmethod
    def forward(ctx, terms, comm):
        ctx.comm = comm
        return added_part(comm, terms)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(ctx.comm, gradient), None
