"""What the checks of lab 32 ask of a way: a toy net's steps, the buckets of its sums, what hooks are told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from labkit import check, expect, launch, nets, virtual
from labkit.counting import on_every_size

from support.lab32.ranks import train_digits, train_digits_alone
from support.lab32.training import Steps, train, trained_alone

SIZES = (3000, 10, 5000, 700, 1, 2500)  # values of the tensors of a toy net
SECONDS = 1e-3  # of each of its layers, forward and backward
AFTER_FIRST_MS = 1e3 * SECONDS * (len(SIZES) - 1)  # of backward after the first gradient, without messages
SLOW = 2e6  # bytes/s of links over which the broadcasts of the toy net outlast a layer


class Told(NamedTuple):
    """A call of ready. i: what it was given; early: before backward began; there: the gradient is there."""

    i: object
    early: bool
    there: bool


def told_by_hooks(watch: Callable) -> list[Told]:
    """The calls of ready that watch(module, ready) brings about, in one backward pass of the digits' net."""
    import torch

    module = nets.torch_digits()
    weights = list(module.parameters())
    calls: list[Told] = []
    early = True

    def ready(i) -> None:
        there = isinstance(i, int) and weights[i].grad is not None
        calls.append(Told(i, early, there))

    watch(module, ready)
    loss = module(torch.ones(8, 64)).square().sum()
    early = False
    loss.backward()
    return calls


def expect_hooks(watch: Callable) -> None:
    """Fail unless watch(module, ready) lets PyTorch tell ready of each gradient once, when it is there."""
    calls = told_by_hooks(watch)
    own_call = "`watch` calls ready itself: it should give PyTorch a function that will."
    expect(not any(call.early for call in calls), own_call)
    a_weight = "ready gets a weight, not its number: PyTorch calls a hook with the weight."
    expect(all(isinstance(call.i, int) for call in calls), a_weight)
    numbers = [call.i for call in calls]
    once = f"Gradients 0 to 5 came, each once; ready was told of {numbers}."
    expect(sorted(numbers) == [0, 1, 2, 3, 4, 5], once)
    expect(max(numbers[:2]) > max(numbers[-2:]), f"The last layer's gradients come first, not {numbers}.")
    expect(all(call.there for call in calls), "ready(i) is called before `.grad` of parameter i is there.")


def one_step(way: Callable, ranks: int = 4, steps: int = 1, machine=None) -> Steps:
    """What the last rank saw of steps of the toy net on virtual ranks, 1 ms a layer."""
    times = [SECONDS] * len(SIZES)
    run = virtual.Cluster(ranks, machine=machine).run(train, way, SIZES, steps, times, times)
    return run.results[-1]


def planned(nbytes: float, most: int) -> list[list[int]]:
    """The buckets, each closed as soon as it holds `nbytes` or `most` tensors; the last may hold less."""
    buckets: list[list[int]] = [[]]
    for i in reversed(range(len(SIZES))):
        held = 4 * sum(SIZES[j] for j in buckets[-1])
        if buckets[-1] and (held >= nbytes or len(buckets[-1]) >= most):
            buckets.append([])
        buckets[-1].append(i)
    return buckets


EACH_ALONE = planned(1, 1)
ALL_TOGETHER = planned(1e9, len(SIZES))


def backward_ms(seen: Steps) -> list[float]:
    """How long each step's backward took after its first gradient."""
    return [1e3 * (end - ready[-1]) for ready, end in zip(seen.ready, seen.backward_ends, strict=True)]


def expect_begun(
    way: Callable,
    name: str,
    *,
    buckets: list[list[int]] = EACH_ALONE,
    at: str = "",
    late: bool = False,
    steps: int = 1,
) -> None:
    """Fail unless a way begins its sums of the toy net as it should, on virtual ranks.

    name: of the call that each sum is. buckets: the tensors of each sum of a step, in order. A sum begins
    as soon as its gradients are there. late: the last of a step has time until backward is over.
    at: the case, in words.
    """
    _expect_sums(one_step(way, steps=steps), name, buckets, at, late)


def _expect_sums(seen: Steps, name: str, buckets: list[list[int]], at: str, late: bool) -> None:
    for call in seen.calls:
        others = f"{at}comm.{call.name} is called; the sum should be made of {name} alone."
        expect(call.name in (name, "Ibcast"), others)
    for ms in backward_ms(seen):
        waits = f"{at}`ready` waits: after the first gradient, backward takes {ms:.2f} ms"
        expect(ms < 1.01 * AFTER_FIRST_MS, f"{waits}, without messages {AFTER_FIRST_MS:.2f} ms.")
    sums = [call for call in seen.calls if call.name == name]
    expect(sums, f"{at}comm.{name}, which takes arrays, is never called.")
    if len(buckets) > 1:
        begins = (
            f"{at}No overlap: backward ends {1e3 * seen.backward_ends[0]:.1f} ms after the start, and the"
        )
        first = f"{begins} first sum begins at {1e3 * sums[0].begin:.1f} ms. Begin sums in `ready`."
        expect(sums[0].begin < seen.backward_ends[0] - 1e-9, first)
    wanted = [sum(SIZES[i] for i in bucket) for bucket in buckets] * len(seen.ready)
    values = [call.values for call in sums]
    plan = f"gradients {buckets} of {wanted} values"
    came = f"{at}{name} is called for {values} values, one call after the other."
    expect(values == wanted, f"{came} It should be called for {plan}, from the last tensor to the first.")
    for place, call in enumerate(sums):
        step, number = divmod(place, len(buckets))
        bucket = buckets[number]
        there = max(seen.ready[step][i] for i in bucket)
        if late and number == len(buckets) - 1:
            there = seen.backward_ends[step]
        times = f"{1e3 * there:.1f} ms after the start, their sum began at {1e3 * call.begin:.1f} ms"
        in_time = call.begin < there + 1e-9
        expect(in_time, f"{at}No overlap: gradients {bucket} came {times}.")


