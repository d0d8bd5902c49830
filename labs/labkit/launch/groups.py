"""Functions that run inside a group of torch.distributed, and leave it in an order that cannot
hang."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps

from labkit import placement, world


def in_group(backend: str | None = None) -> Callable[[Callable], Callable]:
    """A decorator: the function runs on each rank inside a group of torch.distributed, over
    `backend`.

    backend: "gloo" or "nccl"; None: NCCL where each rank of this host has a GPU to itself, else
    Gloo, and then world.device() is "cpu" inside, as Gloo gathers and scatters host memory alone.
    For functions that launch.run(…, controller="torch") calls. What the function returns must not
    hold on to the group: numbers, arrays, tensors, but no DistributedDataParallel.

    A function, and not a block of a `with`: what it made inside is gone before the group is left. A
    DDP model that outlives its group would take the group's threads along when it goes, while it
    holds Python's lock; and a thread that still has to let go of a tensor waits for that lock. The
    rank then never ends.
    """

    def joined(function: Callable) -> Callable:
        @wraps(function)
        def inside(*args: object, **kwargs: object) -> object:
            from torch import distributed

            with (
                _devices(backend) as (found, device),
                group(found, distributed.barrier, device_id=device),
            ):
                return function(*args, **kwargs)

        return inside

    return joined


@contextmanager
def group(backend: str, barrier: Callable, **options: object) -> Iterator[None]:
    """A group of torch.distributed for a block, which all ranks leave together.

    barrier: of these ranks. options: of init_process_group. A rank whose block raises stays in the
    group: leaving Gloo's closes its connections, and the others' errors would come before its own;
    leaving NCCL's waits for the others, who wait for its messages.
    """
    from torch import distributed

    if distributed.is_initialized():  # all ranks raised the last time, and go on
        distributed.destroy_process_group()
    distributed.init_process_group(backend, **options)
    yield
    gc.collect()  # what holds on to the group, in circles of references, goes now
    barrier()  # nobody closes its connections while another still waits for the last message
    distributed.destroy_process_group()


@contextmanager
def _devices(backend: str | None) -> Iterator[tuple[str, object]]:
    """The backend, and the device to which NCCL binds this rank: a torch.device, None with Gloo."""
    import torch

    if backend == "nccl" or (backend is None and placement.ranks_on_a_gpu() == 1):
        yield "nccl", torch.device(placement.take_device())
        return
    if backend is None and world.is_root() and world.device() != "cpu":
        _say_once(
            "Not each rank has a GPU of its own, which NCCL wants: Gloo carries what they send, and"
            " tensors stay in host memory."
        )
    before = os.environ.get("LABKIT_DEVICE")
    os.environ["LABKIT_DEVICE"] = "cpu"
    try:
        yield "gloo", None
    finally:
        if before is None:
            del os.environ["LABKIT_DEVICE"]
        else:
            os.environ["LABKIT_DEVICE"] = before


@cache
def _say_once(text: str) -> None:
    print(text)
