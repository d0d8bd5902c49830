"""What the checks of lab 36 see: which sums were tested, and what a thread did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from labkit import virtual
from labkit.checks import expect

from support.lab36.calls import CallsOnly, machine


def expect_carried(carry: Callable) -> None:
    """Fail unless carry(requests) tests each sum that is not over once a call, and waits for none."""
    for count in (1, 3):
        run = virtual.Cluster(4, machine=machine()).run(_carry_sums, carry, count)
        for tests, waits, over, totals in run.results:
            what = f"{count} sums under way: Tests of each, after one call of `carry`"
            slips = {
                "only the newest sum is moved on; the older ones rest": [0] * (count - 1) + [1],
                "only the oldest sum is moved on; the newer ones rest": [1] + [0] * (count - 1),
            }
            expect(not any(waits), "`carry` waits. While it waits, nothing is computed: use Test, not Wait.")
            expect.equal(tests[0], [1] * count, what, slips=slips)
            expect(
                over, "After 100 calls of `carry` the sums are not over: does it test those that are begun?"
            )
            expect(all((total == 10).all() for total in totals), "The sums are wrong: carry only tests.")


def _carry_sums(comm, carry: Callable, count: int) -> tuple:
    """(Tests of each sum after one call, Waits, all over after 100 calls?, the sums)."""
    ranks = CallsOnly(comm)
    totals = [np.empty(4 * comm.size, np.float32) for _ in range(count)]
    requests = [ranks.Iallreduce(np.full_like(total, comm.rank + 1), total) for total in totals]
    tests = []
    for _ in range(100):
        ranks.compute(1e-3)
        carry(list(requests))
        tests.append([request.tests for request in requests])
    waits = [request.waits for request in requests]
    over = all(request.over for request in requests)
    for request in requests:
        request.Wait()
    return tests, waits, over, totals


class Looks(NamedTuple):
    """What a thread did. calls: of Iprobe, before it was told to end. seconds: until then. ended: did it?"""

    calls: int
    seconds: float
    ended: bool


class _Counted:
    """A communicator that counts the calls of Iprobe. Another call of MPI would be no look."""

    def __init__(self, comm):
        self._comm = comm
        self.calls = 0

    def Iprobe(self, *args, **options) -> bool:
        self.calls += 1
        return self._comm.Iprobe(*args, **options)


def looks(comm, look_until: Callable, every: float, calls: int = 5, patience: float = 10) -> Looks:
    """Let look_until(comm, over, every) run in a thread of this rank until it has called MPI `calls` times.

    Or for `patience` seconds, if it calls less often.
    """
    counted = _Counted(comm.Dup())
    over = threading.Event()
    errors: list[BaseException] = []

    def look() -> None:
        try:
            look_until(counted, over, every)
        except BaseException as error:  # it belongs to the rank, not to its thread
            errors.append(error)

    thread = threading.Thread(target=look, daemon=True)
    pause = threading.Event()
    start = perf_counter()
    thread.start()
    while counted.calls < calls and perf_counter() - start < patience and thread.is_alive():
        pause.wait(every)
    seen = counted.calls
    seconds = perf_counter() - start
    over.set()
    thread.join(patience)
    if errors:
        raise errors[0]
    return Looks(seen, seconds, not thread.is_alive())
