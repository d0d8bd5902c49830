"""A communicator that keeps the collectives that pass through it, with times. Part of labkit.overlap."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from labkit import profiling
from labkit.virtual.vector import Vector


class Call(NamedTuple):
    """A collective that was begun: name, values, its array's address, begin and end (seen) in seconds."""

    name: str
    values: int
    address: int
    begin: float
    end: list[float]  # one value, as soon as a Wait or Test has seen the end


class Request:
    """An MPI request that notes when its end was seen, and how often it was asked."""

    def __init__(self, request, call: Call, log: Watched):
        self._request, self._call, self._log = request, call, log

    def Wait(self) -> bool:
        self._request.Wait()
        return self._over()

    def Test(self) -> bool:
        self._log.tests += 1
        return self._request.Test() and self._over()

    def _over(self) -> bool:
        self._log.ended(self._call)
        return True


class Watched:
    """A communicator that passes everything on and keeps the collectives in `calls`.

    tests: Test calls so far. Non-blocking collectives return requests with Wait and Test.
    scale: on virtual ranks, how many times its own bytes an array counts in messages and additions, and where
    an algorithm is chosen by bytes.
    """

    BLOCKING = ("Allreduce", "Reduce", "Bcast", "Barrier")
    STARTING = ("Iallreduce", "Ireduce", "Ibcast")

    def __init__(self, comm, scale: float = 1.0):
        self.comm, self.rank, self.size, self.scale = comm, comm.rank, comm.size, scale
        self.calls: list[Call] = []
        self.tests = 0
        self.clock: Callable[[], float] = getattr(comm, "Wtime", perf_counter)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        there = getattr(self.comm, name)
        if name not in self.BLOCKING + self.STARTING:
            return there

        def collective(*args, **options):
            array = next((one for one in map(_array, args) if one is not None), np.empty(0))
            values, address = int(array.size), _address(array)
            call = Call(name, values, address, self.clock(), [])
            self.calls.append(call)
            if self.scale != 1:
                args = [self._larger(one) for one in args]
                options = {key: self._larger(one) for key, one in options.items()}
            request = there(*args, **options)
            if name in self.STARTING:
                return Request(request, call, self)
            self.ended(call)
            return None

        return collective

    def _larger(self, argument):
        """The same memory, as an array that counts `scale` times its bytes."""
        if not isinstance(argument, np.ndarray):
            return argument
        seen = argument.view(Vector)
        seen.scale = self.scale
        return seen

    def ended(self, call: Call) -> None:
        """The end of `call` was seen just now. On real ranks a recording (labkit.profiling) is told."""
        if not call.end:
            call.end.append(self.clock())
            if self.clock is perf_counter:
                profiling.mark("communication", call.begin, call.end[0], f"{call.name} {call.values}")


def _array(argument):
    """The array of `array` or `[array, MPI.FLOAT]`; None of MPI.IN_PLACE and its like."""
    first = argument[0] if isinstance(argument, list | tuple) and argument else argument
    return first if isinstance(first, np.ndarray) else None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
