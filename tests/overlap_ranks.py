"""What the ranks of tests.overlap_figures run under srun. Rank 0 prints one line of JSON.

The ways are lab 32's own answers, taken from solutions/32_buckets_and_overlap.py.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from labkit import data, overlap, timing
from mpi4py import MPI

LAB = Path(__file__).resolve().parent.parent / "solutions" / "32_buckets_and_overlap.py"
BUCKET = 2.5e5  # bytes, of the lab's (c) and of DDP


def answers() -> dict:
    """Name -> function, of the functions that the solved lab defines."""
    tree = ast.parse(LAB.read_text())
    tree.body = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    found = {"np": np}
    exec(compile(tree, LAB, "exec"), found)
    return found


def plain_step(net, optimizer):
    """A training step as PyTorch's and Horovod's own examples have it."""

    def step(inputs, labels) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()

    return step


def with_ddp(net, comm):
    """PyTorch's DistributedDataParallel over Gloo."""
    from torch import distributed

    if not distributed.is_initialized():
        os.environ |= {"MASTER_ADDR": comm.bcast(os.uname().nodename), "MASTER_PORT": "29532"}
        distributed.init_process_group("gloo", rank=comm.rank, world_size=comm.size)
    net = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=BUCKET / 2**20)
    return plain_step(net, torch.optim.SGD(net.parameters(), lr=0.01))


def with_horovod(net):
    import horovod.torch as hvd

    hvd.init()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    return plain_step(net, hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters()))


def main(repeat: int) -> dict:
    torch.set_num_threads(1)
    comm, lab = MPI.COMM_WORLD, answers()
    training = [torch.tensor(part) for part in data.digits()[:2]]
    make = partial(overlap.linear_net, 256, 12)
    fused = partial(lab["in_buckets"], size=BUCKET)
    ways = {"arithmetic": overlap.nothing, "(a)": lab["at_the_end"], "(b)": lab["one_by_one"]}
    ways |= {"(c)": fused, "(c) + thread": fused, "(d)": lab["two_sides"]}
    pairs = {name: overlap.torch_step(comm, way, make(), lab["watch"], 0.01) for name, way in ways.items()}
    steps = {name: step for name, (step, _) in pairs.items()}
    steps |= {"DDP": with_ddp(make(), comm), "Horovod": with_horovod(make())}
    mine = np.concatenate([one.detach().numpy().ravel() for one in make().parameters()])
    total, moving = np.empty_like(mine), overlap.Progress(comm)

    def threaded(step) -> None:
        with moving:
            step()

    def communication() -> None:
        comm.Allreduce(mine, total)

    rows = overlap.balanced(comm, steps["arithmetic"], training, communication)
    batch = [part[rows] for part in training]
    calls = {name: partial(step, *batch) for name, step in steps.items()}
    calls["(c) + thread"] = partial(threaded, calls["(c) + thread"])
    times = timing.in_turns({**calls, "communication": communication}, repeat=repeat, comm=comm)
    for _, settle in pairs.values():
        settle()
    moving.close()
    found = {
        name: {"median": one.median, "least": float(np.min(one.samples)), "q1": one.q1, "q3": one.q3}
        for name, one in times.items()
    }
    return {"ranks": comm.size, "bytes": mine.nbytes, "images": len(rows), "times": found}


if __name__ == "__main__":
    result = main(int(sys.argv[1]))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(result), flush=True)
