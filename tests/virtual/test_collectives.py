"""The virtual collectives: mpi4py's results, the textbooks' costs."""

from __future__ import annotations

import mpi4py
import numpy as np
import pytest
import virtual
from hypothesis import given, settings
from hypothesis import strategies as st
from labkit import launch
from labkit.scaling import costs

from tests.virtual import collective_programs as programs

mpi4py.rc.initialize = False  # its constants are all that this process needs of it

ALPHA, BANDWIDTH, REDUCE = 2e-6, 1e9, 4e9
BETA, GAMMA = 1 / BANDWIDTH, 1 / REDUCE
RANKS = (2, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (1, 3, 4)))
TWOS = (1, 2, 4, 8, 16)
ALL = (1, 2, 3, 4, 5, 7, 8, 12, 16)


def every_call() -> list[list[tuple]]:
    """Each call with lengths that do not divide, short, long, empty, in place, with several
    roots."""
    kinds = [(0, 5, "SUM", "f8", False), (1, 7, "MAX", "f4", True), (2, 700, "PROD", "i8", True)]
    kinds += [(3, 701, "BXOR", "i4", False), (1, 0, "SUM", "f8", False), (2, 1, "MIN", "i4", True)]
    calls = [[(call, *kind)] for call in programs.ARRAYS for kind in kinds]
    roots = [(0, 3, "SUM", "i8", False), (3, 600, "MAX", "f8", False)]
    return calls + [
        [(call, *kind)] for call in programs.OBJECTS + programs.OTHERS for kind in roots
    ]


def random_programs(count: int) -> list[list[tuple]]:
    """The first `many` that hypothesis thinks of: always the same."""
    drawn: list[list[tuple]] = []
    step = st.tuples(
        st.sampled_from(programs.ARRAYS + programs.OBJECTS + programs.OTHERS + programs.GROUPS),
        st.integers(0, 7),
        st.sampled_from([0, 1, 2, 3, 5, 16, 33, 513, 1100]),
        st.sampled_from(programs.OPS),
        st.sampled_from(programs.DTYPES),
        st.booleans(),
    )

    @settings(max_examples=count, derandomize=True, database=None, deadline=None)
    @given(st.lists(step, min_size=3, max_size=12))
    def collect(program):
        drawn.append(program)

    collect()
    return drawn


def same(real: list, virtual_: list, asked: list) -> None:
    for rank, (theirs, ours) in enumerate(zip(real, virtual_, strict=True)):
        for program, real_result, result in zip(asked, theirs, ours, strict=True):
            assert real_result == result, f"rank {rank}, {program}"


@pytest.mark.parametrize("ranks", RANKS)
def test_every_call_and_random_programs_give_what_mpi4py_gives(ranks):
    asked = every_call() + random_programs(100)
    real = launch.run(programs.play, asked, ranks=ranks)
    same(real, on(ranks, asked), asked)


def on(ranks: int, asked: list, machine=None) -> list:
    return virtual.Cluster(1, ranks, machine).run(programs.play, asked).results


@pytest.mark.parametrize("ranks", [4, 5, 8])
def test_results_do_not_depend_on_the_machine(ranks):
    asked = every_call() + random_programs(20)
    rendezvous = virtual.ideal().but(eager=16, handshake=1e-6, reduce=1e9)
    assert on(ranks, asked) == on(ranks, asked, rendezvous)


@pytest.mark.parametrize("ranks", ALL)
def test_reductions_against_numpy(ranks):
    want = [np.arange(37.0) * (rank + 1) for rank in range(ranks)]

    def reductions(comm, vector):
        from mpi4py import MPI

        total, biggest, part = np.empty(37), np.empty(37), np.empty(3)
        comm.Allreduce(vector, total)
        comm.Reduce(vector, biggest if comm.rank == comm.size - 1 else None, MPI.MAX, comm.size - 1)
        comm.Reduce_scatter_block(np.resize(vector, 3 * comm.size), part, op=MPI.MIN)
        return total, biggest, part, comm.allreduce([comm.rank])

    run = virtual.Cluster(ranks).run(reductions, virtual.by_rank(want))
    least = np.min([np.resize(vector, 3 * ranks) for vector in want], axis=0)
    for rank, (total, biggest, part, lists) in enumerate(run.results):
        assert np.array_equal(total, sum(want))
        assert rank < ranks - 1 or np.array_equal(biggest, np.max(want, axis=0))
        assert np.array_equal(part, least[3 * rank : 3 * rank + 3])
        assert lists == list(range(ranks))


# -- costs


def time_of(ranks: int, fn, *args) -> float:
    return (
        virtual.Cluster(ranks, machine=virtual.ideal(ALPHA, BANDWIDTH, REDUCE)).run(fn, *args).time
    )


