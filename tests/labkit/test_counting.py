"""labkit.counting on real ranks: every number of ranks, and calls by name."""

import subprocess
import sys

import numpy as np
import pytest
from labkit import launch
from labkit.counting import CallLog, by_arrays_alone, on_every_size, sizes_of_groups
from labkit.errors import LabError

NOBODY = "=-1: there is no such rank.*MPI.PROC_NULL"


def _refusals(comm):
    """Calls that are not offered, that nobody waits for, and of a rank that there is not."""
    log, one = CallLog(comm), np.ones(1)
    to_nobody = [getattr(log, name) for name in ("Send", "Ssend", "Isend", "Issend")]
    from_nobody = [getattr(log, name) for name in ("Recv", "Irecv", "recv", "irecv")]
    for call, says in (
        *((lambda call=call: call(one, -1), NOBODY) for call in to_nobody + from_nobody),
        *((lambda call=call: call(-1), NOBODY) for call in (log.Probe, log.iprobe)),
        (lambda: by_arrays_alone(comm, lambda arrays: arrays.Bcast(1)), "build it from comm.Send"),
        (
            lambda: by_arrays_alone(comm, lambda arrays: arrays.Irecv(np.empty(1), source=0)),
            "Irecv only starts, and its request",
        ),
        (lambda: log.Send(one, dest=-1), NOBODY),
        (lambda: log.Sendrecv(one, -1), NOBODY),
        (lambda: log.Sendrecv(one, 0, 0, one, -1), NOBODY),
    ):
        with pytest.raises(LabError, match=says):
            call()
    return True


def _all_sizes(comm):
    more = {1: _refusals, 2: _look_at_messages, 3: lambda group: None}
    return on_every_size(comm, lambda group: more[group.size](group))


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


def test_every_size_is_tried_by_the_ranks_that_are_in_it():
    looked_at = launch.run(_all_sizes, ranks=3)
    assert looked_at == [{1: True, 2: True, 3: None}, {2: True, 3: None}, {3: None}]


def test_a_request_of_mpi4py_is_still_one():
    code = (
        "import mpi4py; mpi4py.rc.initialize = False; from labkit import counting; from mpi4py"
        " import MPI; print(isinstance(MPI.REQUEST_NULL, MPI.Request), isinstance(3, MPI.Request))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True False\n"


def test_a_large_job_tries_few_sizes():
    for ranks, largest in ((1, []), (5, []), (8, []), (9, [9]), (32, [32, 31])):
        assert sizes_of_groups(ranks) == [*largest, *range(min(ranks, 8), 0, -1)]
