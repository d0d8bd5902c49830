"""Runs of the virtual cluster that keep a trace."""

from __future__ import annotations

import numpy as np
import virtual
from labkit import collectives

MACHINE = virtual.ideal(reduce=4e9)


def step(comm, vector):
    comm.compute(1e-4 * (1 + comm.rank % 3))
    collectives.ring_allreduce(comm, vector)
    comm.compute(5e-5)


def ran(p=4, per_node=1, program=step, **more):
    vector = virtual.vector(np.ones(4 * p), stands_for=1e6)
    return virtual.Cluster(p // per_node, per_node, more.pop("machine", MACHINE)).run(
        program, vector, trace=True
    )


def everything(comm, vector):
    """Overlap, a barrier, an empty message, and a non-blocking collective beside compute."""
    box = np.empty_like(vector)
    requests = [
        comm.Irecv(box, source=(comm.rank - 1) % comm.size),
        comm.Isend(vector, (comm.rank + 1) % comm.size),
    ]
    comm.compute(1e-5)
    for request in requests:
        request.Wait()
    comm.Barrier()
    comm.Sendrecv(
        vector[:0],
        dest=comm.size - 1 - comm.rank,
        recvbuf=box[:0],
        source=comm.size - 1 - comm.rank,
    )
    request = comm.Iallreduce(vector, box)
    comm.compute(3e-4)
    request.Wait()


RUNS = {
    "4 ranks": lambda: ran(),
    "1 rank": lambda: ran(1),
    "two levels": lambda: ran(16, 4, machine="dgx1"),
    "everything": lambda: ran(8, 2, everything, machine="summit"),
}
