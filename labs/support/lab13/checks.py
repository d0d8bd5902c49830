"""The checks of lab 13: masks of cores, steps on ten images and virtual ranks, what bound ranks report."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from labkit import check, expect, launch, nets, virtual
from labkit.counting import CallLog

from support.lab13.affinity import kept, make_pool, masks, origin, usable
from support.lab13.cases import digits, part_of, trial_masks
from support.lab13.ranks import ways

IMAGES = 10
LEFT_OVER = 1.0  # in .grad before the step, as of a step before


@check.exercise("13.1")
def pieces_of_cores(cores_of):
    """Each of 1 to 8 ranks gets a fair piece of neighbouring cores, in the ranks' order, of 1 to 8
    cores that are numbered from 0, from 8, by twos, or on two sockets.
    """
    for mask, local_size in trial_masks():
        numbers = sorted(mask)
        shares = [cores_of(rank, local_size, mask) for rank in range(local_size)]
        case = f"Cores {numbers}, ranks: {local_size}"
        because = "copy it: sorted(cores)"
        expect.unchanged(set(numbers), mask, "The set of cores that cores_of was given", because=because)
        for share in shares:
            expect(np.iterable(share), f"cores_of returned {share}. Return a list of cores.")
        shares = [list(share) for share in shares]
        for rank, share in enumerate(shares):
            expect_piece(share, numbers, f"{case}: rank {rank}")
        expect_all_dealt_out(shares, numbers, case)


@check.exercise("13.2")
def amdahls_law(amdahl, speedup):
    """You find the parts of steps with and without a time for one thread, by least squares where
    times are noisy, and the speed-up for seconds, not for shares.
    """
    expect_parts(amdahl, serial=2, parallel=8, threads=[1, 2, 4, 8])
    expect_parts(amdahl, serial=0, parallel=6, threads=[1, 2, 3])
    expect_parts(amdahl, serial=3, parallel=1, threads=[2, 4])
    expect_parts(amdahl, serial=0.5, parallel=40, threads=[1, 7, 28, 56])
    noisy = {1: 10.5, 2: 5.6, 4: 4.1, 8: 2.9}
    parts = (1.747826, 8.591304)
    expect.close(amdahl(noisy), parts, f"Least squares through all points, for {noisy}", rtol=1e-6)
    gains = {(2, 8, 1): 1, (2, 8, 4): 2.5, (2, 6, 4): 16 / 7, (2, 8, math.inf): 5, (1, 9, 3): 2.5}
    for (serial, parallel, threads), gain in gains.items():
        what = f"Speed-up of {serial} s serial and {parallel} s parallel on {threads} threads"
        slips = {
            "this is the law for shares of a step. These are seconds": 1 / (serial + parallel / threads),
            "it comes out as inf / inf. Divide by the threads, never multiply by them": math.nan,
            "this is upside down. Long over short": 1 / gain,
        }
        expect.close(speedup(serial, parallel, threads), gain, what, slips=slips)


@check.exercise("13.3")
def gradient_of_all(step):
    """The gradient of 10 images is right on each of 1, 2, 3 and 4 virtual ranks (threads that stand
    for ranks).
    """
    for size in (1, 2, 3, 4):
        expect_gradients(step, size)


@check.exercise("13.4")
def every_thread_moves(bind, cores_of, step, options):
    """All threads of this process move, those of torch's pool too (undone at the end); and on real ranks all
    threads stay on their rank's cores, which no other rank has.
    """
    with kept():
        make_pool(3)
        cores = usable()
        for targets in ([cores[0]], [cores[-1]], cores):
            expect_moved(bind, targets)
    bound = launch.run(ways, cores_of, bind, step, **{**options, "repeat": 5})
    for rank, report in enumerate(bound):
        inside = all(set(mask) <= set(report["cores"]) for mask in report["masks"].values())
        elsewhere = f"Rank {rank} has cores {report['cores']}, but some of its threads may run elsewhere."
        expect(inside, elsewhere)
        expect.equal(report["threads"], len(report["cores"]), f"Torch's threads on rank {rank}")
    for host, shares in shares_by_host(bound).items():
        dealt = [core for share in shares for core in share]
        if len(shares) <= len(set(dealt)):
            expect(len(dealt) == len(set(dealt)), f"Two ranks on {host} share a core: {shares}.")


def expect_piece(share: list, cores: list[int], subject: str) -> None:
    """One rank's share: cores of the mask, at least one, none twice, neighbours."""
    expect(share, f"{subject} gets no core. Every rank needs one.")
    kinds = ", ".join({type(core).__name__ for core in share} - {"int"})
    expect(not kinds, f"{subject} gets cores of type {kinds}. os.sched_setaffinity takes int: .tolist()?")
    strange = [core for core in share if core not in cores]
    expect(not strange, f"{subject} gets core {strange}, not one of these.")
    places = sorted(cores.index(core) for core in share)
    expect(len(set(places)) == len(places), f"{subject} gets {share}, one twice.")
    neighbours = places == list(range(places[0], places[-1] + 1))
    expect(neighbours, f"{subject} gets {share}. Take neighbours, one piece.")


