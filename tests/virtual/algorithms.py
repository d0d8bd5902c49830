"""Reference programs on `comm`, whose virtual times are held against closed forms and SimGrid."""

from __future__ import annotations

import numpy as np


def ring_reduce_scatter(comm, chunks):
    """Rank r ends with the sum of chunk (r + 1) mod p."""
    p, right, left = comm.size, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    box = np.empty_like(max(chunks, key=len))
    for step in range(p - 1):
        outgoing, summed = chunks[(comm.rank - step) % p], chunks[(comm.rank - step - 1) % p]
        comm.Sendrecv(outgoing, dest=right, recvbuf=box[: len(summed)], source=left)
        summed += box[: len(summed)]


def ring_allgather(comm, chunks):
    """Rank r begins with chunk (r + 1) mod p; all end with all."""
    p, right, left = comm.size, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(p - 1):
        outgoing = chunks[(comm.rank + 1 - step) % p]
        comm.Sendrecv(outgoing, dest=right, recvbuf=chunks[(comm.rank - step) % p], source=left)


def ring_allreduce(comm, vector):
    chunks = np.array_split(vector, comm.size)
    ring_reduce_scatter(comm, chunks)
    ring_allgather(comm, chunks)


def _reaches(p):
    return [1 << step for step in range((p - 1).bit_length())]


def tree_broadcast(comm, vector):
    for reach in _reaches(comm.size):
        if comm.rank < reach and comm.rank + reach < comm.size:
            comm.Send(vector, dest=comm.rank + reach)
        elif reach <= comm.rank < 2 * reach:
            comm.Recv(vector, source=comm.rank - reach)


def tree_reduce(comm, vector):
    box = np.empty_like(vector)
    for reach in reversed(_reaches(comm.size)):
        if reach <= comm.rank < 2 * reach:
            comm.Send(vector, dest=comm.rank - reach)
        elif comm.rank < reach and comm.rank + reach < comm.size:
            comm.Recv(box, source=comm.rank + reach)
            vector += box


def tree_allreduce(comm, vector):
    tree_reduce(comm, vector)
    tree_broadcast(comm, vector)


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
    chunks = np.array_split(vector, per_node)
    ring_reduce_scatter(local, chunks)
    ring_allreduce(across, chunks[(local.rank + 1) % per_node])
    ring_allgather(local, chunks)
