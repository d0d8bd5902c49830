"""Steps on virtual ranks, by messages: synchronous, with backup workers, and local SGD."""

from __future__ import annotations

import numpy as np
from labkit import virtual

SLICE = 0.0002  # seconds between two looks of a worker whether its step is over without it


def race(times: np.ndarray, backups: int = 0, every: int = 1) -> np.ndarray:
    """Seconds of each round on virtual ranks. times: (steps, ranks) seconds of their work.

    every: steps of a round, after which all average. backups: so many ranks are not waited for (every=1):
    a server tells all workers when enough gradients are there; who comes late drops its own.
    """
    steps, ranks = times.shape
    if backups:
        run = virtual.Cluster(nodes=ranks + 1).run(_serve_or_work, times, backups)
    else:
        run = virtual.Cluster(nodes=ranks).run(_average, times, every)
    return np.diff([0.0, *run.results[0]])


def _average(comm, times: np.ndarray, every: int) -> list[float]:
    own = np.ones(1)
    total = np.empty(1)
    ends = []
    for step, seconds in enumerate(times[:, comm.rank], 1):
        comm.compute(seconds)
        if step % every == 0:
            comm.Allreduce(own, total)
            ends.append(comm.Wtime())
    return ends


def _serve_or_work(comm, times: np.ndarray, backups: int) -> list[float]:
    """Rank 0 serves; rank r is worker r - 1."""
    if comm.rank == 0:
        return _serve(comm, len(times), comm.size - 1 - backups)
    for step, seconds in enumerate(times[:, comm.rank - 1]):
        _work(comm, step, seconds)
    comm.send(None, dest=0)
    return []


def _serve(comm, steps: int, needed: int) -> list[float]:
    """When each step was over: with so many gradients of its own."""
    over = np.zeros(1)
    ends = []
    for step in range(steps):
        arrived = 0
        while arrived < needed:
            arrived += comm.recv() == step  # a gradient of an earlier step is thrown away
        ends.append(comm.Wtime())
        requests = [comm.Isend(over, dest=worker, tag=step) for worker in range(1, comm.size)]
        for request in requests:
            request.Wait()
    for worker in range(1, comm.size):
        while comm.recv(source=worker) is not None:
            pass  # gradients that came too late
    return ends


def _work(comm, step: int, seconds: float) -> None:
    """Compute until done, or until the step is over without this worker."""
    over = np.empty(1)
    request = comm.Irecv(over, source=0, tag=step)
    left = seconds
    while left > 0:
        comm.compute(min(left, SLICE))
        left -= SLICE
        if request.Test():
            return
    comm.send(step, dest=0)
    request.Wait()
