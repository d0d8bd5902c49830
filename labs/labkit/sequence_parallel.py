"""f and g of sequence parallelism as functions with a backward pass (labs 64 and 66).

    Gather      all ranks' parts along the first axis; its backward pass adds up and scatters
    Scatter     this rank's part of the sum; its backward pass gathers

Called as Gather.apply(part, comm) and Scatter.apply(terms, comm), on tensors that `comm` takes.
"""

from __future__ import annotations

import torch


def _gathered(comm, part: torch.Tensor) -> torch.Tensor:
    """The positions of all ranks, one rank after the other: (ranks * n, …) of (n, …)."""
    whole = part.new_empty(comm.size * len(part), *part.shape[1:])
    comm.Allgather(part.detach().contiguous(), whole)
    return whole


def _added_part(comm, whole: torch.Tensor) -> torch.Tensor:
    """This rank's positions of the sum over all ranks: (n, …) of (ranks * n, …)."""
    part = whole.new_empty(len(whole) // comm.size, *whole.shape[1:])
    comm.Reduce_scatter_block(whole.detach().contiguous(), part)
    return part


class Gather(torch.autograd.Function):
    """f: the positions of all ranks; in the backward pass the sum, of which each rank keeps its own
    positions."""

    @staticmethod
    def forward(ctx, part, comm):
        ctx.comm = comm
        return _gathered(comm, part)

    @staticmethod
    def backward(ctx, gradient):
        return _added_part(ctx.comm, gradient), None


class Scatter(torch.autograd.Function):
    """g: the sum of the ranks' terms, of which each keeps its own positions; in the backward pass
    the positions of all ranks."""

    @staticmethod
    def forward(ctx, terms, comm):
        ctx.comm = comm
        return _added_part(comm, terms)

    @staticmethod
    def backward(ctx, gradient):
        return _gathered(ctx.comm, gradient), None
