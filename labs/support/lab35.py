"""Lab 35: its checks, what a net learns of gradients in fewer bytes, and over which links they pay.

A way is a pair (compress, expand): compress(values) makes a message (uint8) of float32 values, and
expand(message, n) makes n values of it. An average(comm, gradient, error, compress, expand) has
error feedback: it returns the mean over all ranks of what their messages say, and leaves in `error`
what this rank's own did not say (Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech
2014). half(comm, gradient) returns the mean of float16 values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import virtual
from labkit import check, data, expect, launch, nets, timing
from labkit.collectives import ring_allreduce
from labkit.counting import on_every_size
from labkit.errors import counted


def expect_dtype(array, dtype, what):
    expect.equal(str(getattr(array, "dtype", type(array).__name__)), dtype, f"{what}: dtype")


def try_half(comm, half_average, case):
    """On a rank: case.gradients by rank, to be averaged with case.scale."""
    own = case.gradients[comm.rank].copy()
    mean = half_average(comm, own, case.scale)
    who = f"{counted(comm.size, 'rank')}, {case.what}"
    what = f"{who}: the mean on rank {comm.rank}"
    # float16 has 11 significant bits: rounding the mean is at most 2**-11 = 4.9e-4 off.
    expect.close(mean, case.mean, what, rtol=5e-4, atol=0, because=case.because)
    expect_dtype(mean, "float32", what)
    expect.unchanged(case.gradients[comm.rank], own, f"{who}: the gradient")


@check.exercise("35.1")
def half_precision_on_the_wire(half_average, patience, ranks):
    """Means of usual gradients, large, tiny, zeros; inf where one overflows; no more than two bytes
    a value on the wire, there and back; and the same on real ranks.
    """

    def try_half_cases(comm):
        for case in half_cases(comm.size, lengths=(1003,)):
            try_half(comm, half_average, case)

    for p in (1, 2, 3, 4):
        for case in half_cases(p):
            run = virtual.Cluster(nodes=p).run(try_half, half_average, case)
            chunk = 2 * -(-case.gradients.shape[1] // p)  # bytes
            run.expect_sent(exactly=2 * (p - 1) * chunk, named="float16, there and back,")
    launch.run(on_every_size, try_half_cases, ranks=ranks, timeout=patience)


def expect_message(message, nbytes, what):
    expect_dtype(message, "uint8", f"{what}: the message")
    expect.equal(len(message), nbytes, f"{what}: bytes of the message")


def expect_back(values, want, what):
    expect.equal(np.shape(values), want.shape, f"{what}: shape of what comes back")
    expect.close(values, want, f"{what}: what comes back")
    expect_dtype(values, "float32", f"{what}: what comes back")


@check.exercise("35.2")
def a_bit_for_each_value(one_bit, from_one_bit):
    """Two means (float32) and a bit for each value, 0 where it is below 0; and back."""

    for what, values, means, by_means in vectors():
        given = values.copy()
        message = one_bit(given)
        expect.unchanged(values, given, f"{what}: the vector")
        expect_message(message, 8 + -(-len(values) // 8), what)
        sent = message[:8].copy().view(np.float32)
        expect.close(
            sent, means, f"{what}: the message's two means (of the values below 0, of the others)"
        )
        sent = np.unpackbits(message[8:], count=len(values))
        expect.equal(
            sent,
            (values >= 0).astype(np.uint8),
            f"{what}: the message's bits, 0 where a value is below 0",
        )
        given = message.copy()
        expect_back(from_one_bit(given, len(values)), by_means, what)
        expect.unchanged(message, given, f"{what}: the message")


def try_feedback(comm, feedback_average, steps, way):
    """On a rank: step after step, with the error that the steps before have left."""
    error = np.zeros_like(steps[0].mean)
    for number, step in enumerate(steps):
        before = error.copy()
        own = step.gradients[comm.rank].copy()
        mean = feedback_average(comm, own, error, *way)
        who = f"{counted(comm.size, 'rank')}, {counted(len(own), 'value')}"
        at = f"{who}, step {number + 1}, rank {comm.rank}"
        forgotten = "this is the result without the error of the step before"
        slips = {forgotten: step.forgetful_mean}
        what = f"{at}: the mean of what the messages say"
        expect.close(mean, step.mean, what, rtol=1e-4, atol=1e-4, slips=slips)
        slips = {
            forgotten: step.forgetful_errors[comm.rank],
            "`error` is what it was: change the caller's array in place, `error[:] = …`": before,
            "it is wanted - sent, not sent - wanted": -step.errors[comm.rank],
            "the new error replaces the old one, which `wanted` contains": before
            + step.errors[comm.rank],
        }
        what = f"{at}: the error that is left"
        expect.close(error, step.errors[comm.rank], what, rtol=1e-4, atol=1e-4, slips=slips)
        expect.unchanged(step.gradients[comm.rank], own, f"{at}: the gradient")


def expect_feedback(feedback_average, way, p):
    """Means, errors carried on, and no more than an allgather of the messages."""
    for n in (1, 7, 1003):
        steps = feedback_steps(p, n, *way)
        run = virtual.Cluster(nodes=p).run(try_feedback, feedback_average, steps, way)
        nbytes = sum(len(way[0](step.gradients[0])) for step in steps)
        run.expect_sent(exactly=(p - 1) * nbytes, named="an allgather of the messages")


@check.exercise("35.3")
def error_kept(feedback_average, bits, patience, ranks, simple):
    """Five steps with two kinds of messages, on virtual ranks and on real ones."""

    def try_bits(comm):
        try_feedback(comm, feedback_average, feedback_steps(comm.size, 1003, *bits), bits)

    for p in (1, 2, 3, 4):
        expect_feedback(feedback_average, simple, p)
        expect_feedback(feedback_average, bits, p)
    launch.run(on_every_size, try_bits, ranks=ranks, timeout=patience)


# ---------------------------------------- cases

# Values: one, around a full byte of bits, and not a multiple of 2, 3, 4 or 8.
LENGTHS = (1, 7, 8, 9, 1003)
# Of float16: usual values; with a scale; four of these add up to inf; these become 0 unless scaled
# up.
HALVES = ((1.0, 1.0), (1.0, 1024.0), (60_000.0, 1.0), (1e-8, 2.0**20))


def gradients(n: int, p: int = 1, size: float = 1.0) -> dict[str, np.ndarray]:
    """What gradients may look like: name -> float32, shape (p, n), magnitudes from size/10 to
    size."""
    above = size * np.random.default_rng([n, p]).uniform(0.1, 1, (p, n)).astype(np.float32)
    signs = np.where(np.arange(n) % 3 == 1, -1, 1).astype(np.float32)
    return {
        "both signs": above * signs,
        "all above 0": above,
        "all below 0": -above,
        "all 0": 0 * above,
        "every third 0": above * (np.arange(n) % 3 > 0),
    }


class Vector(NamedTuple):
    """A gradient of one rank. means: of the values below 0, and of the others; by_means: each by
    its."""

    what: str
    values: np.ndarray
    means: tuple[float, float]
    by_means: np.ndarray


def vectors() -> Iterator[Vector]:
    """Gradients of all kinds, of each of LENGTHS."""
    for n in LENGTHS:
        for name, (values,) in gradients(n).items():
            up = values >= 0
            below = 0.0 if up.all() else float(values[~up].mean())
            above = float(values[up].mean()) if up.any() else 0.0
            yield Vector(
                f"{counted(n, 'value')}, {name}", values, (below, above), np.where(up, above, below)
            )


def whole(values: np.ndarray) -> np.ndarray:
    """A simple message to test with: values to the nearest whole number, -128 to 127, a byte
    each."""
    return np.rint(values).astype(np.int8).view(np.uint8)


def from_whole(message: np.ndarray, n: int) -> np.ndarray:
    """The n values (float32) of such a message."""
    return message.view(np.int8).astype(np.float32)


class Half(NamedTuple):
    """gradients: (ranks, values), to be averaged as float16. because: why a mean may be off."""

    what: str
    gradients: np.ndarray
    scale: float = 1.0
    because: str = ""

    @property
    def mean(self) -> np.ndarray:
        """The exact mean of the float16 values that arrive."""
        with np.errstate(over="ignore"):
            sent = np.float16(self.gradients * np.float32(self.scale))
        return sent.astype(np.float64).mean(axis=0) / self.scale


def half_cases(p: int, lengths=(1, 8, 1003)) -> Iterator[Half]:
    """Gradients of p ranks: usual, large, tiny, zeros; some whose sum loses values, one with an
    overflow."""
    for n in lengths:
        for size, scale in HALVES:
            kinds = gradients(n, p, size)
            for name in kinds if size == scale else ("both signs",):
                what = f"{counted(n, 'value')}, {name}, up to {size:g}, scale {scale:g}"
                order = "Multiply by `scale` in float32, and divide by it in float32"
                yield Half(what, kinds[name], scale, order if scale > 1 else "")
        # To a float16 of 1024, 0.18 adds nothing, nor does 2/3 of it to one of 1024 / 3.
        of_ranks = np.full((p, n), np.float16(0.18), np.float32)
        of_ranks[0] = 1024
        what = f"{counted(n, 'value')}, 1024 on rank 0 and 0.18 elsewhere"
        yield Half(what, of_ranks, because="It is the mean of a float32 sum")
        of_ranks = gradients(n, p)["both signs"]
        of_ranks[-1, -1] = 1e6
        what = f"{counted(n, 'value')}, the last of rank {p - 1} is 1e6"
        yield Half(what, of_ranks, because="The last should be inf, so that all can see it")


class Step(NamedTuple):
    """A step with error feedback. gradients: (ranks, values).

    mean: of what the messages say. errors: what is left on each rank. forgetful_…: the same if
    nothing was left of the step before.
    """

    gradients: np.ndarray
    mean: np.ndarray
    errors: np.ndarray
    forgetful_mean: np.ndarray
    forgetful_errors: np.ndarray


def feedback_steps(p: int, n: int, compress: Callable, expand: Callable) -> list[Step]:
    """Some steps of p ranks with n values each, worked out without messages between ranks."""

    def said(vectors: np.ndarray) -> np.ndarray:
        return np.array([expand(compress(vector), n) for vector in vectors])

    steps = []
    errors = np.zeros((p, n), np.float32)
    for of_ranks in gradients(n, p, size=10).values():
        wanted = of_ranks + errors
        errors = wanted - said(wanted)
        forgetful = said(of_ranks)
        mean = said(wanted).mean(axis=0)
        steps.append(Step(of_ranks, mean, errors, forgetful.mean(axis=0), of_ranks - forgetful))
    return steps


# ---------------------------------------- virtual ranks


def accuracy(average: Callable, way: tuple | None, *, keep: bool = True, **training) -> list[float]:
    """Percent of the digits' test images that are right after training, for each seed.

    way: None for MPI's float32 mean. keep: False throws the error away after each step. training:
    as `virtual.accuracy` takes it.
    """

    def plain(comm, gradient, error):
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        return total / comm.size

    def compressed(comm, gradient, error):
        mean = average(comm, gradient, error, *way)
        error *= keep
        return mean

    return virtual.accuracy(compressed if way else plain, **training)


def first_gradient(images: int = 8) -> np.ndarray:
    """The flat gradient of a rank's first step: of so many images, by the weights at the start."""
    pictures, labels, *_ = data.digits()
    return nets.join(nets.gradient(nets.start_weights(), pictures[:images], labels[:images]))


