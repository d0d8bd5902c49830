"""virtual.trials: many sizes, the right answers asked for, and wrong programs told by their
size."""

import pytest
import virtual
from labkit import collectives
from labkit.errors import CheckFailed, LabError
from labkit.mpi import COMM_TYPE_SHARED


def test_lengths_arguments_nodes_and_machine():
    def program(comm, vector, times, more):
        assert comm.Split_type(COMM_TYPE_SHARED).size <= 2
        vector *= times
        return vector * more if comm.rank else None  # what is returned counts, else the vector

    def want(inputs):
        return [2 * inputs[0]] + [6 * vector for vector in inputs[1:2]] + [None] * (len(inputs) - 2)

    sizes = {"ranks": (1, 2, 3), "lengths": [5], "args": (2, 3)}
    runs = virtual.trials(program, want, **sizes, ranks_per_node=2, machine="dgx1")
    assert list(runs) == [(1, 5), (2, 5), (3, 5)]
    assert (runs[3, 5].cluster.nodes, runs[3, 5].cluster.machine.name) == (2, "dgx1")


def drops_the_remainder(comm, vector):
    collectives.ring_allreduce(comm, vector[: len(vector) // comm.size * comm.size])


def wrong_on_one_rank(comm, vector):
    collectives.ring_allreduce(comm, vector)
    if comm.rank == 2:
        vector[-1] += 1


def waits_for_ever(comm, vector):
    comm.Recv(vector, source=(comm.rank + 1) % comm.size)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (drops_the_remainder, "2 ranks and 1 value the sum is wrong on every rank"),
        (wrong_on_one_rank, r"3 ranks and 48 values .* on rank 2 \(it is right on ranks 0 and 1\)"),
        (waits_for_ever, "With 1 rank and 16 values: deadlock: rank 0 waits in Recv"),
    ],
)
def test_a_wrong_program_is_told_with_its_size(program, says):
    with pytest.raises((CheckFailed, LabError), match=says):
        virtual.trials(program, sum, what="the sum")
