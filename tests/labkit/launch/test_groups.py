"""A group of torch.distributed is left after all that was made inside is gone."""

from __future__ import annotations

import weakref

import pytest
import torch
from labkit import launch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.slow
models: list[weakref.ref] = []  # of this rank


@launch.in_group()
def one_way_back() -> float:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, other = (DistributedDataParallel(torch.nn.Linear(4, 1, device=device)) for _ in range(2))
    other.itself = [other]  # a circle, which only the garbage collector takes away
    models.extend(map(weakref.ref, (model, other)))
    model(torch.full((2, 4), distributed.get_rank() + 1.0, device=device)).sum().backward()
    return model.module.weight.grad.mean().item()


def models_left() -> tuple[float, list[bool]]:
    """The gradient, and which models are still there when the group is left.

    A model that is would take the group's threads along as it goes, holding Python's lock. One of
    those that still has to let go of a tensor waits for that lock, and the rank never ends.
    """
    left = []
    destroy = distributed.destroy_process_group

    def look_and_destroy() -> None:
        left.extend(model() is not None for model in models)
        destroy()

    distributed.destroy_process_group = look_and_destroy
    return one_way_back(), left


def test_models_are_gone_before_the_group():
    assert launch.run(models_left, ranks=2, controller="torch") == [(3.0, [False, False])] * 2


@launch.in_group()
def sizes() -> tuple[int, int, str]:
    return distributed.get_rank(), distributed.get_world_size(), distributed.get_backend()


def sizes_and_afterwards() -> tuple:
    return *sizes(), distributed.is_initialized()


def test_the_function_knows_its_rank_and_the_group_is_gone_afterwards():
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    told = launch.run(sizes_and_afterwards, ranks=3, controller="torch")
    assert told == [(rank, 3, backend, False) for rank in range(3)]
