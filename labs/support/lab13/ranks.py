"""Lab 13 on real ranks: how long a step takes by processes and threads, and by the cores it is bound to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial

import numpy as np
from labkit import launch, timing, world
from labkit.errors import LabError

from support.lab13.affinity import kept, masks, may_use, move, place, usable
from support.lab13.cases import part_of, pictures


def policies(waiting: Iterable[str]) -> list[str]:
    """The values of OMP_WAIT_POLICY to measure: `waiting`, or under a launcher the one already set."""
    values = [waiting] if isinstance(waiting, str) else list(waiting)
    if not values or not set(values) <= {"active", "passive"}:
        raise LabError(f'waiting must hold "active", "passive", or both, not {waiting!r}.')
    return [os.environ.get("OMP_WAIT_POLICY", "not set")] if world.launcher() else values


def splits(cores: int, most: int) -> list[tuple[int, int]]:
    """All (processes, threads) with processes x threads = cores, and at most `most` processes."""
    return [(p, cores // p) for p in range(1, most + 1) if cores % p == 0]


def grid(comm, step, width: int, batch: int, repeat: int) -> tuple[int, dict]:
    """A node's cores, and for each cell (processes, threads) the seconds of a step and of its allreduce.

    step as in exercise 13.3. Cells: every split of the cores; one process with 1, 2, 4, ... threads; and
    twice as many threads as cores. Ranks that a cell leaves out sleep.
    """
    import torch

    node = _node(comm)
    cores = _cores_of_all(node)
    alone = [(1, 2**power) for power in range(len(cores).bit_length())]
    pairs = splits(len(cores), node.size)
    crowd = (pairs[-1][0], 2 * pairs[-1][1])
    cells = {}
    with kept():
        may_use(cores)
        for processes, threads in sorted({*alone, *pairs, crowd}, key=_leaves_no_thread_behind):
            part = node.Split(int(node.rank >= processes), node.rank)
            if node.rank < processes:
                torch.set_num_threads(threads)
                cells[processes, threads] = _one_cell(part, step, width, batch, repeat)
            _sleep_until_all_are_here(node)
            part.Free()
    node.Free()
    return len(cores), cells


def _leaves_no_thread_behind(cell: tuple[int, int]) -> tuple[bool, int, int]:
    """A key that sorts cells: no thread of an earlier one is left, to wait for ever on a core of a later one.

    OpenMP keeps a process's threads until it asks for fewer, but at least two. So cells of one thread come
    first, then those of few processes: the others have no threads yet.
    """
    processes, threads = cell
    return threads > 1, processes, threads


def _node(comm):
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)


def _cores_of_all(node) -> list[int]:
    return sorted({core for cores in node.allgather(usable()) for core in cores})


def _one_cell(part, step, width, batch, repeat):
    net, images, labels = pictures(width, batch)
    own = part_of(batch, part.size, part.rank)
    vector = np.ones(sum(weight.numel() for weight in net.parameters()), np.float32)
    total = np.empty_like(vector)
    work = partial(step, part, net, images[own], labels[own], batch)
    whole = timing.measure(work, comm=part, repeat=repeat, seconds=2.0)
    return whole, timing.measure(lambda: part.Allreduce(vector, total), comm=part, repeat=repeat)


def _sleep_until_all_are_here(comm) -> None:
    """A barrier that leaves the cores to the others: MPI's own asks again and again, and keeps one busy."""
    here = comm.Ibarrier()
    while not here.Test():
        time.sleep(0.01)


def ways(comm, cores_of, bind, step, width: int, batch: int, repeat: int) -> dict:
    """What `bind` did on this rank, and the seconds of a step unbound, bound, and all on one core.

    Keys: "cores" of this rank, "masks" of its threads, torch's "threads", "host", "times".
    """
    import torch

    node = _node(comm)
    every = _cores_of_all(node)
    with kept():
        own = sorted(int(core) for core in cores_of(*place(node)))
        bind(own)
        report = {"cores": own, "masks": masks(), "threads": torch.get_num_threads()}
        net, images, labels = pictures(width, batch)
        part = part_of(batch, node.size, node.rank)

        def step_on(cores):
            move(cores)  # costs microseconds, in every way the same
            step(node, net, images[part], labels[part], batch)

        loose = every if may_use(every) else own
        calls = {
            "unbound": partial(step_on, loose),
            "bound": partial(step_on, own),
            "all ranks on one core": partial(step_on, loose[:1]),
        }
        times = timing.in_turns(calls, comm=node, repeat=repeat, seconds=4.0)
    node.Free()
    return {**report, "host": launch.my_cores()[0], "times": times}