def expect_all_dealt_out(shares: list[list], cores: list[int], case: str) -> None:
    """Enough cores for all ranks: each core belongs to one rank, shares are fair, and in the ranks' order."""
    dealt = [core for share in shares for core in share]
    unused = [core for core in cores if core not in dealt]
    expect(not unused, f"{case}: nobody gets core {unused}. Deal out all of them.")
    twice = sorted({core for core in dealt if dealt.count(core) > 1})
    expect(not twice, f"{case}: core {twice} belongs to two ranks, and there are enough for all.")
    lengths = [len(share) for share in shares]
    fair = max(lengths) - min(lengths) <= 1
    expect(fair, f"{case}: shares of {lengths} cores. They may differ by one at most.")
    firsts = [min(share) for share in shares]
    order = f"{case}: the pieces begin at cores {firsts}. Rank 0 gets the first piece, and so on."
    expect(firsts == sorted(firsts), order)


def expect_parts(amdahl: Callable, serial: float, parallel: float, threads: list[int]) -> None:
    """`amdahl` finds the two parts of steps that are made of just these."""
    seconds = {count: serial + parallel / count for count in threads}
    parts = amdahl(dict(seconds))
    expect(np.shape(parts) == (2,), f"amdahl returns two numbers, serial and parallel seconds, not {parts}.")
    slope, start = np.polyfit(threads, list(seconds.values()), 1)
    over_threads = "that is a line over the threads. It is straight over x = 1 / threads"
    whole = serial + parallel
    slips = {
        "swapped?": (parallel, serial),
        "these are shares of the step. Return seconds": (serial / whole, parallel / whole),
        over_threads: (start, slope),
        f"{over_threads}, serial comes first": (slope, start),
    }
    times = ", ".join(f"{count}: {value:.4g} s" for count, value in seconds.items())
    what = f"Seconds by threads {times}: serial and parallel part"
    expect.close(parts, (serial, parallel), what, atol=1e-6, slips=slips)


def expect_gradients(step: Callable, size: int) -> None:
    """On so many virtual ranks the gradient of one process that has all 10 images, and the same weights."""
    trial = ten_images(step, size)
    lower = "`allreduce`, in lower case, goes by way of pickle, which copies and takes longer. Use `add_up`."
    for rank, gradient in enumerate(trial.gradients):
        expect("allreduce" not in trial.calls[rank], lower)
        case = f"10 images, ranks: {size}, rank {rank}"
        changed = f"{case}: the weights changed. Only their .grad may, which an optimizer uses."
        expect(not trial.moved[rank], changed)
        complete = len(gradient) == len(trial.right)
        expect(complete, f"{case}: a gradient is missing. Did you call backward()?")
        what = f"{case}: gradient of the mean over all 10 images"
        because = "right on rank 0: every rank needs the sum, use add_up" if rank else ""
        slips = trial.wrong(rank)
        expect.close(gradient, trial.right, what, rtol=1e-3, atol=1e-5, slips=slips, because=because)


