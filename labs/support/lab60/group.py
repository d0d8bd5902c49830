"""A group of torch.distributed for the time of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from labkit import world


@contextmanager
def group() -> Iterator[tuple[int, int]]:
    """Gives (rank, ranks). NCCL where this rank has a GPU, else Gloo. The group is left at the end."""
    from torch import distributed

    on_gpu = world.device().startswith("cuda")
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield distributed.get_rank(), distributed.get_world_size()
        distributed.barrier()  # nobody closes its connections while another still waits for the last message
    finally:
        distributed.destroy_process_group()
