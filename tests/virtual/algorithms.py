"""Programs beside those of labkit.collectives, whose virtual times have closed forms or
SimGrid's."""

from __future__ import annotations

import numpy as np
from labkit.collectives import (
    ring_allgather,
    ring_allreduce,
    ring_reduce_scatter,
    tree_broadcast,
    tree_reduce,
)


def all_to_one(comm, vector):
    if comm.rank:
        comm.Send(vector, dest=0)
    for other in range(1, comm.size) if comm.rank == 0 else ():
        comm.Recv(vector, source=other)


def chain_broadcast(comm, vector, count):
    for chunk in np.array_split(vector, count):
        if comm.rank > 0:
            comm.Recv(chunk, source=comm.rank - 1)
        if comm.rank + 1 < comm.size:
            comm.Send(chunk, dest=comm.rank + 1)


def parameter_server(comm, vector):
    """Rank 0 serves: it takes all gradients in, then sends the parameters out."""
    all_to_one(comm, vector)
    for worker in range(1, comm.size):
        if comm.rank == 0:
            comm.Send(vector, dest=worker)
        elif comm.rank == worker:
            comm.Recv(vector, source=0)


def leader_allreduce(comm, vector, per_node):
    local = comm.Split(color=comm.rank // per_node, key=comm.rank)
    leaders = comm.Split(color=comm.rank % per_node, key=comm.rank)
    tree_reduce(local, vector)
    if local.rank == 0:
        ring_allreduce(leaders, vector)
    tree_broadcast(local, vector)


def two_dimensional_allreduce(comm, vector, per_node):
    local = comm.Split(color=comm.rank // per_node, key=comm.rank)
    across = comm.Split(color=comm.rank % per_node, key=comm.rank)
    chunk = ring_reduce_scatter(local, vector)
    ring_allreduce(across, chunk)
    ring_allgather(local, vector)
