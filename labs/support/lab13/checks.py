"""Trial cases of lab 13: shares of cores, Amdahl's law, a step on several ranks, threads that move."""

from __future__ import annotations

import math
import os
from functools import partial

import numpy as np
from labkit import data, nets, virtual
from labkit.checks import expect

from support.lab13.ranks import kept, masks, usable

# As os.sched_getaffinity gives them: a set, in no order, of a part of the machine, numbered from anywhere.
CORES = ({0, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6}, {8, 9, 10, 11}, {64, 2, 65, 3, 66, 1, 67, 0}, {5}, {0, 2, 4, 6})
SPEEDUPS = ((2, 8, 1, 1), (2, 8, 4, 2.5), (2, 6, 4, 16 / 7), (2, 8, math.inf, 5), (1, 9, 3, 2.5))
LOCAL_SIZES = (1, 2, 3, 4, 5, 8, 12)
# Seconds of a step by threads, made of a serial part and one that all threads share.
STEPS = ((2.0, 8.0, (1, 2, 4, 8)), (0.0, 6.0, (1, 2, 3)), (3.0, 1.0, (2, 4)), (0.5, 40.0, (1, 7, 28, 56)))


def expect_cores(cores_of) -> None:
    """Shares of the cores for every local rank: disjoint, contiguous, complete, fair."""
    for cores in CORES:
        for size in LOCAL_SIZES:
            mask = set(cores)
            given = [cores_of(rank, size, mask) for rank in range(size)]
            expect(mask == cores, "cores_of changed the set that it was given. Copy it: sorted(cores).")
            for one in given:
                expect(np.iterable(one), f"cores_of returned {one}. Return a list of cores.")
            shares = [[int(one) for one in share] for share in given]
            _expect_shares(shares, sorted(cores), f"Cores {_list(sorted(cores))}, {_many(size, 'rank')}")


def _expect_shares(shares: list[list[int]], cores: list[int], where: str) -> None:
    for rank, share in enumerate(shares):
        expect(share, f"{where}: rank {rank} gets no core. Every rank needs one, if need be a shared one.")
        strange = [core for core in share if core not in cores]
        expect(not strange, f"{where}: rank {rank} gets core {_list(strange[:1])}, not one of these.")
        places = sorted(cores.index(core) for core in share)
        expect(len(set(places)) == len(places), f"{where}: rank {rank} gets {_list(share)}, one twice.")
        one_piece = places == list(range(places[0], places[0] + len(places)))
        expect(one_piece, f"{where}: rank {rank} gets {_list(share)}. Take neighbours, one piece.")
    every = [core for share in shares for core in share]
    unused = [core for core in cores if core not in every]
    left_out = unused and len(shares) <= len(cores)
    expect(not left_out, f"{where}: nobody gets core {_list(unused)}. Deal out all of them.")
    lengths = [len(share) for share in shares]
    if len(shares) <= len(cores):
        twice = sorted({core for core in every if every.count(core) > 1})
        expect(not twice, f"{where}: core {_list(twice)} belongs to two ranks, and there are enough for all.")
        fair = max(lengths) - min(lengths) <= 1
        expect(fair, f"{where}: shares of {_list(lengths)} cores. They may differ by one at most.")
        firsts = [min(share) for share in shares]
        order = f"{where}: the pieces begin at cores {_list(firsts)}. Rank 0 gets the first piece, and so on."
        expect(firsts == sorted(firsts), order)
    else:
        expect(max(lengths) == 1, f"{where}: more ranks than cores, so one core is a rank's share.")
        users = [every.count(core) for core in cores]
        fair = max(users) - min(users) <= 1
        expect(fair, f"{where}: {_list(users)} ranks on the cores. These numbers may differ by one at most.")


