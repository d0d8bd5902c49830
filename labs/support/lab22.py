"""The checks of lab 22, communicators for its benchmarks, and two lines α + nβ through measured
times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import virtual
from labkit import check, expect, launch, scaling
from labkit.counting import PassOn
from labkit.errors import LabError
from labkit.timing import benchmarks, digits, human

PAUSE = 1e-3  # seconds that an interruption takes
MOST = 1 << 21  # bytes up to which two lines are fitted


@check.exercise("22.1")
def check_latency(latency):
    """Half a round trip, after the warm-up; all `rounds` values and their median."""

    def try_trips(comm, nbytes, held_up):
        comm = Interrupted(comm, held_up) if held_up else comm
        times = []  # what the function reads

        def clock():
            times.append(comm.Wtime())
            return times[-1]

        answer = latency(comm, nbytes, rounds=40, skip=10, clock=clock)
        return answer, bool(times)

    for alpha, rate in ((1e-6, 1e9), (20e-6, 1e8)):
        two = virtual.Cluster(nodes=2, machine=virtual.ideal(alpha, rate))
        for nbytes, held_up in ((1000, 0), (0, 0), (100_000, 0), (1000, 10)):
            run = two.run(try_trips, nbytes, held_up)
            expect_trips(run, nbytes, alpha + nbytes / rate, held_up)
    real = launch.run(benchmarks.sweep, latency, (8,), (51, 5), (), ranks=2)[0]
    got, seconds = next(iter(real.values()))[8]
    expect.close(
        got, np.median(seconds), "On real ranks, 8 bytes: your number, beside your values' median"
    )


def expect_trips(run, nbytes, want, held_up):
    """40 halves after a warm-up of 10 rounds, in their order, and their median; `want` without
    pauses."""
    answer, read = run.results[0]
    expect(read, "`clock()` was never called; take the time from no other clock.")
    pair = isinstance(answer, (tuple, list)) and [np.ndim(part) for part in answer]
    expect(pair == [0, 1], "Return the median first, and then the list of all halves.")
    got, seconds = answer
    link = f"On a virtual link where {nbytes} bytes take {want * 1e6:g} µs"
    if held_up:
        link += ", but the first 10 rounds and some later ones are held up by 1 ms"
    expect.equal(len(seconds), 40, f"{link}: the number of values, with rounds=40 and skip=10")
    for rank, sent in enumerate(run.sent_bytes):
        expect(
            sent == 50 * nbytes,
            f"{link}: rank {rank} sends {sent:g} bytes in all, not skip + rounds = 50 times"
            f" {nbytes}.",
        )
    if held_up:
        expect(
            min(seconds) < 5e-4,
            "Where a Barrier takes 1 ms, all of your values are longer: keep it out of the timed"
            " part.",
        )
        expect(max(seconds[:5]) < 5e-4, f"{link}: one of those 10 is among your values.")
        slow = [place for place, value in enumerate(seconds) if value > 5e-4]
        rest = f"{link}: your values are not those of the 40 rounds after these, in their order."
        expect(slow == [7, 16, 25, 34], rest)
    else:
        grows = seconds[-1] > 2 * seconds[0]
        expect(not grows, f"{link}: your values grow. Read `start` anew in each round.")
    slips = {f"you say {got * 1e6:g}, which is there and back": 2 * want}
    slips["that is half of one way; do both send at once?"] = want / 2
    expect.close(got, want, f"{link}: your latency in seconds", rtol=0.01, slips=slips)
    if not held_up:
        slips = {"those are whole round trips": 2 * want}
        expect.close(seconds[-1], want, f"{link}: the last value of your list", 0.01, slips=slips)
    expect(run.time > 75 * want, f"{link}: both send at once. Rank 1 must receive before it sends.")


@check.exercise("22.2")
def check_bandwidth(bandwidth):
    """A window of messages at the rate of the link, then one reply."""
    # α is 1 µs, a call next to nothing: the order in which a window is waited for does not matter.
    link = virtual.Link(latency=1e-6, bandwidth=1e9, overhead=1e-12)
    two = virtual.Cluster(
        nodes=2, machine=virtual.ideal().but(between=link, eager=512, handshake=5e-6)
    )

    def try_windows(comm, nbytes, in_flight):
        return bandwidth(comm, nbytes, rounds=20, skip=10, clock=comm.Wtime, window=in_flight)

    for nbytes, in_flight in ((500, 64), (1000, 64), (1000, 4)):
        expect_rate(two.run(try_windows, nbytes, in_flight), nbytes, in_flight)
    # Real ranks too.
    inboxes = launch.run(
        benchmarks.sweep,
        buffers,
        (8, 65536),
        (9, 2),
        (9, 2),
        window=8,
        benchmark=bandwidth,
        ranks=2,
    )
    for used in next(iter(inboxes[1].values())).values():
        expect(
            used == 8,
            f"In 11 windows of 8 messages, you receive into {used} buffers. Receive into the 8 rows"
            " of `inbox`, again and again.",
        )


def expect_rate(run, nbytes, in_flight):
    """The rate that this link allows, with one reply a window."""
    rates = run.results[0]
    case = f"On a virtual link of 1000 MB/s, {nbytes} bytes, {in_flight} in flight:"
    got = np.median(rates)
    # There and back, the reply's bytes, a handshake.
    rest = 2e-6 + 4e-9 + (5e-6 if nbytes > 512 else 0)
    want = in_flight * nbytes / (in_flight * nbytes / 1e9 + rest) / 1e6
    sent, replies = (messages / 30 for messages in run.sent)
    a_message, a_reply = (
        size / messages if messages else 0
        for size, messages in zip(run.sent_bytes, run.sent, strict=True)
    )
    rate = f"{case} {got:.6g} MB/s,"
    expect(got <= 1000, f"{rate} more than the link carries. Does rank 0 wait for the reply?")
    expect(
        (sent, replies) == (in_flight, 1),
        f"{case} in a round, rank 0 sends {sent:g} messages and rank 1 sends {replies:g}; there"
        f" should be {in_flight}, and one reply.",
    )
    expect(a_message == nbytes, f"{case} a message of rank 0 has {a_message:g} bytes.")
    expect(a_reply <= 8, f"{case} the reply has {a_reply:g} bytes, not the 4 of `reply`.")
    expect(got > 0.7 * want, f"{rate} not {want:.4g}. Are all started before the first Wait?")
    off = "something is waited for before all are started, or the reply is an Ssend"
    expect.close(got, want, f"{rate} which is off", rtol=0.01, because=off)


def buffers(comm, *positional, benchmark, **named) -> int:
    """Run the benchmark; returns into how many buffers its `Irecv`s receive."""
    counting = CountsBuffers(comm)
    benchmark(counting, *positional, **named)
    return len({address_of(buffer) for buffer in counting.kept})


@check.exercise("22.3")
def check_fit(fit):
    """The line of least relative error, for exact times and for times 20% off."""
    powers, even = 2.0 ** np.arange(25), 1e5 * np.arange(1, 26)
    for n, alpha, rate, noise in (
        (powers, 2e-6, 12e9, 0),
        (powers, 50e-6, 1e9, 0),
        (powers, 2e-6, 12e9, 0.2),
        (even, 50e-6, 1e9, 0),
    ):
        times = (alpha + n / rate) * (1 + noise * np.cos(2 * np.arange(25)))
        slope, start = np.polyfit(n, times, 1, w=1 / times)
        kind = "times 20% off (is each error divided by its own t?)" if noise else "exact times"
        wanted = {"α": start, "β": slope, "n½": start / slope}
        slips = {"that is β; α comes first": slope, "that is the bandwidth 1/β": 1 / slope}
        slips["that is β/α"] = slope / start
        given = n.copy(), times.copy()
        answer = fit(*given)
        expect.unchanged((n, times), given, "An array of sizes or seconds")
        expect(np.shape(answer) == (3,), "Return three numbers: α, β and n½.")
        for (name, want), got in zip(wanted.items(), answer, strict=True):
            what = f"1/β = {rate:g} bytes/s, {kind}: your {name}"
            expect.close(got, want, what, rtol=1e-3, atol=0, slips=slips)


@check.exercise("22.4")
def check_columns(columns):
    """The mean over calls and ranks; both bandwidths, in 10^9 bytes per second."""
    for p, power in ((2, 8), (3, 1), (4, 6), (8, 9), (1, 8)):
        seconds = 0.02 + 0.01 * np.arange(p)[:, None] + np.array([0, -0.003, 0.006])  # [rank, call]
        mean = seconds.mean()
        gigabytes = 10**power / 1e9
        given = seconds.copy()
        us, algbw, busbw = columns(given, 10**power)
        expect.unchanged(seconds, given, "The array of seconds")
        case = f"{p} ranks, 10^{power} bytes, calls of {mean:.3g} s in the mean:"
        expect.close(us, mean * 1e6, f"{case} the mean in µs")
        want = gigabytes / mean
        expect.close(algbw, want, f"{case} algbw in GB/s, of 10^9 bytes", atol=0)
        want = scaling.costs.busbw(gigabytes, mean, p)
        by_calls = scaling.costs.busbw(gigabytes, mean, 3)
        slips = {"that is right for 3 ranks, but there are 3 calls": by_calls}
        expect.close(busbw, want, f"{case} busbw in GB/s", atol=0, slips=slips)


class CountsBuffers(PassOn):
    """A communicator of mpi4py's that keeps each buffer into which it receives, so that no later
    one has the same address."""

    def __init__(self, comm):
        super().__init__(comm)
        self.kept = []

    def Irecv(self, buf, *positional, **named):
        self.kept.append(buf)
        return self.comm.Irecv(buf, *positional, **named)


def address_of(buffer) -> int:
    """The first address of an array, or of one in a list with its type, as mpi4py takes it."""
    array = buffer[0] if isinstance(buffer, (list, tuple)) else buffer
    return np.asarray(array).ctypes.data


class OneRow:
    """A communicator of mpi4py's whose `Irecv`s all go into the buffer of the first, as in osu_bw.

    Requests that are under way then share a buffer. MPI does not allow that; the benchmark does it
    all the same, and what arrives is never read.
    """

    def __init__(self, comm):
        self.comm = comm
        self.row = None

    def __getattr__(self, name: str):
        return getattr(self.comm, name)

    def Irecv(self, buffer, *positional, **named):
        if self.row is None:
            self.row = buffer
        return self.comm.Irecv(self.row, *positional, **named)


class Interrupted:
    """A virtual communicator whose sends take 1 ms more: the `first` ones, and later every ninth.

    So does each Barrier: between empty messages alone it would hide in the time of a ball.
    """

    def __init__(self, comm, first: int):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.first = first
        self.sent = 0

    def __getattr__(self, name: str):
        if name in ("Send", "Ssend", "Isend", "Issend"):
            self.sent += 1
            if self.sent <= self.first or self.sent % 9 == 0:
                self.comm.compute(PAUSE)
        elif name in ("Barrier", "barrier", "Ibarrier"):
            self.comm.compute(PAUSE)
        return getattr(self.comm, name)


class TwoLines(NamedTuple):
    """α and β of a line for messages of up to `eager` bytes, and of another above."""

    eager: int
    alpha: float
    beta: float
    alpha_above: float
    beta_above: float

    def time(self, nbytes: float) -> float:
        """Seconds of a message."""
        if nbytes <= self.eager:
            return self.alpha + nbytes * self.beta
        return self.alpha_above + nbytes * self.beta_above

    def numbers(self, times: Mapping[int, float], busy: float, step: float) -> dict[str, float]:
        """What virtual.machine("here") needs of a link, in seconds and bytes.

        times: the ping-pong's, bytes -> seconds; the bandwidth is the median over the long
        messages, as one line would follow those that happen to fit a cache. busy: from one short
        message to the next where many are in flight, LogGP's gap. step: a collective's with 1 KiB
        (benchmarks.step).
        """
        rates = [
            nbytes / (seconds - self.alpha_above)
            for nbytes, seconds in times.items()
            if nbytes > self.eager and seconds > 2 * self.alpha_above
        ]
        endless = 1 / self.beta_above if self.beta_above > 0 else float("inf")
        return {
            "alpha": self.alpha,
            "bandwidth": float(np.median(rates)) if rates else endless,
            "eager": self.eager,
            "handshake": max(0.0, self.alpha_above - self.alpha),
            "busy": busy,
            "step": step,
        }

    def __str__(self) -> str:
        below = line_text(self.alpha, self.beta)
        above = line_text(self.alpha_above, self.beta_above)
        return f"{below} up to {self.eager} bytes, {above} above"


def two_lines(times: Mapping[int, float], fit: Callable) -> TwoLines:
    """Two lines through {bytes: seconds}, cut where that leaves the least sum of squared relative
    errors.

    fit: fit(sizes, seconds) gives α and β first. The cut is looked for from 256 bytes to 128 KiB,
    where MPI libraries change from eager messages to rendezvous, and in the times of up to 2 MiB:
    beyond, caches and memory bend the line.
    """
    sizes = np.array([nbytes for nbytes in times if nbytes <= MOST], float)
    seconds = np.array([times[nbytes] for nbytes in times if nbytes <= MOST], float)
    candidates = []
    for cut in range(3, len(sizes) - 2):
        if 256 <= sizes[cut - 1] <= 1 << 17:
            below = fit(sizes[:cut], seconds[:cut])[:2]
            above = fit(sizes[cut:], seconds[cut:])[:2]
            lines = TwoLines(int(sizes[cut - 1]), *map(float, below), *map(float, above))
            model = np.array([lines.time(nbytes) for nbytes in sizes])
            error = float(np.sum((model / seconds - 1) ** 2))
            candidates.append((error, lines))
    if not candidates:
        raise LabError(
            "Two lines need times of messages of up to 2 KiB: set longest to 2048 or more."
        )
    return min(candidates)[1]


def line_text(alpha: float, beta: float) -> str:
    """A line as one reads it; without its bandwidth where it falls."""
    return human(alpha) + (f" + n / {digits(1e-9 / beta)} GB/s" if beta > 0 else "")
