"""What the checks of lab 28 expect of each function, and the mistakes that they know by name."""

from __future__ import annotations

import math

import numpy as np
from labkit import check, virtual
from labkit.checks import expect


def _different(slips: dict[str, float], want: float) -> dict[str, float]:
    """Those that differ from what is right: only they can be told from it."""
    return {sentence: value for sentence, value in slips.items() if abs(value - want) > 1e-5 * abs(want)}


def allreduce(comm, vector):
    """The sum of all ranks' vectors, by the virtual cluster's MPI."""
    total = np.empty_like(vector)
    comm.Allreduce(vector, total)
    return total


def expect_time(allreduce_time, nbytes: int, p: int, alpha: float, rate: float) -> None:
    """The seconds that the virtual cluster's Allreduce takes, on links of α and 1/β = rate alone."""
    cluster = virtual.Cluster(p, 1, virtual.ideal(alpha, rate))
    want = 1e6 * cluster.run(allreduce, virtual.vector(np.ones(64), stands_for=nbytes)).time
    lg = math.log2(p)
    transfer = 1e6 * nbytes / rate  # µs of the whole vector, once
    latency = 1e6 * alpha
    slips = {
        "this is doubling; above 2,048 bytes it is Rabenseifner": lg * (latency + transfer),
        "this is Rabenseifner; up to 2,048 bytes it is doubling": 2 * lg * latency
        + 2 * (p - 1) / p * transfer,
        "in doubling each message has the whole vector, lg p times": lg * latency + transfer,
        "each byte goes there and back: 2 (p - 1)/p": want - (p - 1) / p * transfer,
        "a rank keeps its own part: 2 (p - 1)/p": want + 2 / p * transfer,
        "Rabenseifner has 2 lg p messages: there and back": want - lg * latency,
        "`math.log` has base e; lg has base 2: `math.log2`": want
        + (math.log(p) - lg) * (2 * latency if nbytes > 2048 else latency + transfer),
    }
    where = f"{nbytes:,} bytes on {p} ranks, α {latency:g} µs, 1/β {rate / 1e9:g} GB/s"
    got = allreduce_time(nbytes, p, alpha, 1 / rate)
    expect(got is not None, f"{where}: allreduce_time returns nothing. Add a `return`.")
    expect.close(1e6 * got, want, f"{where}: µs, beside the virtual cluster's", slips=_different(slips, want))


def expect_balance(balance, p: int, alpha: float, rate: float) -> None:
    """The bytes at which Rabenseifner's bytes take as long as its messages."""
    lg = math.log2(p)
    single = alpha * rate  # bytes that take as long as a message
    want = lg * p / (p - 1) * single
    slips = {
        "this is the size for a single message": single,
        "there are lg p messages each way, not one": p / (p - 1) * single,
        "of a vector only (p - 1)/p travel": lg * single,
        "divide by the share that travels, (p - 1)/p": lg * (p - 1) / p * single,
        "both sides have the 2: it cancels": 2 * want,
        "both sides have the 2, so it is twice that": want / 2,
        "this is upside down": 1 / want,
        "`beta` is seconds a byte: divide by it": lg * p / (p - 1) * alpha / rate,
        "`math.log` has base e; lg has base 2: `math.log2`": math.log(p) * p / (p - 1) * single,
    }
    where = f"{p} ranks, α {1e6 * alpha:g} µs, 1/β {rate / 1e9:g} GB/s"
    got = balance(p, alpha, 1 / rate)
    expect.close(got, want, f"{where}: bytes", slips=_different(slips, want))


def expect_waiting(waiting, compute: float, exchange: float, hidden: float) -> None:
    """The exposed part of an exchange, as a share of the step."""
    uncovered = exchange - hidden * compute
    exposed = max(0, uncovered)
    want = exposed / (compute + exposed)
    slips = {
        "where all is covered nobody waits: it is 0, not less": uncovered / (compute + uncovered),
        "hidden is a share of the computing, not of the exchange": (1 - hidden)
        * exchange
        / (compute + (1 - hidden) * exchange),
        "nothing is covered in this": exchange / (compute + exchange),
        "that is a share of the computing; a step is longer": exposed / compute,
        "these are seconds; divide by the step's": exposed,
        "what is covered does not make the step longer": exposed / (compute + exchange),
        "this is the share that computes": 1 - want,
    }
    where = f"{compute} s of computing, {exchange} s of exchange, hidden {hidden:.2f}"
    got = waiting(compute, exchange, hidden)
    expect.close(got, want, f"{where}: the share that waits", slips=_different(slips, want))


def expect_roofs(ridge, attainable, peak: float, bandwidth: float) -> None:
    """The ridge, and what is attainable left and right of it."""
    machine = f"peak {peak:g} operations/s, {bandwidth:g} bytes/s"
    want = peak / bandwidth
    slips = {
        "this is upside down: operations over bytes": 1 / want,
        "a product has no such unit: divide": peak * bandwidth,
    }
    expect.close(ridge(peak, bandwidth), want, f"{machine}: the ridge", slips=slips)
    for intensity in (want / 50, want, 3 * want):
        slanted = bandwidth * intensity
        slips = {
            "that is the slanted roof; nothing passes the peak": slanted,
            "that is the peak; left of the ridge memory is the limit, the lower roof": peak,
            "multiply bytes a second by operations a byte": bandwidth / intensity,
            "that is a share of the peak": min(peak, slanted) / peak,
        }
        most = min(peak, slanted)
        what = f"{machine}: operations/s at {intensity:.3g} for a byte"
        got = attainable(intensity, peak, bandwidth)
        expect.close(got, most, what, slips=_different(slips, most))


@check.exercise("28.1")
def check_allreduce_time(allreduce_time):
    """The time of the virtual cluster's own Allreduce, on links that have α and β alone."""
    for alpha, rate in ((2e-6, 1e9), (3e-5, 5e10)):
        for p in (8, 16, 2, 1):
            for nbytes in (4, 2048, 2056, 65536, 100_000_000):
                expect_time(allreduce_time, nbytes, p, alpha, rate)


@check.exercise("28.2")
def check_balance(balance):
    """The bytes for which both parts are equal, on 2 to 64 ranks."""
    for p, alpha, rate in ((8, 4e-6, 1e10), (64, 3e-5, 5e10), (2, 1e-5, 1e9)):
        expect_balance(balance, p, alpha, rate)


@check.exercise("28.3")
def check_waiting(waiting):
    """The share with nothing hidden, with a part, and with all of it."""
    for hidden in (0.0, 0.2, 0.65):
        expect_waiting(waiting, 0.1, 0.06, hidden)
    expect_waiting(waiting, 0.02, 0.9, 2 / 3)
    expect_waiting(waiting, 0.3, 0.0, 0.5)


@check.exercise("28.4")
def check_ridge(ridge, attainable):
    """The ridge, and the lower roof left of it, on it and right of it."""
    for peak, bandwidth in ((1e12, 1e11), (3e13, 4e11), (5e12, 2e13)):
        expect_roofs(ridge, attainable, peak, bandwidth)
