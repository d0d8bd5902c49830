"""The checks of lab 35."""

from __future__ import annotations

from itertools import product

import numpy as np
from labkit import check, expect, launch, virtual
from labkit.counting import on_every_size

from support.lab35.cases import feedback_steps, half_cases, vectors
from support.lab35.runs import seconds_over


def expect_dtype(array, dtype, what):
    expect.equal(str(getattr(array, "dtype", type(array).__name__)), dtype, f"{what}: dtype")


def try_half(comm, half_average, case):
    """On a rank: case.gradients by rank, to be averaged with case.scale."""
    own = case.gradients[comm.rank].copy()
    mean = half_average(comm, own, case.scale)
    what = f"{comm.size} ranks, {case.what}: the mean on rank {comm.rank}"
    expect.close(mean, case.mean, what, rtol=case.rtol, atol=0, because=case.because)
    expect_dtype(mean, "float32", what)
    expect.unchanged(case.gradients[comm.rank], own, f"{comm.size} ranks, {case.what}: the gradient")


@check.exercise("35.1")
def check_half_average(half_average, patience, ranks):
    """Means of usual gradients, large, tiny, zeros; inf where one overflows; no more than two bytes a
    value on the wire, there and back; and the same on real ranks.
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
def check_one_bit(one_bit, from_one_bit):
    """Two means (float32) and a bit for each value, 0 where it is below 0; and back."""

    for what, values, means, by_means in vectors():
        given = values.copy()
        message = one_bit(given)
        expect.unchanged(values, given, f"{what}: the vector")
        expect_message(message, 8 + -(-len(values) // 8), what)
        sent = message[:8].copy().view(np.float32)
        expect.close(sent, means, f"{what}: the message's two means (of the values below 0, of the others)")
        sent = np.unpackbits(message[8:], count=len(values))
        expect.equal(
            sent, (values >= 0).astype(np.uint8), f"{what}: the message's bits, 0 where a value is below 0"
        )
        expect_back(from_one_bit(message, len(values)), by_means, what)


def try_feedback(comm, feedback_average, steps, way):
    """On a rank: step after step, with the error that the steps before have left."""
    error = np.zeros_like(steps[0].mean)
    for number, step in enumerate(steps):
        own = step.gradients[comm.rank].copy()
        mean = feedback_average(comm, own, error, *way)
        at = f"{comm.size} ranks, {len(own)} values, step {number + 1}, rank {comm.rank}"
        slips = {"as if nothing was left of the step before": step.forgetful_mean}
        what = f"{at}: the mean of what the messages say"
        expect.close(mean, step.mean, what, rtol=1e-4, atol=1e-4, slips=slips)
        slips = {"as if nothing was left of the step before": step.forgetful_errors[comm.rank]}
        what = f"{at}: the error that is left"
        expect.close(error, step.errors[comm.rank], what, rtol=1e-4, atol=1e-4, slips=slips)
        expect.unchanged(step.gradients[comm.rank], own, f"{at}: the gradient")


def expect_feedback(feedback_average, way, p):
    """Means, errors carried on, and no more than an allgather of the messages."""
    for n in (1, 7, 8, 9, 1003):
        steps = feedback_steps(p, n, *way)
        run = virtual.Cluster(nodes=p).run(try_feedback, feedback_average, steps, way)
        nbytes = sum(len(way[0](step.gradients[0])) for step in steps)
        run.expect_sent(exactly=(p - 1) * nbytes, named="an allgather of the messages")


@check.exercise("35.3")
def check_feedback_average(feedback_average, bits, patience, ranks, simple):
    """Five steps with two kinds of messages, on virtual ranks and on real ones."""

    def try_bits(comm):
        try_feedback(comm, feedback_average, feedback_steps(comm.size, 1003, *bits), bits)

    for p in (1, 2, 3, 4):
        expect_feedback(feedback_average, simple, p)
        expect_feedback(feedback_average, bits, p)
    launch.run(on_every_size, try_bits, ranks=ranks, timeout=patience)


@check.exercise("35.4")
def check_break_even(break_even, bits, bytes_sent, feedback_average, share, values_real):
    """That both ways take as long over a virtual link of `break_even`; 0 where nothing is saved."""
    expect.equal(break_even(100, 200, 1.0), 0, "100 bytes without and 200 with compression: break_even")
    for p, work in product((2, 4, 8), (1e-3, 0.1)):
        sent = bytes_sent(7200, p, 1)
        link = break_even(sent["float32"], sent["1 bit"], work)
        what = f"{p} ranks, 7200 values, {work} s of packing"
        expect(link > 0, f"{what}: break_even should be above {link}.")
        plain, packed = seconds_over(link, p, 7200, feedback_average, bits, work)
        what += f": seconds with bits over a link of break_even, {link:.4g} bytes/s, as without"
        expect.close(packed, plain, what, rtol=1e-3, because="Both should take as long")
    expect.between(values_real * share, 1, values_real, "values_real * share, values of the top k")
