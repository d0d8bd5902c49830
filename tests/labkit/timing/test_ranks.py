"""labkit.timing on real MPI ranks: the slowest counts, and nobody is left waiting."""

from __future__ import annotations

import time

import pytest
from labkit import launch, timing
from labkit.timing import timer


class Late:
    """A rank that comes late to the barrier must not add its lateness to the others' time."""

    def __init__(self, comm):
        self.comm = comm
        self.Allreduce = comm.Allreduce

    def Barrier(self):
        time.sleep(0.05 * self.comm.rank)
        self.comm.Barrier()


def with_a_slow_rank(comm):
    """Rank 1 sleeps 30 ms, rank 0 only 1 ms."""
    pause = 0.03 if comm.rank == 1 else 0.001

    def sleep():
        time.sleep(pause)

    alone = timing.measure(sleep, repeat=5, warmup=0)
    fixed = timing.measure(sleep, repeat=6, warmup=1, comm=comm)
    until = timing.measure(sleep, repeat=1000, seconds=0.4, warmup=1, comm=comm)
    pair = timing.ratio(sleep, lambda: time.sleep(0.03), repeat=5, comm=comm)
    late = timing.measure(comm.Barrier, repeat=7, comm=Late(comm))
    # Clocks that disagree must not let one rank stop before the other: that would be a deadlock.
    timer.perf_counter_ns = lambda: (1 + 2 * comm.rank) * time.perf_counter_ns()
    skewed = timing.measure(lambda: time.sleep(0.01), repeat=1000, seconds=0.6, comm=comm)
    together = (fixed.samples.tolist(), until.samples.tolist(), pair.median, late.median)
    return alone.median, *together, len(skewed.samples)


@pytest.mark.slow
def test_the_slowest_rank_counts():
    first, second = launch.run(with_a_slow_rank, ranks=2)
    assert first[0] < second[0]  # without comm each rank knows only itself
    assert first[1:] == second[1:]
    _, fixed, until, pair, late, skewed = first
    assert len(fixed) == 6
    assert min(fixed) >= 0.03
    assert 5 <= len(until) <= 14
    assert pair > 0.3
    assert late < 0.05
    assert skewed >= 5
