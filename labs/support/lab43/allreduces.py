"""Allreduces that know nodes, as NCCL and Horovod have them, to be run on the virtual cluster.

- "ring": one flat ring in the order of the nodes (NCCL's Ring).
- "tree": NCCL's Tree: a chain in each node, two binary trees of the nodes, each with half of the vector, cut
  in slices (see double_tree.py).
- "binomial": a chain in each node, one binomial tree of the nodes' first ranks, whole vectors: for contrast.
- "torus": reduce-scatter in the node, an allreduce of each share across nodes, allgather in the node
  (Horovod 0.28.1's NCCLTorusAllreduce, for HOROVOD_TORUS_ALLREDUCE=1).
- "hierarchical": the same, but each share is copied to the host and back, where MPI sums it across nodes
  (NCCLHierarchicalAllreduce, for HOROVOD_HIERARCHICAL_ALLREDUCE=1).
"""

from __future__ import annotations

import math

import numpy as np
from labkit import virtual
from labkit.collectives import ring_allgather, ring_allreduce, ring_reduce_scatter, tree_allreduce
from labkit.errors import LabError

from support.lab43 import double_tree

WAYS = ("ring", "tree", "binomial", "torus", "hierarchical")
COUNTED = virtual.ideal(alpha=1.0, bandwidth=float("inf"))  # a message takes one second, however long


def allreduce(comm, vector, way: str, g: int, slices: int = 1, wait: float = 0.0) -> None:
    """Sum `vector` over all ranks, in place.

    g: ranks a node; slices: parts of each half in the way "tree"; wait: seconds for the copies of a share.
    """
    if way == "ring":
        ring_allreduce(comm, vector)
        return
    if way == "tree":
        double_tree.allreduce(comm, vector, g, slices)
        return
    inside = comm.Split(comm.rank // g, comm.rank)
    across = comm.Split(inside.rank, comm.rank)
    if way == "binomial":
        _chain_and_tree(inside, across, vector)
        return
    share = ring_reduce_scatter(inside, vector)
    inside.compute(wait)
    ring_allreduce(across, share)
    ring_allgather(inside, vector)


def _chain_and_tree(inside, across, vector) -> None:
    """Up the chain of a node to its first rank, a binomial tree of these, and down the chain again."""
    me = inside.rank
    last = inside.size - 1
    if me < last:
        box = np.empty_like(vector)
        inside.Recv(box, source=me + 1)
        vector += box
    if me:
        inside.Send(vector, dest=me - 1)
        inside.Recv(vector, source=me - 1)
    else:
        tree_allreduce(across, vector)
    if me < last:
        inside.Send(vector, dest=me + 1)


def slices_of(nbytes: float, nodes: int, g: int) -> int:
    """Into how many slices NCCL cuts each half of a vector in its Tree (protocol Simple).

    From 512 KiB down to 32 KiB each, as the trees are deep (NCCL 2.18.3, src/enqueue.cc, computeColl).
    """
    depth = g - 1 + int(math.log2(nodes))
    chunk = 512 << 10  # bytes: a buffer of 4 MiB has 8 steps
    for loops, least in ((8 * depth, 128 << 10), (4 * depth, 64 << 10), (depth, 32 << 10)):
        while nbytes // (2 * chunk) < loops and chunk > least:
            chunk //= 2
    return max(1, math.ceil(nbytes / 2 / chunk))


def run(way: str, nodes: int, g: int, nbytes: float, machine=None, copy: float = float("inf"), slices=1):
    """A virtual run of `way` on nodes of g ranks. nbytes: of a vector; copy: bytes/s between GPU and host."""
    if way not in WAYS:
        raise LabError(f"There is no way {way!r} of an allreduce; there are {', '.join(WAYS)}.")
    length = 2 * max(nodes * g, slices)  # so that halves are equal, and no slice is empty
    vector = virtual.vector(np.ones(length), stands_for=nbytes)
    wait = 2 * nbytes / g / copy if way == "hierarchical" else 0.0
    return virtual.Cluster(nodes, ranks_per_node=g, machine=machine).run(
        allreduce, vector, way, g, slices, wait
    )


def leaving(way: str, nodes: int, g: int) -> tuple[float, int, int]:
    """(vectors, messages, latencies) of a virtual run in which nothing is cut in slices.

    vectors, messages: what leaves the busiest node. latencies: messages of which each waits for the one
    before, in the longest such chain. In the way "tree" that is counted along the trees, as the ranks of a
    virtual run also wait for their turns.
    """
    done = run(way, nodes, g, 1.0, COUNTED)
    messages = np.zeros(nodes, dtype=int)
    vectors = np.zeros(nodes)
    for (source, _), (count, nbytes) in done.node_links.items():
        messages[source] += count
        vectors[source] += nbytes
    latencies = round(done.time)
    if way == "tree":
        latencies = 2 * (g - 1 + max(double_tree.depth(tree) for tree in double_tree.trees(nodes)))
    return float(vectors.max()), int(messages.max()), latencies


def gains(nodes: int, machine: str, lengths, copy: float) -> dict[str, dict[float, float]]:
    """way -> {bytes: how many times as fast as the ring}, on full nodes of a machine; copy as in `run`.

    NCCL's buffers are agreed on when it starts: no message waits for a handshake (as long ones of MPI do).
    """
    numbers = virtual.machine(machine).but(handshake=0.0)
    g = numbers.ranks_per_node
    times = {
        way: {n: run(way, nodes, g, n, numbers, copy, slices_of(n, nodes, g)).time for n in lengths}
        for way in WAYS
    }
    return {way: {n: times["ring"][n] / time for n, time in row.items()} for way, row in times.items()}
