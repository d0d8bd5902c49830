"""Lab 13: its checks, the cores and threads of this process, and steps on real ranks.

Linux keeps an affinity mask for every *thread*. `os.sched_setaffinity(0, cores)` changes the
calling one, and threads begun later inherit the mask of the one that begins them
(sched_setaffinity(2)).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import torch
import virtual
from labkit import check, data, expect, launch, nets, timing, world
from labkit.counting import CallLog
from labkit.errors import NotHere

# As os.sched_getaffinity gives them: a set, in no order, of a part of the machine, numbered from
# anywhere.
MASKS = (
    {0, 1, 2, 3},
    {0, 1, 2, 3, 4, 5, 6},
    {8, 9, 10, 11},
    {64, 2, 65, 3, 66, 1, 67, 4},  # without 0, so that in no set of them 1 comes first
    {5},
    {0, 2, 4, 6},
)
LEFT_OVER = 1.0  # in .grad before the step, as of a step before
PARTS = ((7,), (7, 3), (5, 1, 4), (1, 4, 2, 3))  # images of each rank, no two parts alike


@check.exercise("13.1")
def pieces_of_cores(cores_of):
    """Each of 1 to 8 ranks gets a fair part of neighboring cores, in the ranks' order, of 1 to 8
    cores that are numbered from 0, from 8, by twos, or on two sockets.
    """
    for numbers in MASKS:
        for local_size in (size for size in (1, 2, 3, 4, 5, 8) if size <= len(numbers)):
            mask = set(numbers)
            with check.case(f"Cores {sorted(mask)}, ranks: {local_size}"):
                shares = [cores_of(rank, local_size, mask) for rank in range(local_size)]
                because = "copy it: sorted(cores)"
                expect.unchanged(
                    numbers, mask, "the set of cores that cores_of was given", because=because
                )
                for rank, share in enumerate(shares):
                    expect(
                        hasattr(share, "__getitem__"),  # a set has no order
                        f"cores_of returned {share}. Return a list of cores.",
                    )
                    _one_piece(list(share), sorted(mask), f"rank {rank}")
                _all_dealt_out([list(share) for share in shares], sorted(mask))


def _one_piece(share: list, cores: list[int], subject: str) -> None:
    """One rank's share: cores of the mask, at least one, none twice, neighbors."""
    expect(share, f"{subject} gets no core. Every rank needs one.")
    kinds = ", ".join({type(core).__name__ for core in share} - {"int"})
    expect(
        not kinds,
        f"{subject} gets cores of type {kinds}. os.sched_setaffinity takes int: .tolist()?",
    )
    strange = [core for core in share if core not in cores]
    expect(not strange, f"{subject} gets core {strange}, not one of these.")
    places = [cores.index(core) for core in share]
    expect(len(set(places)) == len(places), f"{subject} gets {share}, one twice.")
    neighbors = places == list(range(places[0], places[-1] + 1))
    expect(neighbors, f"{subject} gets {share}. Take neighboring cores, in ascending order.")


def _all_dealt_out(shares: list[list], cores: list[int]) -> None:
    """Enough cores for all ranks: each core belongs to one rank, shares are fair, and in the ranks'
    order."""
    dealt = [core for share in shares for core in share]
    unused = [core for core in cores if core not in dealt]
    expect(not unused, f"no rank gets core {unused}. Each core belongs to one of the ranks.")
    twice = sorted({core for core in dealt if dealt.count(core) > 1})
    expect(not twice, f"core {twice} belongs to two ranks, and there are enough for all.")
    lengths = [len(share) for share in shares]
    fair = max(lengths) - min(lengths) <= 1
    expect(fair, f"parts of {lengths} cores. They may differ by one at most.")
    firsts = [min(share) for share in shares]
    order = f"the parts begin at cores {firsts}. Rank 0 gets the first part, and so on."
    expect(firsts == sorted(firsts), order)


