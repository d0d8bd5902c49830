"""What the ranks of tests.figures.overlap run under srun. Rank 0 prints one line of JSON.

The ways are lab 32's own answers, its buckets moved on by Test or by a thread as in lab 36, taken from
solutions/. Horovod runs only in its
own turns: its thread sends a message every millisecond, also when there is nothing to sum, and could slow the
others down.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import torch
from labkit import data, timing
from mpi4py import MPI
from support import lab32, lab36

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
ANSWERS = {
    "32_buckets_and_overlap.py": ("at_the_end", "watch", "one_by_one", "in_buckets", "two_sides"),
    "36_progress.py": ("carry",),
}
WIDTH, DEPTH = 128, 24  # the net: 24 linear layers, most of 128 x 128
BUCKET = 4 * WIDTH * WIDTH  # bytes, of the lab's (c) and of DDP: one layer
TURNS = 5  # the runs of a way, in so many parts


def answers() -> dict:
    """Name -> function, of the answers that the solved labs define."""
    names = {"np": np}
    for lab, wanted in ANSWERS.items():
        tree = ast.parse((SOLUTIONS / lab).read_text())
        tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
        exec(compile(tree, lab, "exec"), names)
    return names


class Begun:
    """A communicator that passes everything on and keeps the requests of Iallreduce."""

    def __init__(self, comm):
        self._comm = comm
        self.requests: list = []

    def __getattr__(self, name: str):
        return getattr(self._comm, name)

    def Iallreduce(self, own, total):
        request = self._comm.Iallreduce(own, total)
        self.requests.append(request)
        return request


def carried(way, carry):
    """A way of two functions, with carry(requests) after each gradient."""

    def carried_way(comm, net):
        begun = Begun(comm)
        ready, finish = way(begun, net)

        def ready_and_carry(i) -> None:
            ready(i)
            carry(begun.requests)

        def finish_and_forget() -> None:
            finish()
            begun.requests.clear()

        return ready_and_carry, finish_and_forget

    return carried_way


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


class WithHorovod:
    """`with WithHorovod(net) as step: …`; outside of that Horovod has no thread."""

    def __init__(self, net):
        self._net = net
        self._step = None

    def __enter__(self):
        import horovod.torch as hvd

        hvd.init()
        if self._step is None:
            own = torch.optim.SGD(self._net.parameters(), lr=0.01)
            named = self._net.named_parameters()
            self._step = plain_step(self._net, hvd.DistributedOptimizer(own, named_parameters=named))
        return self._step

    def __exit__(self, *_) -> None:
        import horovod.torch as hvd

        hvd.shutdown()


def in_parts(calls: dict, horovod: WithHorovod, batch, repeat: int, comm) -> dict:
    """Name -> seconds of all runs, of the calls and of Horovod's step."""
    seconds = {name: [] for name in [*calls, "Horovod"]}
    for _ in range(TURNS):
        times = timing.in_turns(calls, repeat=-(-repeat // TURNS), warmup=1, comm=comm)
        with horovod as step:
            step(*batch)  # it agrees on names anew
            times["Horovod"] = timing.measure(partial(step, *batch), repeat=-(-repeat // TURNS), comm=comm)
        for name, time in times.items():
            seconds[name] += list(time.samples)
    return seconds


def look_until(comm, over: threading.Event) -> None:
    """Call MPI every millisecond until `over` is raised."""
    while not over.wait(0.001):
        comm.Iprobe()


def main(repeat: int) -> dict:
    torch.set_num_threads(1)
    comm = MPI.COMM_WORLD
    lab = answers()
    training = [torch.tensor(part) for part in data.digits()[:2]]
    make = partial(lab36.linear_net, WIDTH, DEPTH)
    fused = partial(lab["in_buckets"], size=BUCKET)
    ways = {"(a)": lab["at_the_end"], "(b)": lab["one_by_one"]}
    ways |= {"(c)": carried(fused, lab["carry"]), "(c) + thread": fused, "(d)": lab["two_sides"]}
    pairs = {name: lab32.torch_step(comm, way, make(), lab["watch"], 0.01) for name, way in ways.items()}
    steps = {"arithmetic": lab36.arithmetic_step(make(), 0.01)}
    steps |= {name: step for name, (step, _) in pairs.items()} | {"DDP": with_ddp(make(), comm)}
    own = np.concatenate([weight.detach().numpy().ravel() for weight in make().parameters()])
    total = np.empty_like(own)
    looking = comm.Dup()  # MPI moves all messages in any call; a look here finds none of them

    def threaded(step) -> None:
        over = threading.Event()
        thread = threading.Thread(target=look_until, args=(looking, over), daemon=True)
        thread.start()
        step()
        over.set()
        thread.join()

    def communication() -> None:
        comm.Allreduce(own, total)

    rows = lab36.balanced(comm, steps["arithmetic"], training, communication)
    batch = [part[rows] for part in training]
    calls = {name: partial(step, *batch) for name, step in steps.items()} | {"communication": communication}
    calls["(c) + thread"] = partial(threaded, calls["(c) + thread"])
    times = in_parts(calls, WithHorovod(make()), batch, repeat, comm)
    for _, settle in pairs.values():
        settle()
    looking.Free()
    quartiles = {}
    for name, seconds in times.items():
        least, q1, median, q3 = np.percentile(seconds, [0, 25, 50, 75]).tolist()
        quartiles[name] = {"least": least, "q1": q1, "median": median, "q3": q3}
    return {"ranks": comm.size, "bytes": own.nbytes, "images": len(rows), "times": quartiles}


if __name__ == "__main__":
    result = main(int(sys.argv[1]))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(result), flush=True)
