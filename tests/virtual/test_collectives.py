"""The virtual collectives: mpi4py's results, the textbooks' costs; those that go on beside the
program; communicators of some of the ranks."""

from __future__ import annotations

import sys

import mpi4py
import numpy as np
import pytest
import virtual
from hypothesis import given, settings
from hypothesis import strategies as st
from labkit import launch
from labkit.errors import LabError
from labkit.scaling import costs

from tests.virtual import collective_programs as programs

mpi4py.rc.initialize = False  # its constants are all that this process needs of it

ALPHA, BANDWIDTH, REDUCE = 2e-6, 1e9, 4e9
BETA, GAMMA = 1 / BANDWIDTH, 1 / REDUCE
MACHINE = virtual.ideal(ALPHA, BANDWIDTH, REDUCE)
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
    """The first `count` that hypothesis thinks of: always the same."""
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


@pytest.mark.parametrize("ranks", RANKS)
def test_every_call_and_random_programs_give_what_mpi4py_gives(ranks):
    asked = every_call() + random_programs(100)
    real = launch.run(programs.play, asked, ranks=ranks)
    for rank, (theirs, ours) in enumerate(zip(real, on(ranks, asked), strict=True)):
        for program, wanted, result in zip(asked, theirs, ours, strict=True):
            assert wanted == result, f"rank {rank}, {program}"


def on(ranks: int, asked: list, machine=None) -> list:
    return virtual.Cluster(1, ranks, machine).run(programs.play, asked).results


@pytest.mark.parametrize("ranks", [4, 5, 12])
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


def allreduce(comm, vector):
    comm.Allreduce(vector, np.empty(vector.size))


