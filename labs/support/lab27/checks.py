"""Ways to send device memory, tried on virtual and real ranks, and raced (lab 27).

A way is a function (comm, device, out, into, outbox, inbox, dest, source): it sends device memory `out` to
rank dest and fills device memory `into` with what rank source sends. outbox, inbox: pinned buffers, each of
the whole length, or of two rows of one chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil

import numpy as np
from labkit import timing, virtual
from labkit.checks import expect
from labkit.timing import benchmarks

from support.lab27 import choice
from support.lab27.emulated import StandIn
from support.lab27.published import pipeline_time


def trials(
    way: Callable,
    lengths: Iterable[int],
    chunk: int | None = None,
    copy: tuple[float, float] = (1e-5, 1e-9),
    link: tuple[float, float] = (2e-6, 1e-9),
    ranks: Iterable[int] = (1, 2, 3, 4, 5),
    **options,
) -> list[virtual.Run]:
    """Run `way` round a ring of virtual ranks; expect answer, copies, messages and time. Returns the Runs.

    copy, link: start in seconds, and seconds per byte. A send waits for its receive. Further options go to
    Cluster.run. Each of run.results is (what `into` holds, the log of the device's copies).
    """
    machine, runs = virtual.ideal(link[0], 1 / link[1]).but(eager=0), []
    for p, n in [(p, n) for p in ranks for n in lengths]:
        run = virtual.Cluster(p, machine=machine).run(_on_virtual, way, n, chunk, copy, **options)
        count = ceil(n / (chunk or n))
        who = f"The answer is right. But of {_words(n, chunk)} on {p} rank(s),"
        for rank, (got, log) in enumerate(run.results):
            _judge(got, rank, p, chunk)
            for engine in ("to host", "to device"):
                many = sum(one[0] == engine for one in log)
                expect.equal(many, count, f"{who} the number of copies {engine}")
            expect.equal(run.sent[rank], count, f"{who} the messages that rank {rank} sent")
            expect.equal(run.sent_bytes[rank], n, f"{who} the bytes that rank {rank} sent")
        steps, full = (copy, link, copy), count * (chunk or n)
        best, in_turns = pipeline_time(full, count, steps), count * pipeline_time(full / count, 1, steps)
        spare = max(pipeline_time(full / count, 1, [step]) for step in steps) if count > 1 else 0
        took = f"{who} it takes {1e6 * run.time:.0f} µs"
        overlapped = run.time < 1.02 * (best + spare)  # good pipelines may need a step more than the best one
        expect(overlapped, f"{took}; in turns {1e6 * in_turns:.0f}, overlapped {1e6 * best:.0f}.")
        runs.append(run)
    return runs


def on_ranks(comm, way: Callable, nbytes: int, chunk: int | None, start: float, rate: float) -> None:
    """Run `way` round the ring of all ranks of comm, on the device that is here, and expect its answer."""
    _judge(_exchange(comm, choice.here(start, rate), way, nbytes, chunk), comm.rank, comm.size, chunk)


def race(
    comm, sizes: Sequence[int], ways: Mapping[str, tuple], start: float, rate: float, seconds: float = 1
) -> tuple[dict[str, dict], str]:
    """({where: {way: {bytes: Measurement}}}, the device's name) of two ranks, by `benchmarks.on_pairs`.

    ways: name -> (way, bytes per chunk; None: one piece). seconds: about as long for each size.
    """
    device = choice.here(start, rate)

    def rows(two):
        table: dict[str, dict] = {name: {} for name in ways}
        for n in sizes:
            calls = {name: _call(two, device, n, *way) for name, way in ways.items()}
            for name, took in timing.in_turns(calls, comm=two, repeat=11, seconds=seconds).items():
                table[name][n] = took
        return table

    return benchmarks.on_pairs(comm, rows), device.name


def busy(run: virtual.Run, name: str, rank: int = 0) -> dict[str, list[tuple[float, float]]]:
    """{"to host, name": [(start, end)], "message, name": …} of a rank in a traced run of `trials`."""
    spans: dict[str, list] = {"to host": [], "message": [], "to device": []}
    for engine, _, start, end in run.results[rank][1]:
        spans[engine].append((start, end))
    spans["message"] = [
        (start, end) for who, kind, start, end, *_ in run.trace if (who, kind) == (rank, "send")
    ]
    return {f"{step}, {name}": every for step, every in spans.items()}


def direct(comm, device, out, into, outbox, inbox, dest, source):
    """The way without the host, for a CUDA-aware MPI alone: any other crashes. The boxes are not used."""
    comm.Sendrecv(device.for_mpi(out), dest=dest, recvbuf=device.for_mpi(into), source=source)


def _message(comm, device, out, into, outbox, inbox, dest, source):
    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)


def _to_host(comm, device, out, into, outbox, inbox, dest, source):
    device.to_host(outbox, out).wait()


def _to_device(comm, device, out, into, outbox, inbox, dest, source):
    device.to_device(into, inbox).wait()


# The steps of staging, each alone, for `race`.
STEPS = {"to host": (_to_host, None), "message": (_message, None), "to device": (_to_device, None)}


def _call(two, device, n: int, way: Callable, chunk: int | None) -> Callable:
    memory = device.array(_given(two.rank, n)), device.empty(n)
    return partial(way, two, device, *memory, *_boxes(device, n, chunk), 1 - two.rank, 1 - two.rank)


def _boxes(device, nbytes: int, chunk: int | None) -> list:
    return [device.pinned(2, min(chunk, nbytes)) if chunk else device.pinned(nbytes) for _ in range(2)]


def _given(rank: int, nbytes: int) -> np.ndarray:
    """What a rank sends: never a byte that stands for rubbish."""
    return np.random.default_rng(rank).integers(1, 200, nbytes, np.uint8)


def _exchange(comm, device, way: Callable, nbytes: int, chunk: int | None) -> np.ndarray:
    out, into = device.array(_given(comm.rank, nbytes)), device.empty(nbytes)
    ends = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    way(comm, device, out, into, *_boxes(device, nbytes, chunk), *ends)
    return device.peek(into)


def _on_virtual(comm, way, nbytes, chunk, copy):
    device = StandIn(copy[0], 1 / copy[1], comm.Wtime, comm.compute)
    return _exchange(comm, device, way, nbytes, chunk), device.log


def _judge(got: np.ndarray, rank: int, ranks: int, chunk: int | None) -> None:
    """Is `got` on `rank` what its left neighbour had?"""
    who, left = f"{ranks} rank(s), {_words(len(got), chunk)}:", (rank - 1) % ranks
    expect(
        not (got == 0xEE).any(), f"{who} part of `into` on rank {rank} was not filled. All copies awaited?"
    )
    expect(not (got == 0xDD).any(), f"{who} rank {rank} got rubbish of a pinned buffer. Did you wait for it?")
    expect.equal(got, _given(left, len(got)), f"{who} `into` on rank {rank}, beside `out` of rank {left}")


def _words(nbytes: int, chunk: int | None) -> str:
    return f"{nbytes} bytes in chunks of {chunk}" if chunk else f"{nbytes} bytes"
