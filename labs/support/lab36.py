"""The check of lab 36, sums on virtual ranks that move in calls of MPI alone, and steps on real
ranks."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
import virtual
from labkit import check, data, expect, mpi, nets, plots, timing
from labkit.errors import counted
from torch.nn import functional

ROUND_MS = 10  # milliseconds of a round
VALUES = 1000  # float32 values of a chunk
# No latency, and links over which a chunk takes ROUND_MS.
MACHINE = virtual.ideal(alpha=0, bandwidth=4 * VALUES / (1e-3 * ROUND_MS))


@check.exercise("36.1")
def every_sum_is_carried(carry):
    """Every allreduce that was launched is tested once in every call, and none is waited for."""
    for calls, kept, waits in virtual.Cluster(4, machine=MACHINE).run(carried_sums, carry).results:
        expect(kept, "`carry` changes its list. Wait needs all requests: only go through them.")
        expect(not waits, "`carry` waits. While it waits, nothing is computed: use Test, not Wait.")
        again = "`carry` tests until an allreduce has completed, which is waiting: call Test once."
        expect(max(calls[0][0]) < 10, again)
        for tests, over in [calls[2], *calls]:  # after three launches, and after each
            once = [1] * len(tests)
            none = [0] * len(tests)
            slips = {
                "this call tests none of them: request.Test() has to be called, with its"
                " parentheses, in a loop that runs in every call": none,
                "only the newest allreduce makes progress": none[1:] + [1],
                "only the oldest allreduce makes progress: does a loop end early?": [1] + none[1:],
                "the newest allreduce is not tested": once[1:] + [0],
                "the oldest allreduce is not tested": [0] + once[1:],
                "each is tested twice; once is enough": [2] * len(tests),
            }
            done = f" and {over} completed" if over else ""
            of_each = f"{counted(over + len(tests), 'allreduce')} launched{done}: Tests of each"
            expect.equal(tests, once, f"{of_each} in flight in one call of `carry`", slips=slips)


def carried_sums(comm, carry):
    """Per call of `carry`: Tests of those not completed before it, and how many were completed; is
    the list kept? Waits. One launch before each of the first 12 calls, in which none completes.
    """
    requests, calls = [], []
    kept = True
    for call in range(20):
        if call < 12:
            own = np.ones(4 * comm.size, np.float32)
            requests.append(Sum(comm, own, np.empty_like(own), tag=call))
        comm.compute(5e-6 if call < 12 else 1e-3)
        flying = {request: request.tests for request in requests if not request.ended}
        given = list(requests)
        carry(given)
        kept = kept and given == requests
        tests = [request.tests - before for request, before in flying.items()]
        calls.append((tests, len(requests) - len(flying)))
    waits = sum(request.waits for request in requests)
    Sum.Waitall(requests)
    return calls, kept, waits


class Sum(mpi.RequestCalls):
    """A request of Iallreduce as of an MPI without a thread of its own. tests: calls so far; waits:
    those before it was over.

    It is lab 23's ring. The bytes of a round travel by themselves; the next round begins only in a
    call of MPI that finds this one over: in Test, once, or in Wait, until the sum is over.
    """

    def __init__(self, comm, own, total, tag=0):
        self.tests = 0
        self.waits = 0
        total[...] = own
        self._rounds = ring(comm, total, tag)
        self._received = next(self._rounds, None)

    @property
    def ended(self) -> bool:
        return self._received is None

    def Test(self, status=None) -> bool:
        self.tests += 1
        if not self.ended and self._received.Test():
            self._received = next(self._rounds, None)
        return self.ended

    def Wait(self, status=None) -> bool:
        self.waits += not self.ended
        while not self.ended:
            self._received.Wait()
            self._received = next(self._rounds, None)
        return True


def ring(comm, total, tag) -> Iterator:
    """A ring allreduce that yields each round's receive, and goes on when that is over."""
    p = comm.size
    chunks = np.array_split(total, p)
    for step in range(2 * (p - 1)):
        theirs = chunks[(comm.rank - step - 1) % p]
        box = np.empty_like(theirs)
        sent = comm.Isend(chunks[(comm.rank - step) % p], (comm.rank + 1) % p, tag)
        yield comm.Irecv(box, (comm.rank - 1) % p, tag)
        sent.Wait()
        theirs[...] = theirs + box if step < p - 1 else box


def timed(move: Callable, layers: int, layer_ms: float) -> float:
    """Milliseconds of a sum begun, `layers` layers computed with move([request]) after each, and
    Wait."""

    def step(comm):
        total = np.empty(comm.size * VALUES, np.float32)
        request = Sum(comm, np.ones_like(total), total)
        for _ in range(layers):
            comm.compute(1e-3 * layer_ms)
            move([request])
        request.Wait()
        return 1e3 * comm.Wtime()

    return max(virtual.Cluster(4, machine=MACHINE).run(step).results)


