"""A device for machines without one: memory behind copies at a stated pace, on a real or a virtual clock."""

from __future__ import annotations

import os
import time

import numpy as np
from labkit.errors import LabError
from labkit.timing import human

from support.lab27.host import Copy, Pinned, refuse

# Bytes that stand for rubbish.
EMPTY = 0xEE  # in device memory that nobody filled
UNUSED = 0xDD  # in a pinned buffer that nobody filled
CLOSED = "This is device memory: neither the host nor its MPI can read it. Copy it to pinned memory first."


class Memory:
    """Memory of a stand-in device: the host may slice it, but not look into it."""

    def __init__(self, values: np.ndarray):
        self._values = values

    def __getitem__(self, place: slice) -> Memory:
        if not isinstance(place, slice):
            raise LabError("Device memory cannot be read byte by byte from the host; slice it: memory[a:b].")
        return Memory(self._values[place])

    def __len__(self) -> int:
        return len(self._values)

    def __array__(self, *_, **__):
        raise LabError(CLOSED)

    def __dlpack__(self, **_):
        raise LabError(CLOSED)

    def __dlpack_device__(self):  # what mpi4py asks first of memory that is not the host's
        raise LabError(CLOSED)


class StandIn:
    """No GPU, but memory that only copies reach: each takes `latency` seconds, and 1/`rate` more for a byte.

    One engine copies to the host and one to the device, as in a GPU; each does one copy after another, while
    the program goes on. The bytes really move, in `wait`: the last moment that a GPU might choose, so that a
    forgotten wait shows. log: (engine, bytes, start, end) of each copy.
    clock, pause: with `comm.Wtime` and `comm.compute` of a virtual rank it is a virtual device.
    """

    def __init__(self, latency: float, rate: float, clock=time.perf_counter, pause=None):
        if not (latency >= 0 and rate > 0):
            raise LabError(f"A device copies after 0 s or more, at above 0 bytes/s, not {latency}, {rate}.")
        self.latency = latency
        self.rate = rate
        self.name = f"stand-in, {rate / 1e9:g} GB/s after {human(latency)}"
        self._clock = clock
        self._pause = pause or sleep
        self._queue: dict[str, list] = {"to host": [], "to device": []}
        self._free = dict.fromkeys(self._queue, 0.0)
        self.log: list[tuple[str, int, float, float]] = []

    def empty(self, nbytes: int) -> Memory:
        """Device memory of nbytes; what is in it is rubbish."""
        return Memory(np.full(nbytes, EMPTY, np.uint8))

    def array(self, values: np.ndarray) -> Memory:
        """Device memory with these bytes in it, outside of all timing."""
        return Memory(np.array(values, np.uint8))

    def peek(self, memory: Memory) -> np.ndarray:
        """What is there now, for checks: a copy that nobody waited for has not come."""
        return memory._values.copy()

    def pinned(self, *shape: int) -> Pinned:
        """A buffer of the host for copies, full of rubbish. Slow to get: once, not for each message."""
        return np.full(shape, UNUSED, np.uint8).view(Pinned)

    def to_host(self, host: Pinned, memory: Memory) -> Copy:
        """Start to copy device memory into a host buffer of the same length."""
        refuse(host, memory, Memory, "to_host(host, memory)")
        return self._start("to host", host, memory._values)

    def to_device(self, memory: Memory, host: Pinned) -> Copy:
        """Start to copy a host buffer into device memory of the same length."""
        refuse(host, memory, Memory, "to_device(memory, host)")
        return self._start("to device", memory._values, host)

    def for_mpi(self, memory: Memory):
        """A GPU's memory may go to a CUDA-aware MPI; a stand-in's to none."""
        raise LabError(f"No MPI takes the memory of a {self.name}.")

    def _start(self, engine: str, into: np.ndarray, source: np.ndarray) -> Copy:
        begin = max(self._clock(), self._free[engine])
        end = self._free[engine] = begin + self.latency + len(source) / self.rate
        self.log.append((engine, len(source), begin, end))
        job = (into, source, end)
        self._queue[engine].append(job)
        return Copy(lambda: self._wait(engine, job))

    def _wait(self, engine: str, job: tuple) -> None:
        queue = self._queue[engine]
        while any(
            queued is job for queued in queue
        ):  # an engine keeps the order: copies before it come first
            into, source, _ = queue.pop(0)
            into[...] = source
        _, _, end = job
        left = end - self._clock()
        if left > 0:
            self._pause(left)


def sleep(seconds: float) -> None:
    """Asleep, so that other ranks have the core; the last 0.1 ms awake, as nobody is woken on time."""
    end = time.perf_counter() + seconds
    if seconds > 2e-4:
        time.sleep(seconds - 1e-4)
    while time.perf_counter() < end:
        os.sched_yield()
