"""labkit.counting on real ranks: every number of ranks, and calls by name."""

import subprocess
import sys

import numpy as np
import pytest
from labkit import launch
from labkit.counting import CallLog, by_arrays_alone, on_every_size, sizes_of_groups
from labkit.errors import LabError


def _refusals(comm):
    """What is said of calls that are not offered, that nobody waits for, and of a rank that there
    is not."""
    calls = [
        lambda: by_arrays_alone(comm, lambda arrays: arrays.Bcast(np.zeros(1), root=0)),
        lambda: by_arrays_alone(comm, lambda arrays: arrays.Irecv(np.empty(1), source=0)),
        lambda: CallLog(comm).Send(np.ones(1), dest=-1),
        lambda: CallLog(comm).Sendrecv(np.ones(1), 0, 0, np.ones(1), -1),
    ]
    said = []
    for call in calls:
        with pytest.raises(LabError) as refused:
            call()
        said.append(str(refused.value))
    return said


def _all_sizes(comm):
    more = {1: _refusals, 2: _look_at_messages, 3: lambda group: None}
    return on_every_size(comm, lambda group: more[group.size](group))


@pytest.fixture(scope="module")
def counted():
    return launch.run(_all_sizes, ranks=3)


def test_every_size_is_tried_by_the_ranks_that_are_in_it(counted):
    assert [sorted(results) for results in counted] == [[1, 2, 3], [2, 3], [3]]


def test_what_is_not_offered_and_what_mpi_lets_pass_is_refused(counted):
    bcast, irecv, *ranks = counted[0][1]
    assert "build it from comm.Send" in bcast
    assert "Irecv starts a message, and nobody waits" in irecv
    for said in ranks:
        assert "=-1: there is no such rank" in said
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
    assert [counted[rank][2] for rank in range(2)] == [True, True]


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
