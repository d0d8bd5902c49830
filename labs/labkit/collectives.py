"""Collectives on bare messages: the tree of lab 21 and the ring of lab 23, for the labs that build
on them.

comm: an mpi4py communicator, or one of virtual; only its Send, Recv and Sendrecv are used. vector:
a 1-D array of any length, the same on all ranks; the result is in `vector`. Costs:
labkit.scaling.costs.
"""

from __future__ import annotations

import numpy as np

from labkit.errors import LabError, counted


def tree_reduce(comm, vector) -> None:
    """Rank 0's `vector` becomes the sum, by a binomial tree (lab 21); the others may then hold
    anything."""
    box = np.empty_like(vector)
    for child in reversed(_children(comm)):
        comm.Recv(box, source=child)
        vector += box
    if comm.rank:
        comm.Send(vector, dest=_parent(comm))


def tree_broadcast(comm, vector, root: int = 0) -> None:
    """Rank root's `vector` goes to all, by a binomial tree (lab 21)."""
    if not 0 <= root < comm.size:
        raise LabError(f"root={root}: with {counted(comm.size, 'rank')} there is no such rank.")
    if comm.rank != root:
        comm.Recv(vector, source=_parent(comm, root))
    for child in _children(comm, root):
        comm.Send(vector, dest=child)


def tree_allreduce(comm, vector) -> None:
    """Every rank's `vector` becomes the sum: up the tree and down again (lab 21), 2⌈lg p⌉
    rounds."""
    tree_reduce(comm, vector)
    tree_broadcast(comm, vector)


def ring_reduce_scatter(comm, vector):
    """Chunk rank + 1 (mod p) of `vector` becomes the sum, the rest anything: p - 1 rounds (lab 23).

    Returns that chunk, a view of `vector`.
    """
    p = comm.size
    rank = comm.rank
    right = (rank + 1) % p
    left = (rank - 1) % p
    chunks = np.array_split(vector, p)
    box = np.empty_like(chunks[0])  # the longest chunk comes first
    for step in range(p - 1):
        passed_on = chunks[(rank - step) % p]
        own = chunks[(rank - step - 1) % p]
        coming = box[: len(own)]
        comm.Sendrecv(passed_on, dest=right, recvbuf=coming, source=left)
        own += coming
    return chunks[(rank + 1) % p]


def ring_allgather(comm, vector) -> None:
    """Chunk rank + 1 (mod p) of every rank's `vector` goes to all: p - 1 rounds (lab 23)."""
    p = comm.size
    rank = comm.rank
    right = (rank + 1) % p
    left = (rank - 1) % p
    chunks = np.array_split(vector, p)
    for step in range(p - 1):
        passed_on = chunks[(rank + 1 - step) % p]
        into = chunks[(rank - step) % p]
        comm.Sendrecv(passed_on, dest=right, recvbuf=into, source=left)


def ring_allreduce(comm, vector) -> None:
    """Every rank's `vector` becomes the sum: p - 1 rounds that add, p - 1 that keep what comes (lab
    23)."""
    ring_reduce_scatter(comm, vector)
    ring_allgather(comm, vector)


def doublings(size: int) -> list[int]:
    """[1, 2, 4, …] below `size`: the distances in a tree, and those of recursive doubling (lab
    24)."""
    return [2**step for step in range((size - 1).bit_length())]


def _children(comm, root: int = 0) -> list[int]:
    """Whom this rank sends to in a broadcast from root, in order."""
    place = (comm.rank - root) % comm.size  # the rank's number as if root were rank 0
    reaches = [reach for reach in doublings(comm.size) if place < reach < comm.size - place]
    return [(comm.rank + reach) % comm.size for reach in reaches]


def _parent(comm, root: int = 0) -> int:
    """From whom this rank receives in a broadcast from root."""
    place = (comm.rank - root) % comm.size
    return (comm.rank - 2 ** (place.bit_length() - 1)) % comm.size
