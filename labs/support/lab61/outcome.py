"""What a run says: its step, its bytes by process, and its losses, whichever way carried the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from labkit import timing

from support.lab61.cluster import Run
from support.lab61.roles import Log, Mirrored


class Outcome(NamedTuple):
    """Of one way with one net.

    step: time in which every worker has done one step. sent: {process: bytes in that step}, as counted.
    alone: the same step of a worker by itself; None with servers. servers: of each variable, its server.
    """

    step: timing.Measurement
    sent: dict[str, float]
    sizes: list[int]
    losses: list[float]
    alone: timing.Measurement | None
    servers: list[int] | None


def of_workers(workers: Sequence[Mirrored]) -> Outcome:
    """Of workers in step with each other: times are those of worker 0."""
    first = workers[0]
    sent = {f"worker {number}": worker.sent for number, worker in enumerate(workers)}
    return Outcome(first.step, sent, first.sizes, first.losses, first.alone, None)


def of_run(run: Run) -> Outcome:
    """Of a TensorFlow cluster."""
    if run.chief is None:
        return of_workers(run.workers)
    leader = run.chief
    workers = sum(name.startswith("worker") for name in run.logs)
    rounds = leader.steps / workers
    sent = {name: _between(log, leader.begin, leader.end) / rounds for name, log in sorted(run.logs.items())}
    servers = [int(device.partition("task:")[2].partition("/")[0]) for device in leader.devices]
    return Outcome(leader.step, sent, leader.sizes, leader.losses, None, servers)


def _between(log: Log, begin: float, end: float) -> int:
    """Bytes sent from the last look before `begin` to the last before `end`."""
    times = np.array([when for when, _, _ in log])
    first, last = (int(np.searchsorted(times, when)) - 1 for when in (begin, end))
    return log[max(0, last)][1] - log[max(0, first)][1]