def measure(comm, carry: Callable, width: int, repeat: int, depth: int = 12) -> tuple:
    """Times of a step in all ways, in turns, beside those of its parts; on a net of linear layers.

    The images of a step are so many that backward, two thirds of the arithmetic, takes as long as
    the sum. Returns {name: Measurement}, {"images": a rank, "bytes": of the gradients}.
    """

    def net() -> torch.nn.Sequential:
        return torch.nn.Sequential(*nets.torch_blocks([64, *[width] * (depth - 1), 10]))

    alone = comm.Split(comm.rank)  # a group of one: the same calls, and nobody to talk to
    arithmetic = arithmetic_step(net(), 0.01)
    steps = {
        "arithmetic alone": arithmetic,
        "at the end": summed_step(comm, net(), 0.01),
        "launched, left": summed_step(comm, net(), 0.01, lambda requests: None),
        "launched, carried": summed_step(comm, net(), 0.01, carry),
        "group of one, carried": summed_step(alone, net(), 0.01, carry),
    }
    own = np.ones(sum(weight.numel() for weight in net().parameters()), np.float32)
    total = np.empty_like(own)

    def sum_alone() -> None:
        comm.Allreduce(own, total)

    training = [torch.tensor(part) for part in data.digits()[:2]]
    rows = balanced(comm, arithmetic, training, sum_alone)
    batch = [part[rows] for part in training]
    calls = {name: partial(step, *batch) for name, step in steps.items()}
    times = timing.in_turns({**calls, "allreduce alone": sum_alone}, repeat=repeat, comm=comm)
    return times, {"images": len(rows), "bytes": own.nbytes}


def arithmetic_step(net, rate: float) -> Callable:
    """step(inputs, labels), in plain PyTorch, without messages."""

    def step(inputs, labels) -> None:
        net.zero_grad(set_to_none=False)
        functional.cross_entropy(net(inputs), labels).backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight -= rate * weight.grad

    return step


def summed_step(comm, net, rate: float, move: Callable | None = None) -> Callable:
    """step(inputs, labels), whose gradients are summed over the ranks.

    move: called with the sums under way after each was begun, in its gradient's hook. None: one sum
    of all gradients, after backward.
    """
    weights = list(net.parameters())
    ends = np.cumsum([weight.numel() for weight in weights])
    own = np.empty(ends[-1], np.float32)
    total = np.empty_like(own)
    parts = np.split(own, ends[:-1])
    totals = np.split(total, ends[:-1])
    requests = []

    def begin(i: int) -> None:
        parts[i][:] = weights[i].grad.numpy().reshape(-1)
        requests.append(comm.Iallreduce(parts[i], totals[i]))
        move(requests)

    if move is not None:
        for i, weight in enumerate(weights):
            weight.register_post_accumulate_grad_hook(lambda weight, i=i: begin(i))

    def step(inputs, labels) -> None:
        net.zero_grad(set_to_none=False)
        functional.cross_entropy(net(inputs), labels).backward()
        if move is None:
            np.concatenate([weight.grad.numpy().reshape(-1) for weight in weights], out=own)
            comm.Allreduce(own, total)
        for request in requests:
            request.Wait()
        requests.clear()
        with torch.no_grad():
            for weight, summed in zip(weights, totals, strict=True):
                weight -= rate / comm.size * torch.from_numpy(summed).view_as(weight)

    return step


def balanced(comm, step, training: list, communication) -> np.ndarray:
    """Rows of `training` with which backward, two thirds of step(*batch), lasts as long as
    communication().

    The fastest runs count: others may be at work on the machine. Both are timed in turns, as they
    will be.
    """
    images = 128
    for _ in range(6):
        batch = [part[np.arange(images) % len(part)] for part in training]
        times = timing.in_turns(
            {"step": partial(step, *batch), "sum": communication}, repeat=10, comm=comm
        )
        ratio = times["sum"].samples.min() / times["step"].samples.min()
        before = images
        images = comm.bcast(int(np.clip(images * 1.5 * ratio, 16, 16384)))  # as many on all ranks
        if abs(images - before) < 0.03 * before:
            break
    return np.arange(images) % len(training[0])


def draw_two_nodes(rows, whose: str) -> None:
    """Bars of the medians of recorded steps, with their quartiles; in numbers, what is not
    hidden."""
    milliseconds = 1e3 * rows[["seconds_q1", "seconds", "seconds_q3"]]
    print(f"{whose}:")
    for way, (_, median, _) in milliseconds.iterrows():
        exposed = median - milliseconds["seconds"]["arithmetic alone"]
        note = "" if way.endswith("alone") else f", {exposed:.0f} ms more than the arithmetic alone"
        print(f"{way:>27}: {median:6.0f} ms{note}")
    bars = {
        "\n".join(textwrap.wrap(way, 12)): {"step": [q1, q1, median, q3, q3]}
        for way, (q1, median, q3) in milliseconds.iterrows()
    }
    title = "A step over a network: medians and quartiles"
    plots.bars(bars, ylabel="ms", title=title, name="two nodes")