def _list(numbers) -> str:
    return " ".join(str(number) for number in numbers)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def expect_amdahl(amdahl, speedup) -> None:
    """The two parts of steps that are made of just these, also where nobody measured one thread; noise."""
    for serial, parallel, threads in STEPS:
        seconds = {count: serial + parallel / count for count in threads}
        got = np.asarray(amdahl(dict(seconds)), float)
        where = ", ".join(f"{_many(count, 'thread')} {value:.4g} s" for count, value in seconds.items())
        expect(got.shape == (2,), f"amdahl returns two numbers, serial and parallel seconds, not {got}.")
        swapped = serial != parallel and np.allclose(got, (parallel, serial), atol=1e-6)
        expect(not swapped, f"{where}: {got[0]:.4g} s serial and {got[1]:.4g} s parallel. Swapped?")
        share = np.allclose(got, np.divide((serial, parallel), serial + parallel), atol=1e-6)
        expect(not share or serial + parallel == 1, f"{where}: {got} are shares of the step. Return seconds.")
        slope, start = np.polyfit(threads, list(seconds.values()), 1)
        over = len(threads) > 2 and np.allclose(sorted(got), sorted((start, slope)), atol=1e-6)
        expect(not over, f"{where}: that is a line over the threads. It is straight over x = 1 / threads.")
        expect.close(got, (serial, parallel), f"{where}: serial and parallel seconds", atol=1e-6)
    noisy = {1: 10.5, 2: 5.6, 4: 4.1, 8: 2.9}
    want = np.polyfit(1 / np.array(list(noisy)), list(noisy.values()), 1)[::-1]
    expect.close(amdahl(noisy), want, f"Least squares through all points, for {noisy}", rtol=1e-6)
    for serial, parallel, threads, want in SPEEDUPS:
        got = speedup(serial, parallel, threads)
        who = f"Speed-up of {serial} s serial and {parallel} s parallel on {_many(threads, 'thread')}"
        expect(got is not None, "speedup returned None. Return a number.")
        shares = 1 / (serial + parallel / threads)
        formula = f"{who}: {got:.4g} is the law for shares of a step. These are seconds."
        expect(not np.isclose(got, shares), formula)
        expect(not np.isnan(got), f"{who}: nan, as inf / inf. Divide by the threads, never multiply by them.")
        expect(want == 1 or not np.isclose(got * want, 1), f"{who}: {got:.4g}, upside down. Long over short.")
        expect.close(got, want, who)


