"""What lab 32 expects of a way: one process's parameters, and each sum begun in time. Part of overlap."""

from __future__ import annotations

from functools import partial

from labkit import launch, nets, virtual
from labkit.checks import expect
from labkit.counting import on_every_size

from support.lab32.ranks import train_digits, train_digits_alone
from support.lab32.training import train, trained_alone

SIZES = (3000, 10, 5000, 700, 1, 2500)  # values of the tensors of a toy net
SECONDS = 1e-3  # of each of its layers, forward and backward


def expect_watch(watch) -> None:
    """Fail unless watch(net, ready) makes PyTorch call ready(i) once for each gradient, when it is there."""
    import torch

    net, told = nets.torch_digits(), []
    weights = list(net.parameters())

    def ready(i) -> None:
        expect(
            isinstance(i, int), "ready gets a weight, not its number: PyTorch calls a hook with the weight."
        )
        told.append((i, weights[i].grad is not None))

    watch(net, ready)
    expect(not told, "`watch` calls ready itself: it should give PyTorch a function that will.")
    net(torch.ones(8, 64)).square().sum().backward()
    numbers = [i for i, _ in told]
    once = sorted(numbers) == list(range(len(weights)))
    expect(once, f"Gradients 0 to {len(weights) - 1} came, each once; ready was told of {numbers}.")
    expect(max(numbers[:2]) > max(numbers[-2:]), f"The last layer's gradients come first, not {numbers}.")
    expect(all(there for _, there in told), "ready(i) is called before `.grad` of parameter i is there.")


def expect_one_process(watch, ranks: int, batch: int, patience: float, way, steps: int = 4) -> None:
    """Fail unless the parameters are one process's: on virtual ranks (3 steps), and on 1, 2, … real ones."""
    for p in (1, 2, 3, 4, 8):
        run, alone = virtual.Cluster(p).run(train, way, SIZES, 3), trained_alone(p, SIZES, 3)
        for rank, seen in enumerate(run.results):
            for i, want in enumerate(alone):
                who = f"{p} ranks, 3 steps: parameters of tensor {i} on rank {rank} against one process"
                expect.close(seen.parameters[i], want, who, atol=1e-4)
    alone = train_digits_alone(steps, batch)
    program = partial(train_digits, way=way, watch=watch, steps=steps, batch=batch)
    for rank, sizes in enumerate(launch.run(on_every_size, program, ranks=ranks, timeout=patience)):
        for p, got in sizes.items():
            who = f"{p} real ranks, {steps} steps: the parameters on rank {rank} against one process"
            expect.close(got, alone, who, atol=1e-5)


def one_step(way, ranks: int = 4, steps: int = 1, machine=None):
    """The toy net on virtual ranks, 1 ms a layer. Returns the Run, and what its last rank saw (Steps)."""
    times = [SECONDS] * len(SIZES)
    run = virtual.Cluster(ranks, machine=machine).run(train, way, SIZES, steps, times, times)
    return run, run.results[-1]


def expect_begun(seen, name: str, buckets=None, who: str = "", late: bool = False) -> None:
    """Fail unless the sums of a step are calls of `name`, one for each bucket, begun when it was full.

    buckets: lists of tensors in the order of the sums; None: each tensor alone, as they come. late: the last
    one may begin after backward.
    """
    buckets = planned(1, 1) if buckets is None else buckets
    for call in seen.calls:
        sentence = f"{who}It is right, but {call.name} is called; the sum should be made of {name} alone."
        expect(call.name in (name, "Ibcast"), sentence)
    for ready, end in zip(seen.ready, seen.backward_ends, strict=True):
        took, alone = 1e3 * (end - ready[-1]), 1e3 * (len(SIZES) - 1) * SECONDS
        longer = f"after the first gradient, backward takes {took:.2f} ms, without messages {alone:.2f} ms"
        expect(took < 1.01 * alone, f"{who}`ready` waits: {longer}.")
    steps, got = len(seen.ready), [call for call in seen.calls if call.name == name]
    expect(got or seen.calls, f"{who}{name}, which takes arrays, is never called.")
    wants = [sum(SIZES[i] for i in bucket) for bucket in buckets] * steps
    expect.equal([call.values for call in got], wants, f"{who}{name}, values of one call after the other")
    for place, (call, bucket) in enumerate(zip(got, buckets * steps, strict=True)):
        step, which = divmod(place, len(buckets))
        there = seen.backward_ends[step] if late and which == len(buckets) - 1 else None
        there = max(seen.ready[step][i] for i in bucket) if there is None else there
        what = f"gradient {bucket[0]}" if len(bucket) == 1 else f"gradients {bucket}"
        times = f"{there / SECONDS:.1f} ms after the start, its sum began at {call.begin / SECONDS:.1f} ms"
        expect(call.begin < there + 1e-9, f"{who}No overlap: {what} came {times}.")


def planned(nbytes: float, most: int) -> list[list[int]]:
    """The buckets, each closed as soon as it holds `nbytes` or `most` tensors; the last may hold less."""
    found: list[list[int]] = [[]]
    for i in reversed(range(len(SIZES))):
        if found[-1] and (4 * sum(SIZES[j] for j in found[-1]) >= nbytes or len(found[-1]) >= most):
            found.append([])
        found[-1].append(i)
    return found


def expect_buckets(way) -> None:
    """Fail unless way(comm, net, size, most) sums in the buckets asked for, and calls Test in backward."""
    for size, most in [(12_000, 1000), (15_000, 1000), (1, 1000), (10**9, 1000), (10**9, 4), (20_000, 2)]:
        seen = one_step(partial(way, size=size, most=most), steps=2)[1]
        expect_begun(seen, "Iallreduce", planned(size, most), f"size={size:,}, most={most}: ", late=size > 1)
    tests = one_step(partial(way, size=1))[1].tests
    few = f"Right, but Test is called {tests} times in a backward pass of {len(SIZES)} sums: nothing moves."
    expect(tests >= len(SIZES) - 1, few)


def expect_casts(seen) -> None:
    """Fail unless each step broadcast each tensor once, and tensor 0 was used before all had come.

    seen: of another rank than 0, which makes no SGD step.
    """
    expect(
        not seen.updates, "Ranks other than 0 call net.update, too: only rank 0 has the sums to do it with."
    )
    casts = [call for call in seen.calls if call.name == "Ibcast"]
    wants = sorted([*SIZES] * len(seen.forward))
    expect.equal(sorted(call.values for call in casts), wants, "The broadcasts, by their values")
    first, last = seen.forward[1][0], seen.forward[1][-1]
    late = "Layer 0 began its next forward pass when all broadcasts were over, for no other had to wait"
    waited = last - first > (len(SIZES) - 1) * SECONDS + 1e-9
    expect(waited, f"{late}. It needs its own parameters only, and those should be sent first.")
