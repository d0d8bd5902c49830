"""The checks of lab 27: a way to send device memory, tried on virtual ranks; what it did and may cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
from labkit import check, expect, launch, virtual

from support.lab27 import ring
from support.lab27.emulated import EMPTY, UNUSED, StandIn
from support.lab27.published import pipeline_time
from support.lab27.ranks import race

Step = tuple[float, float]  # start in seconds, and seconds per byte

EVERY = {  # (built, the variable's value) -> safe? The same for all in the list, but for (True, None)
    (True, "1"): True,
    (True, "2"): True,
    (True, "0"): False,
    (False, "1"): False,
    (False, None): False,
    (None, "1"): False,
    (None, None): False,
}
MVAPICH2 = "MVAPICH2 Version      :\t2.3.7"
MVAPICH = "MVAPICH Version:   4.1\nconfigure: /opt/MVAPICH2"
CRAY = "MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)"
MPICH = "MPICH Version: 5.0.2\nCC: /opt/MVAPICH2/cc"
OPEN_MPI = "Open MPI v4.1.6"
LIBRARIES = {  # (version, variable) -> {(built, its value): safe?}
    (MVAPICH2, "MV2_USE_CUDA"): EVERY | {(True, None): False},
    (MVAPICH2, "MVP_ENABLE_GPU"): {(True, "1"): False},
    (MVAPICH, "MVP_ENABLE_GPU"): EVERY | {(True, None): True},
    (CRAY, "MPICH_GPU_SUPPORT_ENABLED"): EVERY | {(True, None): False, (None, "1"): True},
    (MPICH, "MPIR_CVAR_ENABLE_GPU"): EVERY | {(True, None): True},
    (OPEN_MPI, "OMPI_MCA_opal_cuda_support"): EVERY
    | {(True, None): True, (True, "true"): True, (True, "false"): False},
    ("Intel(R) MPI Library 2021.13", "MV2_USE_CUDA"): {(True, "1"): False},
}
LINKS = [  # a copy, a message: each (start, seconds per byte)
    ((2e-5, 1e-10), (1e-5, 1.6e-10)),
    ((1e-4, 1e-9), (2e-4, 2e-10)),
    ((0, 1e-10), (0, 1e-10)),
]


@check.exercise("27.1")
def staged_through_the_host(staged, here, ranks):
    """The right bytes arrive, without waste, round a ring of 1 to 5 virtual ranks and on real
    ranks.
    """
    for p, nbytes in itertools.product((1, 2, 3, 4, 5), (1, 1000, 4099)):
        tried = trial(staged, p, nbytes)
        expect_received(tried.received)
        expect_no_waste(tried)
        expect_outboxes(tried)
    expect_received(launch.run(ring.exchange, staged, 100_003, None, **here, ranks=ranks, timeout=20))


@check.exercise("27.2")
def pipelined_in_two_halves(pipelined, staged, here, ranks):
    """The right bytes arrive in chunks, without waste, whichever step is the slowest, and on real
    ranks faster than staged.
    """
    # (bytes, bytes of a chunk, a copy's seconds per byte); a message takes 1e-9 seconds per byte
    even = [(nbytes, 1000, 1e-9) for nbytes in (1, 999, 1000, 1001, 2000, 7003)]
    uneven = [(200_000, 20_000, beta) for beta in (2e-10, 1e-9, 5e-9)]
    for (nbytes, chunk, beta), p in itertools.product(even + uneven, (1, 2, 3, 4, 5)):
        tried = trial(pipelined, p, nbytes, chunk, copy=(1e-5, beta))
        expect_received(tried.received, chunk)
        expect_no_waste(tried)
    for p in (3, 4):  # rank 1 begins 1 ms later than the others: what is sent to it has to wait
        tried = trial(pipelined, p, 7003, 1000, late=1e-3)
        expect_received(tried.received, 1000)
    received = launch.run(ring.exchange, pipelined, 100_003, 30_000, **here, ranks=ranks, timeout=20)
    expect_received(received, 30_000)
    ways = {"staged": (staged, None), "pipelined": (pipelined, 1 << 20)}  # function, bytes of a chunk
    races, name = launch.run(race, [1 << 22], ways, start=1e-3, rate=5e7, ranks=ranks)[0]
    for times in races.values():
        fastest = {way: min(times[way][1 << 22].samples) for way in ways}  # the machine may be busy
        gain = fastest["staged"] / fastest["pipelined"]
        expect(gain > 1.15 or "cuda" in name, f"4 chunks, real ranks: {gain:.2f} times as fast as staged.")


@check.exercise("27.3")
def safe_libraries(takes_device_memory):
    """You say yes where both answers are yes, for every library of the list."""
    for (version, variable), answers in LIBRARIES.items():
        for (built, value), safe in answers.items():
            environment = {variable: value} if value else {}
            got = takes_device_memory(version, built, environment)
            case = f"{version.splitlines()[0]!r}, built: {built}, {variable}={value}: you say {got}"
            expect(got is safe, f"{case}; it {'takes device memory' if safe else 'would crash'}: {safe}.")


@check.exercise("27.4")
def best_chunk(choose):
    """T is least for your chunks, and you return 0 where `direct` is faster than these, but only
    there.
    """
    for (copy, link), n in itertools.product(LINKS, (1000, 10**6, 10**9)):
        case = f"{n:.0e} bytes, copies {copy}, message {link}:"
        steps = [copy, link, copy]
        chunk = choose(n, steps)
        best = n / min(np.geomspace(1, n, 9001), key=lambda count: pipeline_time(n, count, steps))
        whole = isinstance(chunk, int | np.integer) and chunk > 0
        near = whole and abs(chunk - best) < 1 + best / 50
        expect(near, f"{case} chunks of {chunk!r} bytes; {best:.0f}, a whole number, is best.")
        for share in (0.97, 1.03):
            half = share * pipeline_time(n, n / best, steps) / 2  # to start, and for all bytes
            zero = choose(n, steps, direct=(half, half / n)) == 0
            expect.equal(zero, share < 1, f"{case} direct takes {share} of the best staging. Is 0 right?")


def expect_received(received: list[np.ndarray], chunk: int | None = None) -> None:
    """What `into` holds, by rank, is what the rank on the left has sent."""
    for rank, got in enumerate(received):
        left = (rank - 1) % len(received)
        case = f"{_ranks(len(received))}, {message(len(got), chunk)}:"
        filled = not (got == EMPTY).any()
        expect(filled, f"{case} part of `into` on rank {rank} was not filled. All copies awaited?")
        waited = not (got == UNUSED).any()
        expect(waited, f"{case} rank {rank} got rubbish of a pinned buffer. Did you wait for it?")
        want = ring.sent_by(left, len(got))
        expect.equal(got, want, f"{case} `into` on rank {rank}, beside `out` of rank {left}")


def expect_no_waste(tried: Trial) -> None:
    """One copy each way and one message for each chunk, and hardly more time than the slowest step needs."""
    case = f"The answer is right. But of {message(tried.nbytes, tried.chunk)} on {_ranks(tried.ranks)},"
    for rank in range(tried.ranks):
        for engine in ("to host", "to device"):
            copies = tried.copies(rank, engine)
            expect.equal(copies, tried.chunks, f"{case} the number of copies {engine}")
        expect.equal(tried.run.sent[rank], tried.chunks, f"{case} the messages that rank {rank} sent")
        expect.equal(tried.run.sent_bytes[rank], tried.nbytes, f"{case} the bytes that rank {rank} sent")
    times = f"in turns {1e6 * tried.in_turns:.0f}, overlapped {1e6 * tried.overlapped:.0f}"
    expect(tried.time < tried.longest, f"{case} it takes {1e6 * tried.time:.0f} µs; {times}.")


def expect_outboxes(tried: Trial) -> None:
    """What is sent is left alone: after the exchange each outbox still holds it."""
    for rank, outbox in enumerate(tried.outboxes):
        kept = np.array_equal(outbox, ring.sent_by(rank, tried.nbytes))
        forbidden = "MPI forbids to receive into the memory that the same call sends. Use `inbox`."
        expect(kept, f"The answer is right. But `outbox` on rank {rank} was overwritten. {forbidden}")


def _ranks(count: int) -> str:
    return f"{count} rank" if count == 1 else f"{count} ranks"


@dataclass(frozen=True)
class Trial:
    """A way that was run round a ring of virtual ranks. Times are in virtual seconds."""

    run: virtual.Run
    nbytes: int
    chunk: int | None
    steps: tuple[Step, Step, Step]  # copy, message, copy

    @property
    def ranks(self) -> int:
        return self.run.ranks

    @property
    def chunks(self) -> int:
        """How many chunks a message has; 1 where it is not cut."""
        return ceil(self.nbytes / self.chunk) if self.chunk else 1

    @property
    def received(self) -> list[np.ndarray]:
        """What `into` holds afterwards, by rank."""
        return [into for into, _, _ in self.run.results]

    @property
    def outboxes(self) -> list[np.ndarray]:
        """What the outbox holds afterwards, by rank."""
        return [outbox for _, outbox, _ in self.run.results]

    def copies(self, rank: int, engine: str) -> int:
        """How many copies a rank's device made. engine: "to host" or "to device"."""
        _, _, log = self.run.results[rank]
        return sum(copy[0] == engine for copy in log)

    @property
    def time(self) -> float:
        return self.run.time

    @property
    def in_turns(self) -> float:
        """What so many chunks take, each step after the other."""
        return self.chunks * self._pipeline(1)

    @property
    def overlapped(self) -> float:
        """What the best pipeline of so many chunks takes."""
        return self._pipeline(self.chunks)

    @property
    def longest(self) -> float:
        """What a good pipeline takes at most: it may need a step more than the best one, and 2 %."""
        slowest = max(pipeline_time(self._chunk, 1, [step]) for step in self.steps)
        spare = slowest if self.chunks > 1 else 0.0
        return 1.02 * (self.overlapped + spare)

    @property
    def _chunk(self) -> int:
        return self.chunk or self.nbytes

    def _pipeline(self, chunks: int) -> float:
        return pipeline_time(chunks * self._chunk, chunks, self.steps)


