"""Collectives on bare messages, as the learner builds them in labs 21 and 23, for labs 24 to 26.

comm: an mpi4py communicator, or one of labkit.virtual; only its Send, Recv and Sendrecv are used. vector: a
1-D array of any length, the same on all ranks; the result is in `vector`. Costs: labkit.costs.
"""

from __future__ import annotations

import numpy as np

from labkit.errors import LabError


def tree_reduce(comm, vector) -> None:
    """Rank 0's `vector` becomes the sum, by a binomial tree (lab 21); the others may then hold anything."""
    box = np.empty_like(vector)
    for child in reversed(_children(comm)):
        comm.Recv(box, source=child)
        vector += box
    if comm.rank:
        comm.Send(vector, dest=_parent(comm))


def tree_broadcast(comm, vector, root: int = 0) -> None:
    """Rank root's `vector` goes to all, by a binomial tree (lab 21)."""
    if not 0 <= root < comm.size:
        raise LabError(f"root={root}: with {comm.size} rank{'s' * (comm.size > 1)} there is no such rank.")
    if comm.rank != root:
        comm.Recv(vector, source=_parent(comm, root))
    for child in _children(comm, root):
        comm.Send(vector, dest=child)


def tree_allreduce(comm, vector) -> None:
    """Every rank's `vector` becomes the sum: up the tree and down again (lab 21), 2⌈lg p⌉ rounds."""
    tree_reduce(comm, vector)
    tree_broadcast(comm, vector)


def ring_reduce_scatter(comm, vector):
    """Chunk rank + 1 (mod p) of `vector` becomes the sum, the rest anything: p - 1 rounds (lab 23).

    Returns that chunk, a view of `vector`.
    """
    p, me, chunks = comm.size, comm.rank, np.array_split(vector, comm.size)
    box = np.empty_like(chunks[0])  # the longest chunk comes first
    for step in range(p - 1):
        mine = chunks[(me - step - 1) % p]
        into = box[: len(mine)]
        comm.Sendrecv(chunks[(me - step) % p], dest=(me + 1) % p, recvbuf=into, source=(me - 1) % p)
        mine += into
    return chunks[(me + 1) % p]


def ring_allgather(comm, vector) -> None:
    """Chunk rank + 1 (mod p) of every rank's `vector` goes to all: p - 1 rounds (lab 23)."""
    p, me, chunks = comm.size, comm.rank, np.array_split(vector, comm.size)
    for step in range(p - 1):
        into = chunks[(me - step) % p]
        comm.Sendrecv(chunks[(me + 1 - step) % p], dest=(me + 1) % p, recvbuf=into, source=(me - 1) % p)


def ring_allreduce(comm, vector) -> None:
    """Every rank's `vector` becomes the sum: p - 1 rounds that add, p - 1 that keep what comes (lab 23)."""
    ring_reduce_scatter(comm, vector)
    ring_allgather(comm, vector)


def doublings(size: int) -> list[int]:
    """[1, 2, 4, …] below `size`: the distances in a tree, and those of recursive doubling (lab 24)."""
    return [2**step for step in range((size - 1).bit_length())]


def _children(comm, root: int = 0) -> list[int]:
    """Whom this rank sends to in a broadcast from root, in order."""
    me = (comm.rank - root) % comm.size
    return [(comm.rank + reach) % comm.size for reach in doublings(comm.size) if me < reach < comm.size - me]


def _parent(comm, root: int = 0) -> int:
    me = (comm.rank - root) % comm.size
    return (comm.rank - 2 ** (me.bit_length() - 1)) % comm.size
