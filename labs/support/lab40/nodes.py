"""A rank as if it were on another machine: what Horovod tells of its node, and which GPU it makes current."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Asked:
    """What a block of code asked for. started: hvd.init() was called. current: "cuda:1" for each call of
    torch.cuda.set_device, in order."""

    started: bool = False
    current: list[str] = field(default_factory=list)


@contextmanager
def nodes_of(ranks: int) -> Iterator[Asked]:
    """On a rank: while the block runs, hvd.local_rank() and hvd.local_size() are those on nodes of so many
    ranks, in the order of ranks. torch.cuda.set_device is only noted, as this machine may lack that GPU.

    Raises what Horovod raises (ValueError) when it is asked before hvd.init().
    """
    import horovod.torch as hvd
    import torch

    asked = Asked()
    own = {name: getattr(hvd, name) for name in ("init", "local_rank", "local_size")}
    set_device = torch.cuda.set_device

    def init(*arguments, **options):
        asked.started = True
        own["init"](*arguments, **options)

    def note(device):
        asked.current.append(_name(device))

    hvd.init = init
    hvd.local_rank = lambda: hvd.rank() % ranks
    hvd.local_size = lambda: min(ranks, hvd.size() - hvd.rank() // ranks * ranks)
    torch.cuda.set_device = note
    try:
        yield asked
    finally:
        for name, function in own.items():
            setattr(hvd, name, function)
        torch.cuda.set_device = set_device


@contextmanager
def in_all(ranks: int) -> Iterator[None]:
    """On a rank: while the block runs, hvd.size() returns `ranks`. For what is computed, not for messages."""
    import horovod.torch as hvd

    own = hvd.size
    hvd.size = lambda: ranks
    try:
        yield
    finally:
        hvd.size = own


def _name(device) -> str:
    """ "cuda:1" of what torch.cuda.set_device takes: 1, "cuda:1" or torch.device("cuda", 1)."""
    import torch

    return str(torch.device("cuda", device) if isinstance(device, int) else torch.device(device))
