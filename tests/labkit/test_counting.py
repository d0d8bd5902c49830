"""labkit.counting on real ranks: every number of ranks, the cost of message patterns, calls by
name."""

import subprocess
import sys

import numpy as np
import pytest
from labkit import counting, launch
from labkit.counting import CallLog, Cost, Message, count, on_every_size, sizes_of_groups
from labkit.errors import LabError


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


def _ring_of_requests(comm, vector):
    """The step of _ring_step by requests; both ends are waited for at once."""
    from mpi4py import MPI

    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    MPI.Request.Waitall([comm.Irecv(vector[2:4], left), comm.Isend(vector[:2].copy(), dest=right)])


def _one_after_the_other(comm, vector):
    """Two rounds round the ring: `status=`, `wait()`, and a message for nobody."""
    from mpi4py import MPI

    status = MPI.Status()
    for _ in range(2):
        request = comm.Issend(vector, (comm.rank + 1) % comm.size)
        comm.Recv(vector.copy(), source=MPI.ANY_SOURCE, status=status)
        request.wait()
        comm.Send(vector, dest=MPI.PROC_NULL)
    assert status.source == (comm.rank - 1) % comm.size


def _costs(comm):
    patterns = (_chain, _to_all, _from_all, _ring_step, _ring_of_requests, _one_after_the_other)
    return [count(comm, pattern, np.zeros(4, np.float32)) for pattern in patterns]


def _refusals(comm):
    """What is said of calls that are not counted, that nobody waits for, and of a rank that there
    is not."""
    calls = [
        lambda: count(comm, lambda counted: counted.Bcast(np.zeros(1), root=0)),
        lambda: count(comm, lambda counted: counted.Irecv(np.empty(1), source=0)),
        lambda: CallLog(comm).Send(np.ones(1), dest=-1),
        lambda: counting.MessageCounter(comm).Send(np.ones(1), dest=-1),
    ]
    said = []
    for call in calls:
        with pytest.raises(LabError) as refused:
            call()
        said.append(str(refused.value))
    return said


def _all_sizes(comm):
    more = {1: _refusals, 2: _look_at_messages, 3: lambda group: None}
    return on_every_size(comm, lambda group: (_costs(group), more[group.size](group)))


@pytest.fixture(scope="module")
def counted():
    return launch.run(_all_sizes, ranks=3)


def test_rounds_messages_and_values(counted):
    assert [sorted(results) for results in counted] == [[1, 2, 3], [2, 3], [3]]
    assert counted[0][3] == counted[2][3]
    chain, to_all, from_all, ring, requests, twice = counted[0][3][0]
    assert (chain.rounds, to_all.rounds, from_all.rounds, ring.rounds) == (2, 2, 2, 1)
    assert chain.messages == [Message(0, 1, 4, 1), Message(1, 2, 4, 2)]
    assert (to_all.busiest, from_all.busiest, ring.busiest) == (8, 4, 2)
    assert (to_all.values, ring.values) == (8, 6)
    assert counted[0][1][0][:3] == [Cost(0, [])] * 3
    assert requests == ring, "a step by requests costs what it does by blocking calls"
    assert (twice.rounds, twice.busiest, len(twice.messages)) == (2, 8, 6)


def test_what_cannot_be_counted_and_what_mpi_lets_pass_is_refused(counted):
    bcast, irecv, *ranks = counted[0][1][1]
    assert "build it from comm.Send" in bcast
    assert "Irecv starts a message, and nobody waits" in irecv
    for said in ranks:
        assert "dest=-1: there is no such rank" in said
        assert "MPI.PROC_NULL" in said


def _logged_messages(comm):
    """What a log says of sums before a Waitall, after it, and of small letters."""
    from mpi4py import MPI

    log = CallLog(comm)
    other = 1 - comm.rank
    own = log.watch(np.arange(5.0))
    theirs = np.empty(5)
    requests = [log.Irecv(theirs, source=other), log.Isend(own, dest=other)]
    inside = own[1:] * 2
    before = log.under_way()
    MPI.Request.Waitall(requests)
    both = own + theirs
    object_sent = log.isend("object", dest=other)
    received = log.recv(source=other)
    left = log.under_way()
    object_sent.Wait()
    return log, inside, before, both, received, left


def _look_at_messages(comm):
    log, inside, before, both, received, left = _logged_messages(comm)
    assert log.calls == ["Irecv", "Isend", "isend", "recv"]
    assert [request.call for request in log.requests] == ["Irecv", "Isend", "isend"]
    assert (before, left, log.under_way()) == (2, 1, 0)
    assert log.computed == [(4, 2), (5, 0)]
    np.testing.assert_array_equal(inside, [2, 4, 6, 8])
    np.testing.assert_array_equal(both, 2 * np.arange(5.0))
    assert received == "object"
    own = log.watch(np.zeros(3))
    own += 1
    assert log.computed[-1] == (3, 0)
    new = np.empty_like(own)
    # The list becomes a plain array: no arithmetic is seen.
    new[1:] = np.mean([own[1:], own[:-1]], axis=0)
    assert log.written == [(2, 0)]
    assert own.sum() == 3
    return True


def test_a_log_notes_requests_and_what_is_computed_meanwhile(counted):
    assert [counted[rank][2][1] for rank in range(2)] == [True, True]


def test_a_request_of_mpi4py_is_still_one():
    code = (
        "import mpi4py; mpi4py.rc.initialize = False; from labkit import counting; from mpi4py"
        " import MPI; print(isinstance(MPI.REQUEST_NULL, MPI.Request), isinstance(3, MPI.Request))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["True", "False"]


@pytest.mark.parametrize(
    ("ranks", "sizes"),
    [
        (1, [1]),
        (5, [5, 4, 3, 2, 1]),
        (8, [8, 7, 6, 5, 4, 3, 2, 1]),
        (9, [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (32, [32, 31, 8, 7, 6, 5, 4, 3, 2, 1]),
    ],
)
def test_a_large_job_tries_few_sizes(ranks, sizes):
    assert sizes_of_groups(ranks) == sizes
