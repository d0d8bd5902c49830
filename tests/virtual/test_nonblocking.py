"""Collectives that go on beside the program: overlap, ports that are shared, clocks that meet at
Wait."""

from __future__ import annotations

import mpi4py
import numpy as np
import pytest
import virtual
from labkit.scaling import costs

mpi4py.rc.initialize = False

ALPHA, BANDWIDTH, REDUCE = 2e-6, 1e9, 4e9
BETA, GAMMA = 1 / BANDWIDTH, 1 / REDUCE


def test_an_iallreduce_goes_on_beside_the_program():
    machine = virtual.ideal(ALPHA, BANDWIDTH, REDUCE)
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
        run = virtual.Cluster(4, machine=machine).run(beside, seconds, 1)
        assert run.time == pytest.approx(max(seconds, alone), rel=1e-9)
    several = virtual.Cluster(4, machine=machine).run(beside, alone, 3).time
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