@check.exercise("13.2")
def gradient_of_all(step):
    """The gradient of 7 images is right on one rank, and that of 10 on each of 2, 3 and 4 virtual
    ranks (threads that stand for ranks), whose parts all differ in size; a rank computes only with
    its own images.
    """
    images, labels = (torch.tensor(part[:10]) for part in data.digits()[:2])

    def one_step(comm, parts, count):
        own = parts[comm.rank]
        mine = images[own], labels[own]
        net = nets.torch_digits()
        passed = []  # images of each forward pass
        net.register_forward_pre_hook(lambda _, inputs: passed.append(len(inputs[0])))
        for weight in net.parameters():  # on 4 ranks it is the first step: no gradient yet
            weight.grad = torch.full_like(weight, LEFT_OVER) if comm.size < 4 else None
        before = [weight.detach().clone() for weight in net.parameters()]
        log = CallLog(comm)
        try:
            step(log, net, *mine, count)
        except AttributeError as error:
            cause = ".grad is None before the first step, and from zero_grad() to backward()"
            expect("'NoneType'" not in str(error), f"{cause}. Call add_up after backward().")
            raise
        moved = any(
            old.dtype != new.dtype or not torch.equal(old, new)
            for old, new in zip(before, net.parameters(), strict=True)
        )
        written = not (torch.equal(mine[0], images[own]) and torch.equal(mine[1], labels[own]))
        return _gradient(net), moved, written, sum(passed), log.calls

    def alone(part, count):
        """What a rank with these images has alone: the sum of its losses, divided by all images."""
        net = nets.torch_digits()
        loss = torch.nn.functional.cross_entropy(net(images[part]), labels[part], reduction="sum")
        (loss / count).backward()
        return _gradient(net)

    for sizes in PARTS:
        ranks, count = len(sizes), sum(sizes)
        right = alone(np.arange(count), count)
        parts = np.split(np.arange(count), np.cumsum(sizes)[:-1])
        own = [alone(part, count) for part in parts]
        means = sum(one * count / len(part) for one, part in zip(own, parts, strict=True))
        results = virtual.Cluster(nodes=ranks).run(one_step, parts, count).results
        for rank, (gradient, moved, written, passed, calls) in enumerate(results):
            with check.case(f"{count} images, ranks: {ranks}, rank {rank}"):
                lower = (
                    "`allreduce`, in lower case, goes by way of pickle, which copies and takes"
                    " longer"
                )
                expect(
                    "allreduce" not in calls, f"{lower}. Use `add_up`, and the argument `batch`."
                )
                expect(
                    not moved, "the weights changed. Only their .grad may, which an optimizer uses."
                )
                expect(not written, "the images or labels were changed; they belong to the caller.")
                expect(
                    len(gradient) == len(right), "a gradient is missing. Did you call backward()?"
                )
                expect.close(
                    gradient,
                    right,
                    f"gradient of the mean over all {count} images",
                    rtol=1e-3,
                    atol=1e-5,
                    slips={
                        "this is only this rank's own gradient": own[rank],
                        "gradients of the step before are still in it. Set them to 0 first": (
                            right + ranks * LEFT_OVER
                        ),
                        "this is a mean of means of unequal parts. Sum losses, divide by `batch`": (
                            means / ranks
                        ),
                        "this is the sum of the ranks' means. Sum losses, divide by `batch`": means,
                    },
                    because=_times(gradient, right),
                )
                expect(
                    passed <= len(parts[rank]),
                    f"{passed} images passed through the net, and this rank has"
                    f" {len(parts[rank])}. Each rank computes once, with its own images.",
                )


def _times(gradient, right) -> str:
    """A sentence where the gradient is some times the right one."""
    times = float(gradient @ right / (right @ right))
    if not np.allclose(gradient, times * right, rtol=1e-3, atol=1e-5):
        return ""
    return f"this is {times:.3g} times the right gradient. Divide once, by `batch`, and add up once"


def _gradient(net) -> np.ndarray:
    parts = [weight.grad.numpy().ravel() for weight in net.parameters() if weight.grad is not None]
    return np.concatenate(parts) if parts else np.empty(0)


@check.exercise("13.3")
def every_thread_moves(bind, cores_of, step, options):
    """All threads of this process move, those of torch's pool too (undone at the end); and on real
    ranks all threads stay on their rank's cores, which no other rank has.
    """
    with kept():
        torch.set_num_threads(3)
        _make_pool()
        cores = usable()
        for targets in ([cores[0]], [cores[-1]], cores):
            move(cores)  # away from the targets before
            with check.case(f"after bind({targets})"):
                _moved(bind, targets)
    shares: dict[str, list] = {}  # by host
    bound = launch.run(
        ways, cores_of, bind, step, **{**options, "repeat": 5, "batch": 12, "width": 4}
    )
    for rank, report in enumerate(bound):
        inside = all(set(mask) <= set(report["cores"]) for mask in report["masks"].values())
        elsewhere = (
            f"Rank {rank} has cores {report['cores']}, but some of its threads may run elsewhere."
        )
        expect(inside, elsewhere)
        expect.equal(report["threads"], len(report["cores"]), f"Torch's threads on rank {rank}")
        shares.setdefault(report["host"], []).append(report["cores"])
    for host, own in shares.items():
        dealt = [core for share in own for core in share]
        if len(own) <= len(set(dealt)):
            expect(len(dealt) == len(set(dealt)), f"Two ranks on {host} share a core: {own}.")


