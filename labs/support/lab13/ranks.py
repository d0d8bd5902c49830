"""On which cores the threads of this process, and of the ranks of a node, may run; how long a step takes.

Linux keeps an affinity mask for every *thread*. `os.sched_setaffinity(0, cores)` changes the calling one, and
threads begun later inherit the mask of the one that begins them (sched_setaffinity(2)).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
from labkit import launch, nets, timing, world
from labkit.errors import LabError, NotHere


def threads() -> list[int]:
    """Numbers of this process's threads, as os.sched_setaffinity takes them. Raises NotHere off Linux."""
    if not hasattr(os, "sched_setaffinity"):
        raise NotHere(
            "This system binds no thread to a core on request (macOS decides by itself). 13.4 needs Linux."
        )
    return [int(name) for name in os.listdir("/proc/self/task")]


def masks() -> dict[int, list[int]]:
    """Thread -> the cores on which it may run, sorted."""
    found = {}
    for thread in threads():
        with suppress(ProcessLookupError):  # it ended meanwhile
            found[thread] = sorted(os.sched_getaffinity(thread))
    return found


def usable() -> list[int]:
    """Cores that this process may use: its affinity, and not more than its cgroup's quota pays for."""
    return list(launch.my_cores()[1] or range(os.cpu_count() or 1))[: world.cores()]


def move(cores: Iterable[int]) -> None:
    """Let every thread of this process run on `cores` alone. Does nothing where nothing can be bound."""
    if not hasattr(os, "sched_setaffinity"):
        return
    for thread in threads():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)


def policies(waiting: Iterable[str]) -> list[str]:
    """The values of OMP_WAIT_POLICY to measure: `waiting`, or under a launcher the one already set."""
    given = [waiting] if isinstance(waiting, str) else list(waiting)
    if not given or not set(given) <= {"active", "passive"}:
        raise LabError(f'waiting must hold "active", "passive", or both, not {waiting!r}.')
    return [os.environ.get("OMP_WAIT_POLICY", "not set")] if world.launcher() else given


@contextmanager
def kept() -> Iterator[None]:
    """What the block does to this process's masks and to torch's number of threads is undone at its end."""
    import torch

    count, before = torch.get_num_threads(), masks() if hasattr(os, "sched_setaffinity") else {}
    try:
        yield
    finally:
        if before:  # threads that the block has begun go where the first one was
            move(before.get(os.getpid(), usable()))
        for thread, cores in before.items():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)
        torch.set_num_threads(count)


def place(comm) -> tuple[int, int, list[int]]:
    """(rank, size, cores): this rank's number among those with the same cores, how many these are, the cores.

    Ranks that a launcher has bound to cores of their own are alone with them: (0, 1, cores).
    """
    everyone = comm.allgather((launch.my_cores(), usable()))
    mates = [rank for rank, (mine, _) in enumerate(everyone) if mine == everyone[comm.rank][0]]
    return mates.index(comm.rank), len(mates), everyone[comm.rank][1]


def pictures(width: int, images: int):
    """A net whose convolutions are `width` channels wide, and made-up images and labels for it."""
    import torch

    for name, value in (("width", width), ("batch", images)):
        if not isinstance(value, int) or value < 1:
            raise LabError(f"{name} must be a whole number of at least 1, not {value!r}.")
    rng = np.random.default_rng(13)
    some = torch.from_numpy(rng.standard_normal((images, 3, 32, 32), dtype=np.float32))
    return nets.torch_conv(width), some, torch.from_numpy(rng.integers(0, 10, images))


def grid(comm, step, splits, width: int, batch: int, repeat: int) -> tuple[int, dict]:
    """A node's cores, and for each cell (processes, threads) the seconds of a step and of its allreduce.

    step and splits as in exercise 13.3. Cells: every split of the cores; one process with 1, 2, 4, ...
    threads; and twice as many threads as cores. Ranks that a cell leaves out sleep.
    """
    import torch

    node = _node(comm)
    together, found = _cores_of_all(node), {}
    alone = [(1, 2**power) for power in range(len(together).bit_length())]
    pairs = sorted((int(p), int(t)) for p, t in splits(len(together), node.size))
    crowd = (pairs[-1][0], 2 * pairs[-1][1])
    with kept():
        _unbind(together)
        for processes, count in dict.fromkeys([*alone, *pairs, crowd]):
            part = node.Split(int(node.rank >= processes), node.rank)
            if node.rank < processes:
                torch.set_num_threads(count)
                found[processes, count] = _one_cell(part, step, width, batch, repeat)
            _sleep_until_all_are_here(node)
            part.Free()
    node.Free()
    return len(together), found


def _cores_of_all(node) -> list[int]:
    return sorted({core for cores in node.allgather(usable()) for core in cores})


def _one_cell(part, step, width, batch, repeat):
    net, images, labels = pictures(width, batch)
    mine = np.array_split(np.arange(batch), part.size)[part.rank]
    images, labels = images[mine], labels[mine]
    vector = np.ones(sum(weight.numel() for weight in net.parameters()), np.float32)
    total = np.empty_like(vector)
    work = partial(step, part, net, images, labels, batch)
    whole = timing.measure(work, comm=part, repeat=repeat, seconds=2.0)
    return whole, timing.measure(lambda: part.Allreduce(vector, total), comm=part, repeat=repeat)


def ways(comm, cores_of, bind, step, width: int, batch: int, repeat: int) -> dict:
    """What `bind` did on this rank, and the seconds of a step unbound, bound, and all on one core."""
    import torch

    node = _node(comm)
    together = _cores_of_all(node)
    with kept():
        mine = sorted(int(core) for core in cores_of(*place(node)))
        bind(mine)
        after, count = masks(), torch.get_num_threads()
        net, images, labels = pictures(width, batch)
        part = np.array_split(np.arange(batch), node.size)[node.rank]

        def on(cores):
            move(cores)  # costs microseconds, in every way the same
            step(node, net, images[part], labels[part], batch)

        loose = together if _unbind(together) else mine
        calls = {"unbound": partial(on, loose), "bound": partial(on, mine)}
        calls["all ranks on one core"] = partial(on, together[:1] if loose == together else mine[:1])
        times = timing.in_turns(calls, comm=node, repeat=repeat, seconds=4.0)
    node.Free()
    return {"cores": mine, "masks": after, "threads": count, "host": launch.my_cores()[0], "times": times}


def _unbind(cores) -> bool:
    """Whether this process may use all of these: a cgroup may forbid what an affinity allows.

    Linux refuses a mask without one allowed core; of another it drops what is forbidden and says nothing.
    """
    try:
        move(cores)
    except OSError:
        return False
    return not hasattr(os, "sched_getaffinity") or os.sched_getaffinity(0) == set(cores)


def _node(comm):
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)


def _sleep_until_all_are_here(comm) -> None:
    """A barrier that leaves the cores to the others: MPI's own asks again and again, and keeps one busy."""
    here = comm.Ibarrier()
    while not here.Test():
        time.sleep(0.01)
