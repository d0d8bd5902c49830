"""The net of lab 60, and each rank's own pictures."""

from __future__ import annotations

import torch
from labkit import nets, world


def new_net(width: int, depth: int = 4) -> torch.nn.Sequential:
    """Blocks from 64 numbers to 10, `width` between, with the same weights on every rank; on its device."""
    blocks = nets.torch_blocks((64, *[width] * (depth - 1), 10))
    return torch.nn.Sequential(*blocks).to(world.device())


def batch_of(rank: int, pictures: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`pictures` random pictures (pictures, 64) and their labels: others on every rank."""
    generator = torch.Generator().manual_seed(100 + rank)
    inputs = torch.randn(pictures, 64, generator=generator)
    return inputs.to(world.device()), (torch.arange(pictures) % 10).to(world.device())