def _moved(bind, cores: list[int]) -> None:
    """Every thread of this process runs on these cores: those that were there, and those begun
    after bind."""
    before = masks()
    bind(list(cores))
    after = masks()  # thread: the cores on which it may run
    for thread, mask in after.items():
        whose = "it was there before bind" if thread in before else "begun by bind itself"
        whose = "the main one" if thread == os.getpid() else whose
        cure = "A mask belongs to a thread, and 0 means the calling one alone. Move every thread."
        cure = cure if mask == before.get(thread) else "Bind it to the cores of the list."
        inside = set(mask) <= set(cores)
        expect(inside, f"thread {thread} ({whose}) may still run on cores {mask}. {cure}")
    own = after[os.getpid()]
    expect(own == cores, f"the main thread may run on {own} alone. Give it all cores.")
    expect.equal(torch.get_num_threads(), len(cores), "Torch's threads")
    _make_pool()
    late = {thread: mask for thread, mask in masks().items() if not set(mask) <= set(cores)}
    expect(not late, f"threads begun after it may run elsewhere: {late}.")


def _make_pool() -> None:
    """Begin torch's pool of threads, by a loop that it shares out."""
    torch.relu(torch.ones(1 << 18))


def threads() -> list[int]:
    """Numbers of this process's threads, as os.sched_setaffinity takes them. Raises NotHere off
    Linux."""
    if not _can_bind():
        raise NotHere(
            "This system binds no thread to a core on request (macOS decides by itself). 13.3 needs"
            " Linux."
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
    """Cores that this process may use: its affinity, and not more than its cgroup's quota pays
    for."""
    cores = launch.my_cores()[1] or range(os.cpu_count() or 1)
    return list(cores)[: world.cores()]


def move(cores: Iterable[int]) -> None:
    """Let every thread of this process run on `cores` alone. Does nothing where nothing can be
    bound."""
    if not _can_bind():
        return
    for thread in threads():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)


def may_use(cores: Iterable[int]) -> bool:
    """Moves all threads to these cores and tells whether that is allowed: a cgroup may forbid some.

    Linux refuses a mask without one allowed core; of another it drops what is forbidden and says
    nothing.
    """
    try:
        move(cores)
    except OSError:
        return False
    return not _can_bind() or os.sched_getaffinity(0) == set(cores)


@contextmanager
def kept() -> Iterator[None]:
    """What the block does to this process's masks and to torch's number of threads is undone at its
    end."""
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


def place(comm) -> tuple[int, int, list[int]]:
    """(rank, size, cores): this rank's number among those with the same cores, how many these are,
    the cores.

    Ranks that a launcher has bound to cores of their own are alone with them: (0, 1, cores). Where
    there are more ranks than cores, size is the number of cores, and several ranks have one number.
    """
    everyone = comm.allgather((launch.my_cores(), usable()))
    own, cores = everyone[comm.rank]
    mates = [rank for rank, (others, _) in enumerate(everyone) if others == own]
    size = min(len(mates), len(cores))
    return mates.index(comm.rank) % size, size, cores


def pictures(width: int, images: int):
    """A net whose convolutions are `width` channels wide, and made-up images and labels for it."""
    rng = np.random.default_rng(13)
    pixels = torch.from_numpy(rng.standard_normal((images, 3, 32, 32), dtype=np.float32))
    return nets.torch_conv(width), pixels, torch.from_numpy(rng.integers(0, 10, images))


def part_of(images: int, ranks: int, rank: int) -> np.ndarray:
    """The numbers of a rank's images; with more ranks than divide them the first ones get one
    more."""
    return np.array_split(np.arange(images), ranks)[rank]


def splits(cores: int, most: int) -> list[tuple[int, int]]:
    """All (processes, threads) with processes x threads = cores, and at most `most` processes."""
    return [(p, cores // p) for p in range(1, most + 1) if cores % p == 0]


def grid(comm, step, width: int, batch: int, repeat: int) -> tuple[int, dict]:
    """A node's cores, and for each cell (processes, threads) the seconds of a step and of its
    allreduce.

    step as in exercise 13.2. Cells: every split of the cores; one process with 1, 2, 4, ...
    threads; and twice as many threads as cores. Ranks that a cell leaves out sleep.
    """
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
    """A key that sorts cells: no thread of an earlier one is left, to wait for ever on a core of a
    later one.

    OpenMP keeps a process's threads until it asks for fewer, but at least two. So cells of one
    thread come first, then those of few processes: the others have no threads yet.
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
    """A barrier that leaves the cores to the others: MPI's own asks again and again, and keeps one
    busy."""
    here = comm.Ibarrier()
    while not here.Test():
        time.sleep(0.01)


def ways(comm, cores_of, bind, step, width: int, batch: int, repeat: int) -> dict:
    """What `bind` did on this rank, and the seconds of a step unbound, bound, and all on one core.

    Keys: "cores" of this rank, "masks" of its threads, torch's "threads", "host", "times".
    """
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
