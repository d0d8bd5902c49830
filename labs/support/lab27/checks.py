"""A way to send device memory, tried on virtual ranks: what it did, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
from labkit import virtual

from support.lab27 import ring
from support.lab27.emulated import StandIn
from support.lab27.published import pipeline_time

Step = tuple[float, float]  # start in seconds, and seconds per byte


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
