"""Communicators of some of the virtual ranks. Beside real ranks they are drawn in
test_collectives."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import virtual
from labkit.errors import LabError


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
