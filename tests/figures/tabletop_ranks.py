"""What the ranks of tests.tabletop_figures run under srun. Rank 0 prints one line of JSON."""

from __future__ import annotations

import json
import sys

import numpy as np
from labkit import nets, timing, world


def horovod_step(net: str, compressed: list[str]) -> dict:
    """Seconds of a Horovod training step whose gradients are a net's, without that net's arithmetic.

    Its parameters have the sizes of the layer table; the loss is their sum, so that backward and the update
    touch each number once. compressed: "none" and "fp16", timed in turns.
    """
    import horovod.torch as hvd
    import torch

    hvd.init()
    sizes = [int(size) for size in nets.layer_table(net)["parameters"] if size]
    steps = {}
    for name in compressed:
        weights = [torch.nn.Parameter(torch.zeros(size)) for size in sizes]
        named = [(f"{name}.{place}", weight) for place, weight in enumerate(weights)]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(weights, lr=1e-3),
            named_parameters=named,
            compression=getattr(hvd.Compression, name),
        )
        steps[name] = _step(optimizer, weights)
    from mpi4py import MPI

    taken = timing.in_turns(steps, repeat=5, warmup=1, comm=MPI.COMM_WORLD)
    return {"bytes": 4 * sum(sizes), **{name: _plain(one) for name, one in taken.items()}}


def _step(optimizer, weights):
    def step():
        optimizer.zero_grad()
        sum(weight.sum() for weight in weights).backward()
        optimizer.step()

    return step


def two_level(nbytes: int) -> dict:
    """Seconds of MPI_Allreduce beside one in two levels: inside nodes, between their leaders, and back."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    leaders = comm.Split(0 if node.rank == 0 else MPI.UNDEFINED)
    mine, total, box = (np.full(nbytes // 4, value, np.float32) for value in (1, 0, 0))

    def levels():
        node.Reduce(mine, box)
        if leaders != MPI.COMM_NULL:
            leaders.Allreduce(box, total)
        node.Bcast(total)

    levels()
    assert (total == comm.size).all(), "the two-level sum is wrong"
    calls = {"flat": lambda: comm.Allreduce(mine, total), "two levels": levels}
    taken = timing.in_turns(calls, repeat=7, warmup=1, comm=comm)
    return {"bytes": nbytes, **{name: _plain(one) for name, one in taken.items()}}


def _plain(taken) -> dict:
    return {"median": taken.median, "q1": taken.q1, "q3": taken.q3}


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    found = two_level(int(rest[0])) if what == "two_level" else horovod_step(rest[0], rest[1:])
    if world.is_root():
        print(json.dumps({**found, "ranks": world.size()}), flush=True)
