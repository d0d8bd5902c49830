"""Mistakes in collectives on the virtual cluster: each is told in a sentence, on every run the same."""

from __future__ import annotations

import mpi4py
import numpy as np
import pytest
import virtual
from labkit.errors import LabError, RankFailed

mpi4py.rc.initialize = False


def sentence(fn, ranks: int = 4) -> str:
    with pytest.raises(LabError) as error:
        virtual.Cluster(ranks).run(fn)
    return str(error.value)


def call(comm):
    if comm.rank == 2:
        comm.Bcast(np.zeros(4))
    else:
        comm.Allreduce(np.zeros(4), np.empty(4))


def root(comm):
    comm.Bcast(np.zeros(4), root=comm.rank % 2)


def count(comm):
    comm.Allgather(np.zeros(3 + comm.rank // 2), np.empty((3 + comm.rank // 2) * comm.size))


def dtype(comm):
    vector = np.zeros(4, np.float32 if comm.rank == 1 else np.float64)
    comm.Allreduce(vector, np.empty_like(vector))


def op(comm):
    comm.allreduce(comm.rank, op=max if comm.rank == 3 else None)


def order(comm):
    comm.Barrier()
    total = np.empty(4)
    if comm.rank:
        comm.Barrier()
        comm.Allreduce(np.zeros(4), total)
    else:
        comm.Allreduce(np.zeros(4), total)
        comm.Barrier()


def blocking(comm):
    if comm.rank:
        comm.Iallreduce(np.zeros(4), np.empty(4)).Wait()
    else:
        comm.Allreduce(np.zeros(4), np.empty(4))


def grid(comm):
    comm.Create_cart([comm.size], [comm.rank > 1])


def inner(comm):
    pair = comm.Split(comm.rank // 2)
    pair.bcast(1, root=0 if comm.rank < 2 else pair.rank)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (call, ["rank 2 calls Bcast (line", "but rank 0 calls Allreduce (line", "(this is number 1)"]),
        (root, ["rank 1 calls Bcast with root 1 (line", "but rank 0 with root 0 (the same line)"]),
        (count, ["rank 2 calls Allgather with 4 values (line", "but rank 0 with 3 values"]),
        (dtype, ["rank 1 calls Allreduce with type float32", "but rank 0 with type float64"]),
        (op, ["rank 3 calls allreduce with op MAX", "but rank 0 with op SUM"]),
        (order, ["Barrier", "Allreduce", "(this is number 2)"]),
        (blocking, ["rank 1 calls Iallreduce", "rank 0 calls Allreduce"]),
        (grid, ["rank 2 calls Create_cart with periods [True]", "but rank 0 with periods [False]"]),
        (
            inner,
            ["rank 3", "with root 1", "rank 2", "with root 0", "on the communicator of ranks 2, 3"],
        ),
    ],
)
def test_ranks_that_call_different_collectives(wrong, says):
    text = sentence(wrong)
    assert all(part in text for part in [*says, "the same collective calls in the same order"]), text
    assert sentence(wrong) == text


def test_whose_mistake_it_is():
    with pytest.raises(RankFailed) as error:
        virtual.Cluster(4).run(root)
    assert (error.value.rank, error.value.kind) == (1, "Mismatch")
    assert "comm.Bcast(np.zeros(4), root=comm.rank % 2)" in error.value.line


def left_out(comm):
    if comm.rank != 2:
        comm.Allreduce(np.zeros(4), np.empty(4))


def elsewhere(comm):
    if comm.rank != 2:
        comm.allgather(1)
    else:
        comm.Recv(np.empty(4), source=0)


def two_left_out(comm):
    if comm.rank % 2:
        comm.Split(0)


def not_begun(comm):
    if comm.rank:
        comm.Iallreduce(np.zeros(4), np.empty(4)).Wait()


def ended_before(comm):
    if comm.rank:
        comm.Ibarrier()


def asks_for_ever(comm):
    if comm.rank:
        request = comm.Ibarrier()
        while not request.Test():
            pass


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (left_out, "rank 0 waits in Allreduce, which rank 2 has not called (line"),
        (elsewhere, "rank 0 waits in allgather, which rank 2 has not called (line"),
        (elsewhere, "rank 2 waits in Recv from rank 0 (line"),
        (two_left_out, "rank 1 waits in Split, which ranks 0, 2 have not called (line"),
        (not_begun, "rank 1 waits in Wait of an Iallreduce, which rank 0 has not called (line"),
        (ended_before, "rank 1 waits in Ibarrier, which rank 0 has not called (line"),
        (asks_for_ever, "rank 1 repeats Test of an Ibarrier, which rank 0 has not called (line"),
    ],
)
def test_a_collective_that_some_rank_never_enters(wrong, says):
    text = sentence(wrong)
    assert text.startswith("deadlock: ")
    assert says in text


