"""Horovod's API in PyTorch, beside what labs 34, 35 and 40 do: what each of two ranks gets.

test_horovod.py has pytest run this file on both at once, by each library that carries on CPUs.
"""

import os

import horovod.torch as hvd
import pytest
import torch
from mpi4py import MPI  # noqa: F401 - a second user of MPI in the process: it must be the same library

RANK_1 = hvd.ProcessSet([1])
hvd.init(process_sets=[RANK_1])
GLOO = os.environ["HOROVOD_CPU_OPERATIONS"] == "gloo"


def test_backward_passes():
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=2
    )
    for _ in range(2):
        model(torch.tensor([[hvd.rank() + 1.0]])).sum().backward()
    optimizer.step()
    assert model.weight.item() == pytest.approx(-0.3)


def test_collectives():
    mine = torch.tensor([hvd.rank() + 1.0])
    ops = {hvd.Average: 1.5, hvd.Sum: 3.0, hvd.Max: 2.0, hvd.Adasum: 1.5}
    assert {op: hvd.allreduce(mine, op=op).item() for op in ops} == pytest.approx(ops)
    assert hvd.allgather(mine).tolist() == [1.0, 2.0]
    assert hvd.broadcast(mine, root_rank=1).item() == 2.0
    sent = torch.tensor([10.0 * hvd.rank(), 10.0 * hvd.rank() + 1])
    assert hvd.alltoall(sent).tolist() == [hvd.rank(), 10.0 + hvd.rank()]


def test_a_process_set():
    """Last of the operations, for it is rank 1's alone: the ranks number their later ones
    differently."""
    if RANK_1.included():
        assert hvd.allreduce(torch.tensor([2.0]), process_set=RANK_1).item() == 2.0


def test_mpi_negotiates_from_one_library_and_the_named_one_carries():
    with open("/proc/self/maps") as maps:
        libraries = {os.path.realpath(line.split()[-1]) for line in maps if "/libmpi" in line}
    assert (hvd.mpi_enabled(), hvd.gloo_enabled(), len(libraries)) == (True, GLOO, 1)


def test_a_process_starts_again_with_the_other_library(monkeypatch):
    # The first rank that shuts Horovod down does so for both, and the other may still be asking it.
    hvd.allreduce(torch.zeros(1), name="both are here")
    hvd.shutdown()
    monkeypatch.setenv("HOROVOD_CPU_OPERATIONS", "mpi" if GLOO else "gloo")
    hvd.init()
    total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum).item()
    assert (hvd.gloo_enabled(), total) == (not GLOO, 3.0)
