"""Allreduces that know nodes, as NCCL and Horovod have them, to be run on the virtual cluster.

- "ring": one flat ring in the order of the nodes (NCCL's Ring).
- "tree": a chain in each node, a binary tree of the nodes' first ranks, up and down (NCCL's Tree, but whole
  vectors: NCCL cuts them in slices, and has two trees that share the work).
- "torus": reduce-scatter in the node, an allreduce of each share across nodes, allgather in the node
  (Horovod 0.28.1's NCCLTorusAllreduce, for HOROVOD_TORUS_ALLREDUCE=1).
- "hierarchical": the same, but each share is copied to the host and back, where MPI sums it across nodes
  (NCCLHierarchicalAllreduce, for HOROVOD_HIERARCHICAL_ALLREDUCE=1).
"""

from __future__ import annotations

import numpy as np
from labkit import virtual
from labkit.collectives import ring_allgather, ring_allreduce, ring_reduce_scatter, tree_allreduce
from labkit.errors import LabError

WAYS = ("ring", "tree", "torus", "hierarchical")


def allreduce(comm, vector, way: str, g: int, wait: float = 0.0) -> None:
    """Sum `vector` over all ranks, in place. g: ranks a node; wait: seconds for the copies of a share."""
    if way == "ring":
        ring_allreduce(comm, vector)
        return
    inside = comm.Split(comm.rank // g, comm.rank)
    across = comm.Split(inside.rank, comm.rank)
    if way == "tree":
        _chain_and_tree(inside, across, vector)
        return
    share = ring_reduce_scatter(inside, vector)
    inside.compute(wait)
    ring_allreduce(across, share)
    ring_allgather(inside, vector)


def _chain_and_tree(inside, across, vector) -> None:
    """Up the chain of a node to its first rank, a tree of these, and down the chain again."""
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


def run(way: str, nodes: int, g: int, nbytes: float, machine=None, copy: float = float("inf")):
    """A virtual run of `way` on nodes of g ranks. nbytes: of a vector; copy: bytes/s between GPU and host."""
    if way not in WAYS:
        raise LabError(f"There is no way {way!r} of an allreduce; there are {', '.join(WAYS)}.")
    vector = virtual.vector(np.ones(nodes * g), stands_for=nbytes)
    wait = 2 * nbytes / g / copy if way == "hierarchical" else 0.0
    return virtual.Cluster(nodes, ranks_per_node=g, machine=machine).run(allreduce, vector, way, g, wait)


def leaving(way: str, nodes: int, g: int) -> tuple[float, float, int]:
    """(vectors, messages, rounds): what leaves the busiest node in a virtual run, and its rounds."""
    done = run(way, nodes, g, 1.0)
    messages = np.zeros(nodes)
    vectors = np.zeros(nodes)
    for (source, _), (count, nbytes) in done.node_links.items():
        messages[source] += count
        vectors[source] += nbytes
    return float(vectors.max()), float(messages.max()), max(done.steps)


def gains(nodes: int, machine: str, lengths, copy: float) -> dict[str, dict[float, float]]:
    """way -> {bytes: how many times as fast as the ring}, on full nodes of a machine; copy as in `run`."""
    g = virtual.machine(machine).ranks_per_node
    times = {way: {n: run(way, nodes, g, n, machine, copy).time for n in lengths} for way in WAYS}
    return {way: {n: times["ring"][n] / time for n, time in row.items()} for way, row in times.items()}