def expect_two_sides(way: Callable) -> None:
    """Fail unless a way reduces to rank 0 and sends parameters behind the next forward pass."""
    seen = one_step(way, steps=2, machine=virtual.ideal(bandwidth=SLOW))  # by the last rank
    _expect_sums(seen, "Ireduce", EACH_ALONE, "", late=False)
    others = "Ranks other than 0 call net.update, too: only rank 0 has the sums to do it with."
    expect(seen.updates == 0, others)
    broadcast = sorted(call.values for call in seen.calls if call.name == "Ibcast")
    wanted = sorted(2 * SIZES)
    each = (
        f"In 2 steps Ibcast is called for {broadcast} values; it should be called for each tensor, {wanted}."
    )
    expect(broadcast == wanted, each)
    first = seen.forward[1][0]  # seconds at which the layers began, in the second step
    last = seen.forward[1][-1]
    late = "Layer 0 began its next forward pass when all broadcasts were over, for no other had to wait."
    needs = "It needs its own parameters only, and those should be sent first."
    expect(last - first > SECONDS * (len(SIZES) - 1) + 1e-9, f"{late} {needs}")


def expect_one_process(watch, batch, patience, workers, way):
    """Parameters as of one process, on virtual ranks, then on real ones in PyTorch."""
    for p in (1, 2, 3, 4, 8):
        run = virtual.Cluster(p).run(train, way, SIZES, 3)
        alone = trained_alone(p, SIZES, 3)
        summed = trained_alone(p, SIZES, 3, rate=p * 0.5)  # the rate is 0.5, on p times the mean
        for rank, seen in enumerate(run.results):
            what = f"{p} ranks, 3 steps: rank {rank}'s parameters against one process, tensor"
            slips = {"this is with the sum of the gradients, not their mean": summed}
            expect.close(seen.parameters, alone, what, atol=1e-4, slips=slips)
    training = partial(train_digits, way=way, watch=watch, steps=4, batch=batch)
    alone = train_digits_alone(4, batch)
    ranks = launch.ranks_here(workers)
    for rank, sizes in enumerate(launch.run(on_every_size, training, ranks=ranks, timeout=patience)):
        for p, parameters in sizes.items():
            what = f"{p} real ranks, 4 steps: rank {rank}'s parameters against one process, tensor"
            expect.close(parameters, alone, what, atol=1e-5)


@check.exercise("32.1")
def check_at_the_end(at_the_end, watch, batch, patience, workers):
    """Hooks that tell `ready` of each gradient once, in time; and one Allreduce after backward."""
    expect_hooks(watch)
    expect_begun(at_the_end, "Allreduce", buckets=ALL_TOGETHER, late=True)
    expect_one_process(watch, batch, patience, workers, at_the_end)


@check.exercise("32.2")
def check_one_by_one(one_by_one, batch, patience, watch, workers):
    """One Iallreduce for each gradient, begun when it is there; waited for after backward."""
    expect_begun(one_by_one, "Iallreduce")
    expect_one_process(watch, batch, patience, workers, one_by_one)


@check.exercise("32.3")
def check_in_buckets(in_buckets, batch, patience, watch, workers):
    """Buckets that close at `size` bytes or `most` tensors, each begun as soon as it is full."""
    for size, most in [(12_000, 1000), (15_000, 1000), (1, 1000), (10**9, 1000), (10**9, 4), (20_000, 2)]:
        way = partial(in_buckets, size=size, most=most)
        buckets = planned(size, most)
        at = f"size={size:,} bytes, most={most}: "
        expect_begun(way, "Iallreduce", buckets=buckets, at=at, late=size > 1, steps=2)
    expect_one_process(watch, batch, patience, workers, partial(in_buckets, size=12_000))


@check.exercise("32.4")
def check_two_sides(two_sides, batch, patience, watch, workers):
    """One Ireduce for each gradient, begun when it is there; one Ibcast for each tensor and step; a
    forward pass whose layers wait for their own parameters alone.
    """
    expect_two_sides(two_sides)
    expect_one_process(watch, batch, patience, workers, two_sides)
