"""virtual.trials: many sizes, the right answers asked for, and wrong programs told by their kind."""

import numpy as np
import pytest
import virtual
from labkit.errors import CheckFailed, LabError
from mpi4py import MPI
from virtual.sweep import lengths_for, vectors

from tests.labkit.checks.tried import tried
from tests.virtual import algorithms

RANKS = (1, 2, 3, 4, 5, 8, 16)


def test_all_sizes_are_run():
    runs = virtual.trials(algorithms.ring_allreduce, sum)
    assert list(runs) == [(p, length) for p in RANKS for length in lengths_for(p)]
    for (p, length), run in runs.items():
        assert run.ranks == p
        run.expect_steps(exactly=2 * (p - 1))
        run.expect_sent(at_most=2 * (p - 1) * -(-length // p) / length, unit=8 * length, named="a ring")


def test_the_lengths_are_those_that_find_mistakes():
    for p in RANKS:
        lengths = lengths_for(p)
        assert any(length % p == 0 for length in lengths)
        assert min(lengths) == 1 if p <= 2 else min(lengths) < p
        assert p == 1 or any(length % p for length in lengths)
        assert all(length >= 1 for length in lengths)


def test_the_vectors_differ_by_rank_and_place():
    inputs = vectors(8, 1000)
    assert len(inputs) == 8
    assert all(
        vector.dtype == np.float64 and not np.any(vector % 1) and vector.min() >= 1 for vector in inputs
    )
    assert len({tuple(vector) for vector in inputs}) == 8
    total = sum(inputs)
    for shift in (1, -1):
        assert np.mean(np.roll(total, shift) == total) < 0.01
    assert all(np.array_equal(*pair) for pair in zip(inputs, vectors(8, 1000), strict=True))


def test_what_is_returned_counts_else_the_vector():
    def returns_a_new_one(comm, vector):
        return np.array(vector) + 1

    def changes_it(comm, vector):
        vector += 1

    for program in (returns_a_new_one, changes_it):
        virtual.trials(program, lambda inputs: [vector + 1 for vector in inputs], ranks=(1, 3))


def test_lengths_arguments_nodes_and_machine():
    def program(comm, vector, times, more):
        vector *= times * more
        assert comm.Split_type(MPI.COMM_TYPE_SHARED).size <= 2

    sizes = {"ranks": (1, 2, 3), "lengths": [5], "args": (2, 3), "ranks_per_node": 2, "machine": "dgx1"}
    runs = virtual.trials(program, lambda inputs: [6 * vector for vector in inputs], **sizes)
    assert list(runs) == [(1, 5), (2, 5), (3, 5)]
    assert runs[3, 5].cluster.nodes == 2
    assert runs[3, 5].cluster.machine.name == "dgx1"


def test_some_ranks_may_hold_anything():
    virtual.trials(algorithms.tree_reduce, lambda inputs: [sum(inputs)] + [None] * (len(inputs) - 1))


def off_by_one_neighbour(comm, vector):
    chunks = np.array_split(vector, comm.size)
    algorithms.ring_reduce_scatter(comm, chunks)
    algorithms.ring_allgather(comm, chunks, first=0)


def drops_the_remainder(comm, vector):
    whole = len(vector) // comm.size * comm.size
    algorithms.ring_allreduce(comm, vector[:whole])


def only_powers_of_two(comm, vector):
    box, distance = np.empty_like(vector), 1
    while distance < comm.size:
        partner = comm.rank ^ distance
        comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)
        vector += box
        distance *= 2


def wrong_on_one_rank(comm, vector):
    algorithms.ring_allreduce(comm, vector)
    if comm.rank == 2:
        vector[-1] += 1


def waits_for_ever(comm, vector):
    comm.Recv(vector, source=(comm.rank + 1) % comm.size)


def reduces_in_the_wrong_array(comm, vector):
    algorithms.ring_allreduce(comm, vector.copy())


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (
            off_by_one_neighbour,
            r"With 2 ranks and 32 values the sum is wrong on every rank. Rank 0: \d+ of 32",
        ),
        (drops_the_remainder, "With 2 ranks and 1 value the sum is wrong on every rank"),
        (only_powers_of_two, "With 3 ranks and 48 values: .*dest=3"),
        (
            wrong_on_one_rank,
            r"With 3 ranks and 48 values the sum is wrong on rank 2 \(it is right on ranks 0 and 1\)",
        ),
        (waits_for_ever, "With 1 rank and 16 values: deadlock: rank 0 waits in Recv"),
        (reduces_in_the_wrong_array, "With 2 ranks and 32 values the sum is wrong on every rank"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_program_is_told_with_its_size(program, says):
    with pytest.raises((CheckFailed, LabError), match=says):
        virtual.trials(program, sum, what="the sum")


def test_a_program_that_is_not_written_yet_says_so_in_a_check():
    def stub(comm, vector):
        raise NotImplementedError("exercise 21.1: write it")

    with pytest.raises(CheckFailed, match="not solved yet"):
        tried("21.1", lambda: virtual.trials(stub, sum))


def test_a_failure_of_the_right_answer_is_not_blamed_on_the_program():
    with pytest.raises(ZeroDivisionError):
        virtual.trials(algorithms.ring_allreduce, lambda inputs: 1 / 0)
