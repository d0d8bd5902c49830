"""What the checks of lab 36 see: which sums were tested, and what a thread did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from labkit import check, expect, launch, virtual

from support.lab36.calls import ROUND_MS, CallsOnly, machine, timed


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


@check.exercise("36.1")
def check_carry(carry):
    """Every sum is tested once in every call, and nothing is waited for."""
    expect_carried(carry)


@check.exercise("36.2")
def check_step_ms(step_ms, carry):
    """The times that the virtual machine takes, on 2 to 5 ranks; and some that you can follow by hand."""
    expect.equal(step_ms(0, 0, 6, 10), 60, "No layers, 6 rounds of 10 ms")
    expect.equal(step_ms(3, 50, 2, 10), 150, "3 layers of 50 ms, 2 rounds of 10 ms, which hide behind them")
    expect.equal(step_ms(3, 20, 6, 10), 90, "3 layers of 20 ms, 6 rounds of 10 ms")
    expect.equal(step_ms(6, 10, 6, 10), 60, "6 layers, 6 rounds of 10 ms: a Test just when one is over")
    expect.equal(step_ms(3, 20, 6, 5), 75, "3 layers of 20 ms, 6 rounds of 5 ms")
    for ranks in (2, 3, 4, 5):
        rounds = 2 * (ranks - 1)
        for layers, layer_ms in [(15, 4), (20, 3), (3, 22), (1, 62), (9, 7), (30, 8), (2, 3)]:
            case = f"{layers} layers of {layer_ms} ms, {rounds} rounds of {ROUND_MS} ms"
            took = timed(carry, layers, layer_ms, ranks)
            expect.close(step_ms(layers, layer_ms, rounds, ROUND_MS), took, case, rtol=0.02)


@check.exercise("36.3")
def check_look_until(look_until, patience):
    """On real ranks, calls of MPI with a pause before each, and an end when it is time."""
    ranks = launch.ranks_here(2)
    for pause in (0.02, 0.04):  # seconds
        for seen in launch.run(looks, look_until, pause, ranks=ranks, timeout=patience):
            expect(seen.calls > 0, "The thread never calls comm.Iprobe().")
            most = seen.seconds / pause + 1
            often = f"{seen.calls} calls of MPI in {1e3 * seen.seconds:.0f} ms, where {most:.0f} were due"
            expect(seen.calls <= most, f"{often}: sleep {1e3 * pause:.0f} ms before each.")
            expect(seen.ended, "`over` was raised, and the thread has not ended.")
            expect(seen.calls >= 5, f"{often}: look again and again, until `over` is raised.")