def expect_splits(splits) -> None:
    """All pairs (processes, threads) that use the cores."""
    for cores, most in ((1, 4), (2, 4), (4, 4), (8, 4), (6, 6), (12, 8), (7, 4), (56, 64)):
        want = [(p, cores // p) for p in range(1, min(most, cores) + 1) if cores % p == 0]
        given = splits(cores, most)
        expect(given is not None, "splits returned None. Return a list of pairs.")
        got, where = sorted((int(p), int(t)) for p, t in given), f"Splits of {_many(cores, 'core')}"
        for p, t in got:
            expect(
                p * t == cores, f"{where}: {p} processes of {t} threads use {p * t}. p must divide the cores."
            )
            expect(
                p <= most, f"{where}: {p} processes, but at most {most} are allowed. Processes come first."
            )
        left = [pair for pair in want if pair not in got]
        expect(not left, f"{where}, at most {most} processes: {left} is missing.")
        expect.equal(got, want, f"Splits of {cores} cores, (processes, threads), at most {most} processes")


def expect_step(step) -> None:
    """The gradients of one process with the whole batch, on each of 1, 2, 3, 4 virtual ranks."""
    import torch

    images, labels = (torch.tensor(part[:10]) for part in data.digits()[:2])
    net = nets.torch_digits()
    torch.nn.functional.cross_entropy(net(images), labels).backward()
    want = _gradients(net)
    for p in (1, 2, 3, 4):
        run = virtual.Cluster(nodes=p).run(partial(_try_step, step, images, labels))
        owns = [_gradients_of(images, labels, p, rank) for rank in range(p)]
        parts = np.array_split(labels, p)
        means = sum(10 * own / len(part) for own, part in zip(owns, parts, strict=True)) / p
        for rank, (got, moved) in enumerate(run.results):
            where, same = f"10 images on {_many(p, 'rank')}, rank {rank}", partial(_same, got)
            expect(not moved, f"{where}: the weights changed. Only their .grad may, which an optimizer uses.")
            expect(len(got) == len(want), f"{where}: a gradient is missing. Did you call backward()?")
            expect(p == 1 or not same(owns[rank]), f"{where}: only this rank's own gradient.")
            stale = same(want + 1) or same(want + p)
            expect(not stale, f"{where}: gradients of the step before are still in it. Set them to 0 first.")
            expect(not same(10 * want), f"{where}: the gradient of the sum over the images. Take the mean.")
            for factor in (p, 1 / p):
                wrong = p > 1 and same(factor * want)
                expect(not wrong, f"{where}: {factor:.3g} times the right gradient. Divide once, by `batch`.")
            tenth = f"{where}: a tenth of the right gradient. A mean is divided already."
            expect(p > 1 or not same(want / 10), tenth)
            uneven = p == 3 and same(means)
            expect(not uneven, f"{where}: a mean of means of unequal parts. Sum losses, divide by `batch`.")
            alone = rank == 0 or same(want)
            expect(alone, f"{where}: wrong, though right on rank 0. Every rank needs the sum: use Allreduce.")
            expect.close(got, want, f"{where}: gradient of the mean over all 10 images", rtol=1e-3, atol=1e-5)


def _same(one, other) -> bool:
    return np.allclose(one, other, rtol=1e-3, atol=1e-5)


def _try_step(step, images, labels, comm):
    net, mine = nets.torch_digits(), np.array_split(np.arange(len(images)), comm.size)[comm.rank]
    for weight in net.parameters():
        weight.grad = 1 + weight.detach() * 0  # left from the step before
    before = [weight.detach().clone() for weight in net.parameters()]
    step(comm, net, images[mine], labels[mine], len(images))
    moved = any((old != new).any() for old, new in zip(before, net.parameters(), strict=True))
    return _gradients(net), bool(moved)


def _gradients_of(images, labels, p, rank):
    """What a rank finds alone, if the loss is the sum over its images, divided by all of them."""
    import torch

    net, mine = nets.torch_digits(), np.array_split(np.arange(len(images)), p)[rank]
    loss = torch.nn.functional.cross_entropy(net(images[mine]), labels[mine], reduction="sum")
    (loss / len(images)).backward()
    return _gradients(net)


def _gradients(net) -> np.ndarray:
    found = [weight.grad.numpy().ravel() for weight in net.parameters() if weight.grad is not None]
    return np.concatenate(found) if found else np.empty(0)


def expect_bind(bind) -> None:
    """Every thread of this process moves, those of torch's pool too; and what was there comes back."""
    import torch

    with kept():
        torch.set_num_threads(3)
        torch.relu(torch.ones(1 << 18))  # a parallel loop: now the pool is there
        before, main = masks(), os.getpid()
        for cores in ([usable()[0]], [usable()[-1]], usable()):
            bind(list(cores))
            after, count = masks(), torch.get_num_threads()
            for thread, allowed in after.items():
                how = "it was there before bind" if thread in before else "begun by bind itself"
                how = "the main one" if thread == main else how
                expect(
                    set(allowed) <= set(cores),
                    f"bind({cores}): thread {thread} ({how}) may still run on cores {_list(allowed)}. A mask "
                    "belongs to a thread, and 0 means the calling one alone. Move every thread.",
                )
            less = f"bind({cores}): the main thread may run on {_list(after[main])} alone. Give it all cores."
            expect(after[main] == cores, less)
            expect.equal(count, len(cores), f"Torch's threads after bind({cores})")
            torch.relu(torch.ones(1 << 18))
            late = {t: m for t, m in masks().items() if not set(m) <= set(cores)}
            expect(not late, f"Threads begun after bind({cores}) may run elsewhere: {late}.")


def expect_bound(found: list[dict]) -> None:
    """What each real rank reports: its own cores, all threads on them, as many as cores, nobody else's."""
    for rank, one in enumerate(found):
        own, inside = one["cores"], all(set(mask) <= set(one["cores"]) for mask in one["masks"].values())
        expect(inside, f"Rank {rank} has cores {_list(own)}, but some of its threads may run elsewhere.")
        expect.equal(one["threads"], len(one["cores"]), f"Torch's threads on rank {rank}")
    for host in {one["host"] for one in found}:
        sets = [one["cores"] for one in found if one["host"] == host]
        every = [core for cores in sets for core in cores]
        if len(sets) <= len(set(every)):
            expect(len(every) == len(set(every)), f"Two ranks on {host} share a core: {sets}.")
