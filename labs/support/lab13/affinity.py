"""On which cores the threads of this process may run, and how to change that and take it back.

Linux keeps an affinity mask for every *thread*. `os.sched_setaffinity(0, cores)` changes the calling one, and
threads begun later inherit the mask of the one that begins them (sched_setaffinity(2)).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labkit import launch, world
from labkit.errors import NotHere

NODES = Path("/sys/devices/system/node")
SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def threads() -> list[int]:
    """Numbers of this process's threads, as os.sched_setaffinity takes them. Raises NotHere off Linux."""
    if not _can_bind():
        raise NotHere(
            "This system binds no thread to a core on request (macOS decides by itself). 13.4 needs Linux."
        )
    return [int(name) for name in os.listdir("/proc/self/task")]


def _can_bind() -> bool:
    return hasattr(os, "sched_setaffinity")


def masks() -> dict[int, list[int]]:
    """Thread -> the cores on which it may run, sorted."""
    allowed = {}
    for thread in threads():
        with suppress(ProcessLookupError):  # it ended meanwhile
            allowed[thread] = sorted(os.sched_getaffinity(thread))
    return allowed


def usable() -> list[int]:
    """Cores that this process may use: its affinity, and not more than its cgroup's quota pays for."""
    cores = launch.my_cores()[1] or range(os.cpu_count() or 1)
    return list(cores)[: world.cores()]


def move(cores: Iterable[int]) -> None:
    """Let every thread of this process run on `cores` alone. Does nothing where nothing can be bound."""
    if not _can_bind():
        return
    for thread in threads():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)


def may_use(cores: Iterable[int]) -> bool:
    """Moves all threads to these cores and tells whether that is allowed: a cgroup may forbid some.

    Linux refuses a mask without one allowed core; of another it drops what is forbidden and says nothing.
    """
    try:
        move(cores)
    except OSError:
        return False
    return not _can_bind() or os.sched_getaffinity(0) == set(cores)


@contextmanager
def kept() -> Iterator[None]:
    """What the block does to this process's masks and to torch's number of threads is undone at its end."""
    import torch

    count = torch.get_num_threads()
    before = masks() if _can_bind() else {}
    try:
        yield
    finally:
        if before:  # threads that the block has begun go where the first one was
            move(before.get(os.getpid(), usable()))
        for thread, cores in before.items():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)
        torch.set_num_threads(count)


def make_pool(count: int | None = None) -> None:
    """Begin torch's pool of threads, of so many (None: as it is set), by a loop that it shares out."""
    import torch

    if count is not None:
        torch.set_num_threads(count)
    torch.relu(torch.ones(1 << 18))


def origin(thread: int, before: Iterable[int]) -> str:
    """Whose a thread is, in words. before: the threads that were there before bind was called."""
    if thread == os.getpid():
        return "the main one"
    return "it was there before bind" if thread in before else "begun by bind itself"


def place(comm) -> tuple[int, int, list[int]]:
    """(rank, size, cores): this rank's number among those with the same cores, how many these are, the cores.

    Ranks that a launcher has bound to cores of their own are alone with them: (0, 1, cores). Where there are
    more ranks than cores, size is the number of cores, and several ranks have one number.
    """
    everyone = comm.allgather((launch.my_cores(), usable()))
    own, cores = everyone[comm.rank]
    mates = [rank for rank, (others, _) in enumerate(everyone) if others == own]
    size = min(len(mates), len(cores))
    return mates.index(comm.rank) % size, size, cores


def describe() -> str:
    """The cores that this process may use, by NUMA node, and whether some are two threads of one core."""
    own = usable()
    nodes = []
    for node in sorted(NODES.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        here = [core for core in _numbers((node / "cpulist").read_text()) if core in own]
        if here:
            nodes.append(f"NUMA node {node.name[4:]}: {_ranges(here)}")
    if not nodes:
        nodes = [f"{_ranges(own)} (this system tells no NUMA nodes)"]
    pairs = {tuple(_numbers(Path(SIBLINGS.format(core)).read_text())) for core in own if _tells(core)}
    twice = [pair for pair in sorted(pairs) if len(set(pair) & set(own)) > 1]
    more = f" Hardware threads of one core: {', '.join(map(_ranges, twice[:2]))} …" if twice else ""
    return f"{len(own)} usable: {'; '.join(nodes)}.{more}"


def _tells(core: int) -> bool:
    return Path(SIBLINGS.format(core)).exists()


def _numbers(text: str) -> list[int]:
    """Linux's lists: "0-3,8" is 0 1 2 3 8."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        if part:
            ends = part.split("-")
            numbers += range(int(ends[0]), int(ends[-1]) + 1)
    return numbers


def _ranges(numbers: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if part[1:] else str(part[0]) for part in parts)