def close(got: float, want: float) -> bool:
    return got == pytest.approx(want, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("ranks", TWOS)
def test_costs_are_those_of_the_closed_forms(ranks):
    n = 8 * 16 * 1000  # bytes
    vector = np.ones(n // 8)
    short = np.ones(32)

    def allgather(comm, vector):
        comm.Allgather(vector[: vector.size // comm.size], np.empty(vector.size))

    def reduce_scatter(comm, vector):
        comm.Reduce_scatter_block(vector, np.empty(vector.size // comm.size))

    def part(comm, vector):
        comm.Gather(
            vector[: vector.size // comm.size], np.empty(vector.size) if comm.rank == 0 else None
        )

    def alltoallv(comm, vector):
        counts = [vector.size // comm.size] * comm.size
        comm.Alltoallv([vector, counts], [np.empty(vector.size), counts])

    def scatter(comm, vector):
        comm.Scatter(vector if comm.rank == 0 else None, np.empty(vector.size // comm.size))

    steps = (ranks - 1).bit_length()
    gathered = costs.ring_allgather_time(n, ranks, ALPHA, BETA)
    tree = costs.tree_broadcast_time(n, ranks, ALPHA, BETA)
    half = steps * ALPHA + n * (ranks - 1) / ranks * BETA
    assert close(time_of(ranks, lambda comm, v: comm.Barrier(), vector), steps * ALPHA)
    assert close(time_of(ranks, lambda comm, v: comm.Bcast(v), vector), tree)
    assert close(
        time_of(ranks, lambda comm, v: comm.Reduce(v, np.empty(v.size)), vector),
        tree + steps * n * GAMMA,
    )
    assert close(time_of(ranks, allgather, vector), gathered)
    assert close(time_of(ranks, reduce_scatter, vector), gathered + n * (ranks - 1) / ranks * GAMMA)
    assert close(
        time_of(ranks, lambda comm, v: comm.Alltoall(v, np.empty(v.size)), vector), gathered
    )
    assert close(time_of(ranks, alltoallv, vector), gathered)
    assert close(time_of(ranks, part, vector), half)
    assert close(time_of(ranks, scatter, vector), half)
    assert close(
        time_of(ranks, lambda comm, v: comm.Scan(v, np.empty(v.size)), short), doubled(256, steps)
    )
    rabenseifner = costs.rabenseifner_allreduce_time(n, ranks, ALPHA, BETA, GAMMA)
    assert close(time_of(ranks, allreduce, vector), rabenseifner)
    doubling = costs.recursive_doubling_allreduce_time(256, ranks, ALPHA, BETA, GAMMA)
    assert close(time_of(ranks, allreduce, short), doubling)


def doubled(n: float, steps: int) -> float:
    return steps * (ALPHA + n * (BETA + GAMMA))


def allreduce(comm, vector):
    comm.Allreduce(vector, np.empty(vector.size))


@pytest.mark.parametrize("ranks", ALL)
def test_costs_where_ranks_are_no_power_of_two(ranks):
    """Messages wait for their receivers: one that came a round early would slow the one before
    it."""
    machine = virtual.ideal(ALPHA, BANDWIDTH, REDUCE).but(eager=0)
    n = 8 * 8 * 1000  # 8 blocks at most are folded in Rabenseifner's
    within = [
        (allreduce, 256, costs.recursive_doubling_allreduce_time(256, ranks, ALPHA, BETA, GAMMA)),
        (allreduce, n, costs.rabenseifner_allreduce_time(n, ranks, ALPHA, BETA, GAMMA)),
        (
            lambda comm, v: comm.Bcast(v, root=comm.size - 1),
            n,
            costs.tree_broadcast_time(n, ranks, ALPHA, BETA),
        ),
    ]
    for fn, size, bound in within:
        run = virtual.Cluster(ranks, machine=machine).run(fn, np.ones(size // 8))
        assert run.time <= bound * (1 + 1e-9)


@pytest.mark.parametrize("ranks", ALL)
def test_messages_bytes_and_rounds(ranks):
    def run(fn, size=0):
        return virtual.Cluster(ranks).run(fn, np.zeros(size))

    steps = (ranks - 1).bit_length()
    barrier = run(lambda comm, v: comm.Barrier())
    assert barrier.sent == barrier.received == barrier.steps == [steps] * ranks
    assert sum(barrier.sent_bytes) == 0
    tree = run(lambda comm, v: comm.Bcast(v), 100)
    assert sum(tree.sent) == ranks - 1
    assert max(tree.steps) == steps
    assert tree.received_bytes == [0] + [800] * (ranks - 1)
    ring = run(lambda comm, v: comm.Allgather(v, np.empty(100 * comm.size)), 100)
    assert ring.sent == ring.steps == [ranks - 1] * ranks
    assert ring.sent_bytes == [800 * (ranks - 1)] * ranks
    assert all((dest - source) % ranks == 1 for source, dest in ring.links)


# -- vectors


@pytest.mark.parametrize(
    "call", ["Allreduce", "Reduce", "Bcast", "Allgather", "Reduce_scatter_block", "Scatter"]
)
def test_vectors_count_as_what_they_stand_for(call):
    def collective(comm, vector):
        if call == "Bcast":
            return comm.Bcast(vector)
        wide = np.empty(vector.size * comm.size) if call == "Allgather" else np.empty(vector.size)
        if call in ("Reduce_scatter_block", "Scatter"):
            wide = np.empty(vector.size // comm.size)
        return getattr(comm, call)(vector, wide)

    machine = virtual.ideal(ALPHA, BANDWIDTH, REDUCE)
    small, big = virtual.vector(np.ones(48), 480e3), np.ones(60_000)
    runs = [virtual.Cluster(4, machine=machine).run(collective, vector) for vector in (small, big)]
    assert runs[0].sent_bytes == runs[1].sent_bytes
    assert runs[0].time == pytest.approx(runs[1].time, rel=1e-12)


def test_what_is_passed_on_counts_as_at_the_root():
    def pass_on(comm):
        whole = virtual.vector(np.ones(16), 16e6) if comm.rank == 0 else np.empty(16)
        comm.Bcast(whole)
        comm.Ibcast(whole).Wait()
        comm.Scatter(whole, np.empty(2))

    run = virtual.Cluster(8).run(pass_on)
    assert (
        sum(run.sent_bytes) == 2 * 7 * 16e6 + 3 * 8e6
    )  # in each of 3 rounds half of the array leaves some rank