class Kept(NamedTuple):
    """What a message keeps of a gradient. cosine: of the angle between both.

    largest, smaller: shares of the message's sum of squares, where the gradient's largest 1 % of
    the values are, and where its smaller half is; by magnitude.
    """

    cosine: float
    largest: float
    smaller: float


def kept(said: np.ndarray, gradient: np.ndarray) -> Kept:
    """Of what a message says, compared with the gradient that it was made of."""
    order = np.argsort(np.abs(gradient))
    squares = said[order] ** 2 / np.sum(said**2)
    n = len(order)
    cosine = said @ gradient / np.linalg.norm(said) / np.linalg.norm(gradient)
    return Kept(float(cosine), float(squares[n - n // 100 :].sum()), float(squares[: n // 2].sum()))


def print_kept(name: str, said: np.ndarray, gradient: np.ndarray) -> None:
    cosine, largest, smaller = kept(said, gradient)
    print(
        f"{name:>9}: {100 * largest:5.1f} % in the largest 1 %, {100 * smaller:5.1f} % in the"
        f" smaller half; cosine with the gradient {cosine:.2f}"
    )


def ring_and_bits(p: int, n: int) -> tuple[int, int]:
    """Bytes that the busiest of p virtual ranks sends for n values: float32 in a ring; bits to all,
    n / 8."""

    def bits_to_all(comm, vector):
        own = np.zeros(n // 8, np.uint8)
        comm.Allgather(own, np.empty((p, len(own)), np.uint8))

    ring, bits = (max(_run(p, call, n).sent_bytes) for call in (ring_allreduce, bits_to_all))
    return ring, bits


def bytes_counted(
    p: int, n: int, half: Callable, average: Callable, ways: Mapping
) -> dict[str, int]:
    """Bytes that the busiest of p virtual ranks sends for n values: "float32" (a ring), "float16",
    `ways`.

    ways: name -> (compress, expand).
    """
    calls = {"float32": ring_allreduce, "float16": half}
    calls |= {name: _with_error(average, way) for name, way in ways.items()}
    return {name: max(_run(p, call, n).sent_bytes) for name, call in calls.items()}


def _with_error(average: Callable, way: tuple) -> Callable:
    return lambda comm, vector: average(comm, vector, np.zeros_like(vector), *way)


def _run(p: int, call: Callable, n: int):
    return virtual.Cluster(nodes=p).run(lambda comm: call(comm, np.ones(n, np.float32)))


# ---------------------------------------- real ranks


def exchange_times(
    comm, half: Callable, average: Callable, ways: Mapping, n: int
) -> dict[str, list]:
    """way -> [an exchange of n float32 values, the same in a group of one rank, expanding one
    message].

    half, average, ways: as above, ways by name. A group of one does all the packing and sends
    nothing; all ranks do it at once, as in a step. float32 is MPI's Allreduce.
    """
    vector = np.random.default_rng(comm.rank).standard_normal(n, np.float32)
    total = np.empty_like(vector)
    error = np.zeros_like(vector)
    groups = (comm, comm.Split(comm.rank))
    calls: dict[str, list] = {
        "float32": [partial(group.Allreduce, vector, total) for group in groups],
        "float16": [partial(half, group, vector) for group in groups],
    }
    for name, (compress, expand) in ways.items():
        calls[name] = [partial(average, group, vector, error, compress, expand) for group in groups]
        calls[name].append(partial(expand, compress(vector), n))
    measure = partial(timing.measure, comm=comm, repeat=10, warmup=1, seconds=1.0)
    return {name: [measure(call) for call in row] for name, row in calls.items()}


def packing(times: Mapping[str, list], way: str, p: int) -> float:
    """Seconds that `way` works more than float32 with p ranks. times: of exchange_times, of any
    ranks."""
    _, alone, *expand = times[way]
    others = (p - 1) * expand[0].median if expand else 0.0
    return alone.median + others - times["float32"][1].median


def bytes_sent(n: int, p: int, k: int) -> dict[str, float]:
    """way -> bytes that each of p ranks sends for n values. "float32" is the ring."""
    ring = 2 * (p - 1) / p * 4 * n
    bits = 8 + -(-n // 8)
    return {
        "float32": ring,
        "float16": ring / 2,
        "1 bit": (p - 1) * bits,
        "top k": (p - 1) * 8 * k,
    }


def break_even(full: float, small: float, seconds: float) -> float:
    """Bytes/s of the link over which both ways take equally long; 0: compression never wins."""
    return max(0, full - small) / max(1e-9, seconds)


def links(times: Mapping, n: int, k: int) -> dict[str, dict]:
    """way -> {ranks: Gb/s below which it is faster than float32}. times: of exchange_times."""
    below: dict[str, dict[int, float]] = {way: {} for way in times if way != "float32"}
    for p in (2, 4, 8, 16, 32):
        sent = bytes_sent(n, p, k)
        for way, by_ranks in below.items():
            seconds = packing(times, way, p)
            by_ranks[p] = 8e-9 * break_even(sent["float32"], sent[way], seconds)
    return below