@pytest.mark.parametrize("ranks", TWOS)
def test_costs_are_those_of_the_closed_forms(ranks):
    n, steps = 8 * 16 * 1000, (ranks - 1).bit_length()  # bytes, rounds
    whole, part = n // 8, n // 8 // ranks
    counts = [part] * ranks
    added = n * (ranks - 1) / ranks * GAMMA
    gathered = costs.ring_allgather_time(n, ranks, ALPHA, BETA)
    halves = steps * ALPHA + n * (ranks - 1) / ranks * BETA
    tree = costs.tree_broadcast_time(n, ranks, ALPHA, BETA)
    long = costs.rabenseifner_allreduce_time(n, ranks, ALPHA, BETA, GAMMA)
    short = costs.recursive_doubling_allreduce_time(256, ranks, ALPHA, BETA, GAMMA)
    for fn, values, seconds in (
        (lambda c, v: c.Barrier(), 0, steps * ALPHA),
        (lambda c, v: c.Bcast(v), whole, tree),
        (lambda c, v: c.Reduce(v, np.empty(whole)), whole, tree + steps * n * GAMMA),
        (lambda c, v: c.Allgather(v, np.empty(whole)), part, gathered),
        (lambda c, v: c.Reduce_scatter_block(v, np.empty(part)), whole, gathered + added),
        (lambda c, v: c.Alltoall(v, np.empty(whole)), whole, gathered),
        (lambda c, v: c.Alltoallv([v, counts], [np.empty(whole), counts]), whole, gathered),
        (lambda c, v: c.Gather(v, np.empty(whole) if c.rank == 0 else None), part, halves),
        (lambda c, v: c.Scatter(v if c.rank == 0 else None, np.empty(part)), whole, halves),
        (lambda c, v: c.Scan(v, np.empty(32)), 32, steps * (ALPHA + 256 * (BETA + GAMMA))),
        (allreduce, whole, long),
        (allreduce, 32, short),
    ):
        run = virtual.Cluster(ranks, machine=MACHINE).run(fn, np.ones(values))
        assert run.time == pytest.approx(seconds, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("ranks", ALL)
def test_costs_where_ranks_are_no_power_of_two(ranks):
    """Messages wait for their receivers: one that came a round early would slow the one before
    it."""
    n = 8 * 8 * 1000  # 8 blocks at most are folded in Rabenseifner's
    for fn, size, bound in (
        (allreduce, 256, costs.recursive_doubling_allreduce_time(256, ranks, ALPHA, BETA, GAMMA)),
        (allreduce, n, costs.rabenseifner_allreduce_time(n, ranks, ALPHA, BETA, GAMMA)),
        (
            lambda c, v: c.Bcast(v, root=c.size - 1),
            n,
            costs.tree_broadcast_time(n, ranks, ALPHA, BETA),
        ),
    ):
        run = virtual.Cluster(ranks, machine=MACHINE.but(eager=0)).run(fn, np.ones(size // 8))
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


CALLS = {
    "Allreduce": lambda c, v: c.Allreduce(v, np.empty(v.size)),
    "Reduce": lambda c, v: c.Reduce(v, np.empty(v.size)),
    "Bcast": lambda c, v: c.Bcast(v),
    "Allgather": lambda c, v: c.Allgather(v, np.empty(v.size * c.size)),
    "Reduce_scatter_block": lambda c, v: c.Reduce_scatter_block(v, np.empty(v.size // c.size)),
    "Scatter": lambda c, v: c.Scatter(v, np.empty(v.size // c.size)),
}


@pytest.mark.parametrize("call", CALLS)
def test_vectors_count_as_what_they_stand_for(call):
    small, big = virtual.vector(np.ones(48), 480e3), np.ones(60_000)
    four = virtual.Cluster(4, machine=MACHINE)
    runs = [four.run(CALLS[call], vector) for vector in (small, big)]
    assert runs[0].sent_bytes == runs[1].sent_bytes
    assert runs[0].time == pytest.approx(runs[1].time, rel=1e-12)


def test_what_is_passed_on_counts_as_at_the_root():
    def pass_on(comm):
        whole = virtual.vector(np.ones(16), 16e6) if comm.rank == 0 else np.empty(16)
        comm.Bcast(whole)
        comm.Ibcast(whole).Wait()
        comm.Scatter(whole, np.empty(2))

    run = virtual.Cluster(8).run(pass_on)
    # In each of 3 rounds half of the array leaves some rank.
    assert sum(run.sent_bytes) == 2 * 7 * 16e6 + 3 * 8e6


# -- beside the program


def test_an_iallreduce_goes_on_beside_the_program():
    n = 8_000_000
    alone = costs.rabenseifner_allreduce_time(n, 4, ALPHA, BETA, GAMMA)

    def beside(comm, seconds, count):
        vectors = [(np.ones(n // 8), np.empty(n // 8)) for _ in range(count)]
        requests = [comm.Iallreduce(*pair) for pair in vectors]
        comm.compute(seconds)
        for request in requests:
            request.Wait()
        assert all((into == comm.size).all() for _, into in vectors)

    for seconds in (0, 0.3 * alone, alone, 2 * alone):
        run = virtual.Cluster(4, machine=MACHINE).run(beside, seconds, 1)
        assert run.time == pytest.approx(max(seconds, alone), rel=1e-9)
    several = virtual.Cluster(4, machine=MACHINE).run(beside, alone, 3).time
    wires = costs.rabenseifner_allreduce_time(n, 4, ALPHA, BETA)
    # They share the ports: only the reductions go on at once.
    assert 3 * wires * 0.99 < several < 3 * alone


def test_the_clocks_of_a_collective_and_its_program_meet_at_wait():
    link = virtual.Link(latency=1e-6, bandwidth=1e9, overhead=1e-3)
    machine = virtual.ideal().but(inside=link, between=link)

    def join(comm):
        comm.compute(5e-3)
        request = comm.Ibcast(np.zeros(8))
        comm.Dup()  # waits for the other rank and takes no time; the broadcast goes on
        before = comm.Wtime()
        request.Wait()
        return before, comm.Wtime()

    (root, after), (leaf, got) = virtual.Cluster(2, machine=machine).run(join).results
    assert root == leaf == 5e-3
    assert after == pytest.approx(5e-3 + 1e-3, rel=1e-9)
    assert got == pytest.approx(5e-3 + 2e-3 + 1e-6 + 64e-9, rel=1e-9)


@pytest.mark.parametrize("twins", [(0, 0), (1, 2), (2, 1)])
def test_the_programs_messages_do_not_meet_those_of_collectives(twins):
    def mixed(comm, twins):
        comms = [comm, comm.Dup(), comm.Dup()]
        first, second = (comms[twin] for twin in twins)
        own, got = np.full(8, comm.rank), np.empty(8, int)
        total = np.empty(8, int)
        request = first.Irecv(got)  # from any rank, with any tag
        slow = second.Iallreduce(own, total)
        second.Barrier()
        second.Bcast(np.zeros(8, int), root=2)
        first.Send(own, (comm.rank + 1) % comm.size, tag=1)
        request.Wait()
        slow.Wait()
        return int(got[0]), int(total[0])

    assert virtual.Cluster(4).run(mixed, twins).results == [
        ((rank - 1) % 4, 6) for rank in range(4)
    ]


# -- communicators


def test_making_one_takes_no_messages_but_waits_for_all():
    def late(comm):
        comm.compute((comm.rank * 3 % 4) * 1e-3)
        twin = comm.Dup()
        after = comm.Wtime()
        return after, twin.Split(0).Wtime(), twin.Get_size()

    run = virtual.Cluster(4).run(late)
    assert sum(run.sent) == sum(run.steps) == 0
    assert run.results == [(3e-3, 3e-3, 4)] * 4


def test_without_mpi4py_undefined_gives_a_false_communicator(monkeypatch):
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)

    def leave_out(comm):
        sub = comm.Split(-32766 if comm.rank == 0 else 0)
        if not sub:
            assert sub == None  # noqa: E711 - it says that it equals None
            with pytest.raises(LabError, match="Barrier of no communicator"):
                sub.Barrier()
            return "none"
        total = np.empty(2)
        sub.Allreduce(np.ones(2), total)
        return total.sum()

    assert virtual.Cluster(3).run(leave_out).results == ["none", 4.0, 4.0]
