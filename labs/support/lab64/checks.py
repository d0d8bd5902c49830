"""The learner's pair f and g, tried in groups of real ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from labkit.counting import CallLog, on_every_size
from labkit.errors import LabError

Ways = dict[tuple[str, str], dict]  # ("f" or "g", "forward" or "back") -> what came in and out on a rank


class Case(NamedTuple):
    """One way of one function on one rank of a group.

    own: what this rank gave it, total: the sum of what all ranks gave, got: what came out; None if nothing
    did. calls: names of the communicator's calls. changed: whether what it was given was changed.
    """

    name: str
    way: str
    rank: int
    own: np.ndarray
    total: np.ndarray
    got: np.ndarray | None
    calls: list[str]
    changed: bool


def try_pair(comm, f: Callable, g: Callable) -> dict[int, Ways]:
    """What f and g gave on this rank, forward and back, in a group of every size: {ranks: Ways}."""
    return on_every_size(comm, lambda group: _try(group, "f", f) | _try(group, "g", g))


def cases(tried: Sequence[dict[int, Ways]], size: int) -> Iterator[Case]:
    """The cases of a group of `size` ranks. tried: what try_pair gave on all ranks."""
    for name in "fg":
        for way in ("forward", "back"):
            group = [tried[rank][size][name, way] for rank in range(size)]
            total = sum(result["own"] for result in group)
            for rank, result in enumerate(group):
                yield Case(name, way, rank, total=total, **result)


def _inputs_of(way: str, size: int) -> list[torch.Tensor]:
    """What each rank of a group has, on the way forward or back: (3, 4) whole numbers, others on each."""
    numbers = np.random.default_rng([size, len(way)]).integers(1, 100, (size, 3, 4))
    return list(torch.from_numpy(numbers.astype(np.float32)))


def _try(comm, name: str, function: Callable) -> Ways:
    log = CallLog(comm)
    own = _inputs_of("forward", comm.size)[comm.rank]
    entering = own.clone().requires_grad_()
    leaving = function(entering, log)
    if not torch.is_tensor(leaving):
        raise LabError(f"The way forward is to return a tensor, not {type(leaving).__name__}.")
    calls = _collectives(log)
    forward = {
        "own": own.numpy(),
        "got": leaving.detach().numpy().copy(),
        "calls": calls,
        "changed": not torch.equal(entering.detach(), own),
    }
    gradient = _inputs_of("back", comm.size)[comm.rank]
    given = gradient.clone()
    leaving.backward(given)
    back = {
        "own": gradient.numpy(),
        "got": None if entering.grad is None else entering.grad.numpy(),
        "calls": _collectives(log)[len(calls) :],
        "changed": not torch.equal(given, gradient),
    }
    return {(name, "forward"): forward, (name, "back"): back}


def _collectives(log: CallLog) -> list[str]:
    return [call for call in log.calls if not call.startswith("_")]