def expect_moved(bind: Callable, cores: list[int]) -> None:
    """Every thread of this process runs on these cores: those that were there, and those begun after bind."""
    before = masks()
    bind(list(cores))
    after = masks()  # thread: the cores on which it may run
    for thread, mask in after.items():
        elsewhere = f"thread {thread} ({origin(thread, before)}) may still run on cores {mask}"
        cure = "A mask belongs to a thread, and 0 means the calling one alone. Move every thread."
        expect(set(mask) <= set(cores), f"bind({cores}): {elsewhere}. {cure}")
    own = after[os.getpid()]
    expect(own == cores, f"bind({cores}): the main thread may run on {own} alone. Give it all cores.")
    expect.equal(torch.get_num_threads(), len(cores), f"Torch's threads after bind({cores})")
    make_pool()
    late = {thread: mask for thread, mask in masks().items() if not set(mask) <= set(cores)}
    expect(not late, f"Threads begun after bind({cores}) may run elsewhere: {late}.")


@dataclass
class TrialStep:
    """What the ranks have after a step: by rank the gradient in one vector, and what it did on its way."""

    gradients: list[np.ndarray]
    moved: list[bool]
    calls: list[list[str]]  # the names of a rank's calls of MPI
    right: np.ndarray  # gradient of the mean loss of all images
    own: list[np.ndarray]  # by rank, of the sum of its losses over all images

    def wrong(self, rank: int) -> dict[str, np.ndarray]:
        """Mistake -> the gradient that it leaves on this rank."""
        ranks = len(self.own)
        parts = [len(part_of(IMAGES, ranks, number)) for number in range(ranks)]
        means = [own * IMAGES / part for own, part in zip(self.own, parts, strict=True)]
        stale = "gradients of the step before are still in it. Set them to 0 first"
        return {
            "this is only this rank's own gradient": self.own[rank],
            stale: self.right + LEFT_OVER,
            f"{stale} (on each rank)": self.right + ranks * LEFT_OVER,
            "this is the gradient of the sum over the images. Take the mean": IMAGES * self.right,
            f"this is {ranks} times the right gradient. Divide once, by `batch`": ranks * self.right,
            f"this is {1 / ranks:.3g} times the right gradient. Divide once, by `batch`": self.right / ranks,
            "this is a tenth of the right gradient. A mean is divided already": self.right / IMAGES,
            "this is a mean of means of unequal parts. Sum losses, divide by `batch`": sum(means) / ranks,
        }


def ten_images(step: Callable, ranks: int) -> TrialStep:
    """step(comm, net, images, labels, batch) on ten of the digits' images and so many virtual ranks."""
    images, labels = digits(IMAGES)
    results = virtual.Cluster(nodes=ranks).run(partial(_try_step, step)).results
    own = [_gradient_of(part_of(IMAGES, ranks, rank), images, labels) for rank in range(ranks)]
    gradients, moved, calls = zip(*results, strict=True)
    right = _gradient_of(np.arange(IMAGES), images, labels)
    return TrialStep(list(gradients), list(moved), list(calls), right, own)


def _try_step(step: Callable, comm) -> tuple[np.ndarray, bool, list[str]]:
    images, labels = digits(IMAGES)
    own = part_of(IMAGES, comm.size, comm.rank)
    net = nets.torch_digits()
    for weight in net.parameters():
        weight.grad = torch.full_like(weight, LEFT_OVER)
    before = [weight.detach().clone() for weight in net.parameters()]
    log = CallLog(comm)
    step(log, net, images[own], labels[own], IMAGES)
    moved = any(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))
    return _gradient(net), moved, log.calls


def _gradient_of(part: np.ndarray, images, labels) -> np.ndarray:
    """What a rank with these images has alone: the sum of its losses, divided by all images."""
    net = nets.torch_digits()
    loss = torch.nn.functional.cross_entropy(net(images[part]), labels[part], reduction="sum")
    (loss / len(images)).backward()
    return _gradient(net)


def _gradient(net) -> np.ndarray:
    parts = [weight.grad.numpy().ravel() for weight in net.parameters() if weight.grad is not None]
    return np.concatenate(parts) if parts else np.empty(0)


def shares_by_host(reports: list[dict]) -> dict[str, list[list[int]]]:
    """Host -> the cores of each of its ranks. reports: by rank, of `ways`."""
    shares: dict[str, list[list[int]]] = {}
    for report in reports:
        shares.setdefault(report["host"], []).append(report["cores"])
    return shares
