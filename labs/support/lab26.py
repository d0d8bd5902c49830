"""The checks of lab 26, and what leaves the nodes of a run on the virtual cluster."""

from __future__ import annotations

from functools import partial

import numpy as np
import virtual
from labkit import check, expect, launch
from labkit.errors import counted


@check.exercise("26.1")
def rows_and_columns(groups):
    """Each rank's groups are its row and its column, in whatever order the ranks lie on the
    nodes."""
    for m, g in [(1, 4), (4, 1), (2, 2), (3, 2), (2, 3), (4, 4)]:
        node_by_node = np.arange(m * g).reshape(m, g)
        dealt_like_cards = np.arange(m * g).reshape(g, m).T
        for rows in (node_by_node, dealt_like_cards, node_by_node[::-1]):
            expect_groups(groups, rows)


@check.exercise("26.2")
def leaders_alone(two_level, patience):
    """The sum is right on 1 to 4 nodes of 1 to 4 ranks and on real ranks, and only leaders send
    from node to node, by a ring.
    """
    expect_allreduce(
        partial(by_node, two_level),
        rings=lambda g: 1,
        steps=lambda m, g: 2 * (m - 1) + 2 * (g - 1).bit_length(),
        patience=patience,
    )


@check.exercise("26.3")
def chunks_across(two_dimensional, patience):
    """The sum is right on 1 to 4 nodes of 1 to 4 ranks and on real ranks, and each rank sends only
    its chunk from node to node, by a ring.
    """
    expect_allreduce(
        partial(by_node, two_dimensional),
        rings=lambda g: g,
        steps=lambda m, g: 2 * (m - 1) + 2 * (g - 1),
        patience=patience,
    )


def by_node(function, comm, vector, g):
    """function(inside, across, vector) on nodes of g ranks, in the order of the ranks. The groups
    cost nothing here, but messages of a learner's own would be counted."""
    inside = comm.Split(comm.rank // g, comm.rank)
    function(inside, comm.Split(inside.rank, comm.rank // g), vector)


def members(groups, comm, node):
    return [group.allgather(comm.rank) for group in groups(comm, node)]


def expect_groups(groups, rows):
    """rows: the ranks of each node. Every rank's groups are its row and its column."""
    m, g = rows.shape
    node_of = [int(np.argwhere(rows == rank)[0][0]) for rank in range(m * g)]
    nodes = virtual.Cluster(nodes=m, ranks_per_node=g)
    run = nodes.run(partial(members, groups), virtual.by_rank(node_of))
    for (node, local), rank in np.ndenumerate(rows):
        wants = {"inside": rows[node].tolist(), "across": rows[:, local].tolist()}
        for (name, want), got in zip(wants.items(), run.results[rank], strict=True):
            subject = f"Ranks by node {rows.tolist()}: on rank {rank}, the ranks in `{name}`"
            expect(got == want, f"{subject} should be {want}, not {got}.")


def expect_allreduce(function, rings, steps, patience):
    """function(comm, vector, g) on m = 1 to 4 nodes of g ranks, where m is not g: the sum; what
    leaves a node, in rings(g) rings; steps(m, g).
    """
    for g in (1, 2, 3, 4):
        case = {"ranks_per_node": g, "args": (g,), "what": f"(nodes of {g}) the sum"}
        sizes = [m * g for m in (1, 2, 3, 4) if m != g]
        runs = virtual.trials(function, sum, sizes, **case)
        for (p, length), run in runs.items():
            m = p // g
            expect_traffic(run, length, m, g, rings(g), steps(m, g))
    launch.run(expect_on_ranks, function, ranks=launch.ranks_here(4), timeout=patience)


def expect_traffic(run, length, m, g, rings, steps):
    """On m nodes of g, no more leaves a node than by so many rings, each with its part of the
    vector."""
    messages, nbytes, busiest = leaving(run)
    parts = np.array_split(range(length), rings)
    sent = [2 * (len(part) - len(part) // m) / length for part in parts]  # vectors, in each ring
    subject = (
        f"The sum is right. But with {counted(m, 'node')} of {counted(g, 'rank')} and {length}"
        " values,"
    )
    for got, least, what in [
        (nbytes / 8 / length, sum(sent), "vectors leave a node"),
        (messages, 2 * (m - 1) * rings, "messages leave a node"),
        (busiest / 8, max(sent) * length, "values leave a node from one rank"),
        (max(run.steps), steps, "steps pass"),
    ]:
        expect(
            got <= least + 1e-9, f"{subject} {got:.3g} {what}, where {least:.3g} would be enough."
        )


def expect_on_ranks(comm, function):
    values = np.arange(100_003, dtype=np.float32) % 1000 / 8  # whole numbers are in `trials`
    vector = values * (comm.rank + 1)
    function(comm, vector, 1 if comm.size % 2 else 2)
    want = values * sum(range(1, comm.size + 1))
    expect.close(
        vector, want, f"{comm.size} real ranks, 100,003 values: the sum on rank {comm.rank}"
    )


def leaving(run):
    """Messages and bytes that leave the busiest node, and the bytes of these that its busiest rank
    sends."""
    of_rank = np.zeros((run.ranks, 2))  # messages, bytes
    for (source, dest), pair in run.links.items():
        if run.nodes[source] != run.nodes[dest]:
            of_rank[source] += pair
    of_node = of_rank.reshape(max(run.nodes) + 1, -1, 2).sum(axis=1)
    messages, nbytes = of_node.max(axis=0)
    return messages, nbytes, of_rank[:, 1].max()