def trial(
    way: Callable,
    ranks: int,
    nbytes: int,
    chunk: int | None = None,
    copy: Step = (1e-5, 1e-9),
    link: Step = (2e-6, 1e-9),
    late: float = 0.0,
    **options,
) -> Trial:
    """Run `way` round a ring of virtual ranks with virtual devices. A send waits for its receive.

    copy, link: start in seconds, and seconds per byte. late: seconds that rank 1 begins after the others, so
    that what is sent to it waits. Further options go to Cluster.run. Each of run.results
    is (what `into` holds, what the outbox holds, the log of the device's copies).
    """
    start, per_byte = link
    machine = virtual.ideal(start, 1 / per_byte).but(eager=0)
    run = virtual.Cluster(ranks, machine=machine).run(
        _on_virtual_device, way, nbytes, chunk, copy, late, **options
    )
    return Trial(run, nbytes, chunk, (copy, link, copy))


def message(nbytes: int, chunk: int | None) -> str:
    """A message as one reads it: "1000 bytes in chunks of 100"."""
    return f"{nbytes} bytes in chunks of {chunk}" if chunk else f"{nbytes} bytes"


def _on_virtual_device(comm, way: Callable, nbytes: int, chunk: int | None, copy: Step, late: float):
    start, per_byte = copy
    if comm.rank == 1:
        comm.compute(late)
    device = StandIn(start, 1 / per_byte, comm.Wtime, comm.compute)
    return *ring.exchange_on(device, comm, way, nbytes, chunk), device.log
