"""Gloo as Horovod's controller on the ranks of an MPI job: what `horovodrun --gloo` would do, without it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from labkit import launch


@contextmanager
def meet_by_gloo(comm) -> Iterator[None]:
    """While this is open, hvd.init() has Gloo negotiate and carry, on the ranks of comm (mpi4py's).

    All of them enter and leave it together; call hvd.shutdown() before the end. A process in which Horovod
    has begun with MPI cannot change to Gloo, and the other way round (0.28.1 ends it: seen here). Nor can MPI
    negotiate while Gloo carries CPU tensors: HOROVOD_CPU_OPERATIONS=gloo alone ends in a crash.
    """
    with ExitStack() as stack:
        host = comm.bcast(_address(comm))
        place = None
        if comm.rank == 0:
            key = os.urandom(32).hex()  # it answers only to who knows this: the ranks of this job
            place = (*stack.enter_context(launch.rendezvous(key, host)), key)
        where, port, key = comm.bcast(place)
        values = {
            "CONTROLLER": "gloo",
            "CPU_OPERATIONS": "gloo",
            "GLOO_RENDEZVOUS_ADDR": where,
            "GLOO_RENDEZVOUS_PORT": port,
            **_seats(comm),
        }
        if where == "127.0.0.1":
            values["GLOO_IFACE"] = "lo"
        variables = {f"HOROVOD_{name}": str(value) for name, value in values.items()}
        variables["_HOROVOD_SECRET_KEY"] = key
        with launch.environment(variables):
            yield
        comm.Barrier()  # rank 0's server stays until all have left


def _address(comm) -> str:
    """This host as the other ranks reach it."""
    alone = len(set(comm.allgather(socket.gethostname()))) == 1
    return "127.0.0.1" if alone else socket.gethostname()


def _seats(comm) -> dict[str, object]:
    """This rank's numbers as Horovod counts: in the job, on its host, among hosts that have such a rank."""
    hosts = comm.allgather(socket.gethostname())
    own = hosts[comm.rank]
    local = [rank for rank, host in enumerate(hosts) if host == own]
    place = local.index(comm.rank)
    across = [host for host in dict.fromkeys(hosts) if hosts.count(host) > place]
    return {
        "HOSTNAME": own,
        "RANK": comm.rank,
        "SIZE": comm.size,
        "LOCAL_RANK": place,
        "LOCAL_SIZE": len(local),
        "CROSS_RANK": across.index(own),
        "CROSS_SIZE": len(across),
    }
