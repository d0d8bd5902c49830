"""Functions that run inside a group of torch.distributed, and leave it in an order that cannot hang."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps

from labkit import world


def in_group(backend: str | None = None) -> Callable[[Callable], Callable]:
    """A decorator: the function runs on each rank inside a group of torch.distributed, over `backend`.

    backend: "gloo" or "nccl"; None: NCCL where this rank has a GPU, else Gloo. For functions that
    launch.run(…, controller="torch") calls. What the function returns must not hold on to the group: numbers,
    arrays, tensors, but no DistributedDataParallel.

    A function, and not a block of a `with`: what it made inside is gone before the group is left. A DDP model
    that outlives its group would take the group's threads along when it goes, while it holds Python's lock;
    and a thread that still has to let go of a tensor waits for that lock. The rank then never ends.
    """

    def joined(function: Callable) -> Callable:
        @wraps(function)
        def inside(*args: object, **kwargs: object) -> object:
            from torch import distributed

            on_gpu = world.device().startswith("cuda")
            distributed.init_process_group(backend or ("nccl" if on_gpu else "gloo"))
            try:
                result = function(*args, **kwargs)
                gc.collect()  # models in circles of references go now, too
                # Nobody closes its connections while another still waits for the last message.
                distributed.barrier()
                return result
            finally:
                distributed.destroy_process_group()

        return inside

    return joined
