"""Ways to send device memory, raced on two real ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from labkit import timing
from labkit.timing import benchmarks

from support.lab27 import choice, ring


def race(
    comm, sizes: Sequence[int], ways: Mapping[str, tuple], start: float, rate: float, seconds: float = 1
) -> tuple[dict[str, dict], str]:
    """({where: {way: {bytes: Measurement}}}, the device's name) of two ranks, by `benchmarks.on_pairs`.

    ways: name -> (way, bytes per chunk; None: one piece). start, rate: of a stand-in, where there is no GPU.
    seconds: about as long for each size.
    """
    device = choice.here(start, rate)

    def rows(two):
        table: dict[str, dict] = {name: {} for name in ways}
        for nbytes in sizes:
            calls = {name: _call(two, device, nbytes, *way) for name, way in ways.items()}
            measured = timing.in_turns(calls, comm=two, repeat=11, seconds=seconds)
            for name, took in measured.items():
                table[name][nbytes] = took
        return table

    return benchmarks.on_pairs(comm, rows), device.name


def _call(two, device, nbytes: int, way: Callable, chunk: int | None) -> Callable:
    """A call of `way` between two ranks, which exchange."""
    out = device.array(ring.sent_by(two.rank, nbytes))
    into = device.empty(nbytes)
    peer = 1 - two.rank
    return partial(way, two, device, out, into, *ring.boxes(device, nbytes, chunk), peer, peer)


def _to_host(comm, device, out, into, outbox, inbox, dest, source):
    device.to_host(outbox, out).wait()


def _message(comm, device, out, into, outbox, inbox, dest, source):
    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)


def _to_device(comm, device, out, into, outbox, inbox, dest, source):
    device.to_device(into, inbox).wait()


# The steps of staging, each alone, for `race`.
STEPS = {"to host": (_to_host, None), "message": (_message, None), "to device": (_to_device, None)}