def no_buffer(comm):
    comm.Allreduce(None, np.empty(4))


def a_list(comm):
    comm.Bcast([1, 2, 3])


def aliased(comm):
    vector = np.zeros(4)
    comm.Allreduce(vector, vector)


def other_length(comm):
    comm.Allreduce(np.zeros(4), np.zeros(5))


def other_type(comm):
    comm.Allreduce(np.zeros(4), np.zeros(4, "f4"))


def strided(comm):
    comm.Bcast(np.zeros((4, 4))[:, 1])


def read_only(comm):
    vector = np.zeros(4)
    vector.flags.writeable = False
    comm.Bcast(vector, root=1)


def uneven(comm):
    comm.Scatter(np.zeros(9) if comm.rank == 0 else None, np.zeros(2))


def too_few(comm):
    comm.scatter([1, 2] if comm.rank == 0 else None)


def no_such_root(comm):
    comm.bcast(1, root=comm.size)


def no_op(comm):
    comm.Allreduce(np.zeros(4), np.empty(4), op="sum")


def wrong_counts(comm):
    comm.Reduce_scatter(np.zeros(8), np.empty(2), [2, 2, 2, 3])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (no_buffer, "sendbuf must be a NumPy array of numbers, or [array, MPI.FLOAT], not NoneType"),
        (a_list, "buf must be a NumPy array of numbers, or [array, MPI.FLOAT], not list. For other"),
        (aliased, "sendbuf and recvbuf share memory (buffers must not be aliased)"),
        (other_length, "mismatch in send count 4 and receive count 5"),
        (other_type, "sendbuf holds float64 and recvbuf float32"),
        (strided, "not contiguous"),
        (read_only, "buf is read-only"),
        (uneven, "the root's sendbuf must hold 8 values, not 9"),
        (too_few, "expecting 4 items, one for each rank, got 2"),
        (no_such_root, "root=4: there is no such rank"),
        (no_op, "op=MPI.SUM, MPI.MAX and their like"),
        (wrong_counts, "recvcounts [2, 2, 2, 3]"),
    ],
)
def test_arguments_that_cannot_be(wrong, says):
    text = sentence(wrong)
    assert says in text
    assert "rank 0 failed" in text or wrong is read_only


def used(comm):
    into = np.empty(4)
    comm.Iallreduce(np.zeros(4), into)
    comm.Bcast(into)


def sent_early(comm):
    into = np.empty(4)
    comm.Iallreduce(np.zeros(4), into)
    comm.Send(into, (comm.rank + 1) % comm.size)


def changed(comm):
    vector, into = np.zeros(4), np.empty(4)
    request = comm.Iallreduce(vector, into)
    vector += 1
    request.Wait()


def forgotten(comm):
    comm.Iallreduce(np.zeros(4), np.empty(4))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (used, "the buffer of an Iallreduce that is not over"),
        (sent_early, "the buffer of an Iallreduce that is not over"),
        (changed, "The array of an Iallreduce was changed before its Wait"),
        (forgotten, "never waited for: call their Wait"),
    ],
)
def test_requests_of_collectives(wrong, says):
    assert says in sentence(wrong)


def test_what_an_iallreduce_fills_is_useless_before_wait():
    def early(comm):
        into, whole = np.zeros(4), np.zeros(4, int)
        requests = comm.Iallreduce(np.ones(4), into), comm.Iallreduce(np.ones(4, int), whole)
        comm.compute(1)
        before = into.sum(), whole.sum()
        for request in requests:
            request.Wait()
        return bool(np.isnan(before[0]) and before[1] != 16), into.sum(), whole.sum()

    assert virtual.Cluster(4).run(early).results == [(True, 16.0, 16)] * 4


def test_a_buffer_that_is_only_sent_may_be_sent_twice():
    def twice(comm):
        vector, total = np.full(4, np.nan), np.empty(4)
        request = comm.Ibcast(vector, root=0)
        other = comm.Iallreduce(np.ones(4), total)
        if comm.rank == 0:
            comm.Send(vector, 1)
        elif comm.rank == 1:
            comm.Recv(np.empty(4), 0)
        request.Wait()
        other.Wait()
        return total.sum()

    assert virtual.Cluster(2).run(twice).results == [8.0, 8.0]
