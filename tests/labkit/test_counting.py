"""labkit.counting: every number of ranks, the cost of known message patterns, calls by name; on real ranks."""

import numpy as np
import pytest
from labkit import collectives, launch
from labkit.counting import Cost, Message, CallLog, count, expect_sum, on_every_size
from labkit.errors import RankFailed


def _chain(comm, vector):
    """Each rank passes on to the next: p - 1 messages, one after another."""
    if comm.rank > 0:
        comm.Recv(vector, source=comm.rank - 1)
    if comm.rank < comm.size - 1:
        comm.Send(vector, dest=comm.rank + 1)


def _to_all(comm, vector):
    """Rank 0 sends to everybody: one message after another leaves it."""
    if comm.rank:
        return comm.Recv(vector, 0)
    for other in range(1, comm.size):
        comm.Send(vector, other)
    return None


def _from_all(comm, vector):
    """Everybody sends to rank 0: one message after another reaches it."""
    if comm.rank:
        return comm.Send(vector, 0)
    for other in range(1, comm.size):
        comm.Recv(vector, other)
    return None


def _ring_step(comm, vector):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(vector[:2].copy(), right, recvbuf=vector[2:4], source=left)


def _costs(comm):
    patterns = (_chain, _to_all, _from_all, _ring_step)
    return [count(comm, pattern, np.zeros(4, np.float32)) for pattern in patterns]


def _all_sizes(comm):
    return on_every_size(comm, _costs)


def test_rounds_messages_and_values():
    per_rank = launch.run(_all_sizes, ranks=3)
    assert [sorted(results) for results in per_rank] == [[1, 2, 3], [2, 3], [3]]
    assert per_rank[0][3] == per_rank[2][3]
    chain, to_all, from_all, ring = per_rank[0][3]
    assert (chain.rounds, to_all.rounds, from_all.rounds, ring.rounds) == (2, 2, 2, 1)
    assert chain.messages == [Message(0, 1, 4, 1), Message(1, 2, 4, 2)]
    assert (to_all.busiest, from_all.busiest, ring.busiest) == (8, 4, 2)
    assert (to_all.values, ring.values) == (8, 6)
    assert per_rank[0][1][:3] == [Cost(0, [])] * 3


def _with_bcast(comm):
    return count(comm, lambda counted: counted.Bcast(np.zeros(1), root=0))


def test_other_calls_are_refused():
    with pytest.raises(RankFailed, match=r"build it from comm\.Send"):
        launch.run(_with_bcast, ranks=2)


def test_a_log_notes_calls_and_passes_them_on():
    class Alone:
        rank, size = 0, 1

        def allreduce(self, value):
            return value

    log = CallLog(Alone())
    assert (log.rank, log.size, log.allreduce(3)) == (0, 1, 3)
    assert log.calls == ["allreduce"]


def _sums(comm):
    expect_sum(comm, collectives.tree_allreduce)


def _sums_on_rank_0_alone(comm):
    expect_sum(comm, collectives.tree_reduce, lengths=[5])


def _sums_by_mpi(comm):
    from mpi4py import MPI

    expect_sum(comm, lambda counted, vector: counted.Allreduce(MPI.IN_PLACE, vector))


def test_a_sum_is_looked_at_on_every_rank():
    launch.run(_sums, ranks=3)
    with pytest.raises(RankFailed, match="2 real ranks, 5 values: rank 1's sum"):
        launch.run(_sums_on_rank_0_alone, ranks=2)
    with pytest.raises(RankFailed, match="comm.Allreduce is not there"):
        launch.run(_sums_by_mpi, ranks=2)
