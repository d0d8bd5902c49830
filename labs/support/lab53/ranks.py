"""Real ranks whose work is a nap: they need no core, so that a few cores are enough for all of them."""

from __future__ import annotations

from socket import gethostname
from time import perf_counter, sleep

import numpy as np
from labkit import profiling

from support.lab53.hunt import LATE
from support.lab53.work import CAUSES, Span, Work, work

LOOK = 1e-4  # seconds between two looks whether a request is over


def step_seconds(comm, times: dict[str, np.ndarray]) -> dict[str, dict[int, np.ndarray]]:
    """kind -> ranks -> seconds of each synchronous step, on 1, 2, 4 … ranks of comm; on every rank.

    times: kind -> (steps, ranks or more) seconds for which each rank naps before the allreduce of a step.
    """
    sizes = [2**power for power in range(comm.size.bit_length())]
    seconds: dict[str, dict[int, np.ndarray]] = {kind: {} for kind in times}
    for size in sizes:
        group = comm.Split(int(comm.rank >= size), comm.rank)
        if comm.rank < size:
            for kind, naps in times.items():
                seconds[kind][size] = _steps(group, naps[:, comm.rank])
        _wait(comm.Ibarrier())
        group.Free()
    return comm.bcast(seconds)


def _steps(comm, naps: np.ndarray) -> np.ndarray:
    own = np.ones(1)
    total = np.empty(1)
    ends = []
    _wait(comm.Iallreduce(own, total))
    ends.append(perf_counter())
    for nap in naps:
        sleep(nap)
        _wait(comm.Iallreduce(own, total))
        ends.append(perf_counter())
    return np.diff(ends)


def _wait(request) -> None:
    """Until a request is over, without keeping a core busy."""
    while not request.Test():
        sleep(LOOK)


def recorded(
    comm, cause: str | None, seed: int, steps: int
) -> tuple[profiling.Profile, np.ndarray, tuple[int | None, str]]:
    """Play a case with naps and messages. Returns its Profile, each rank's images, and (culprit, cause).

    cause: one of CAUSES; None: any but jitter. What is drawn is drawn with the seed, the same on every rank.
    """
    rng = np.random.default_rng(seed)
    culprit = int(rng.integers(comm.size))
    if cause is None:
        cause = str(rng.choice([each for each in CAUSES if each != "jitter"]))
    todo = work(rng, comm.size, steps + 1, culprit, cause, 2 * LATE)
    played = iter(range(steps + 1))  # the first one warms up
    profile = profiling.record(
        lambda: _play(comm, todo, next(played)), steps=steps, comm=comm, overhead=False
    )
    return profile, todo.images, (None if cause == "jitter" else culprit, cause)


def _play(comm, todo: Work, step: int) -> None:
    """One step: read, compute, and an allreduce over a ring whose every message takes its time to leave."""
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    leaving = np.zeros(1)
    coming = np.empty(1)
    _wait(comm.Ibarrier())  # the recording's own barrier keeps cores busy, which delays who leaves it
    with profiling.span("input", "input"):
        sleep(todo.read[step, comm.rank])
    with profiling.span("compute", "compute"):
        sleep(todo.compute[step, comm.rank])
    with profiling.span("communication", "exchange"):
        for _ in range(2 * (comm.size - 1)):
            receive = comm.Irecv(coming, source=left)
            with profiling.span("communication", "send"):
                sleep(todo.send[step, comm.rank])
                send = comm.Isend(leaving, dest=right)
            _wait(receive)
            send.Wait()


def spans_of(profile: profiling.Profile, step: int) -> list[Span]:
    """A recorded step of all ranks, on one clock."""
    return [
        Span(trace.rank, span.name, span.begin, span.end)
        for trace in profile.ranks
        for span in trace.spans[step]
    ]


def pair_seconds(comm, nbytes: int, repeat: int) -> np.ndarray:
    """(ranks, ranks) seconds of a message of nbytes between each two ranks, both ways alike; NaN with itself.

    With several nodes it is NaN between ranks of one node, too: their message uses no link. Half of there and
    back, the quickest of `repeat`: other work on the machine can only add to it. One pair after the other: a
    message has the links for itself.
    """
    seconds = np.full((comm.size, comm.size), np.nan)
    message = np.zeros(nbytes, np.uint8)
    hosts = comm.allgather(gethostname())
    for first in range(comm.size):
        for second in range(first + 1, comm.size):
            if hosts[first] == hosts[second] and len(set(hosts)) > 1:
                continue
            took = 0.0
            if comm.rank == first:
                took = min(_there_and_back(comm, message, second) for _ in range(repeat)) / 2
            elif comm.rank == second:
                for _ in range(repeat):
                    comm.Recv(message, source=first)
                    comm.Send(message, dest=first)
            _wait(comm.Ibarrier())
            seconds[first, second] = seconds[second, first] = comm.bcast(took, root=first)
    return seconds


def _there_and_back(comm, message: np.ndarray, other: int) -> float:
    begin = perf_counter()
    comm.Send(message, dest=other)
    comm.Recv(message, source=other)
    return perf_counter() - begin
