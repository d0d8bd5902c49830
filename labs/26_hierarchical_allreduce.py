# %% [markdown]
# # 26 Hierarchical allreduce
#
# Four GPUs share one network card: you write the two allreduces that know it, and see when they win and lose.
#
# **You will be able to** (1) split ranks into groups by node, (2) write a two-level and a two-dimensional
# allreduce, (3) count what leaves a node through its network card, (4) say for a machine and a message size
# whether a flat ring, two levels or two dimensions are right.
#
# Needs: mpi · Ranks: 4 · Minutes: 45 · Before: 23, 24

# %%
from functools import partial

import numpy as np
from labkit import check, expect, hint, lab, launch, plots, predict, record, timing, virtual
from labkit.collectives import (
    ring_allgather,
    ring_allreduce,
    ring_reduce_scatter,
    tree_broadcast,
    tree_reduce,
)

lab.start("26_hierarchical_allreduce")

# %% tags=["parameters"]
nodes = 8  # nodes of the virtual machines in the plots, with 4 ranks each
lengths = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)  # bytes of the vectors there
sizes = (256, 16384, 1048576, 16777216)  # bytes per rank in the measurement on real ranks
patience = 20  # seconds after which a check calls a program on real ranks stuck


# %% [markdown]
# ### Two kinds of link
# Inside a node, ranks talk over NVLink, PCIe or shared memory. Between nodes they share a network card or a
# few, often ten times slower: few bytes should cross. m nodes of g ranks can do
#
# - **two levels**: sum in each node on its first rank, the *leader*; an allreduce among the leaders; each
#   leader broadcasts in its node. ChainerMN's `hierarchical`, advised for one card per node.
# - **two dimensions**: a reduce-scatter in each node, so that each of its ranks has one chunk of the node's
#   sum; an allreduce of each chunk among the ranks that have it, one per node; an allgather in each node.
#   ChainerMN's `two_dimensional`, advised for several cards; Horovod's hierarchical allreduce; Sony's
#   2D-torus, which trained ResNet-50 in 122 s (Mikami et al., arXiv 1811.05233); IBM's PowerAI DDL, with more
#   dimensions and 95 % efficiency on 256 P100 (Cho et al., arXiv 1708.02188, as told by TOP500 News).
#
# `labkit.collectives` has the parts, yours from labs 21 and 23. `tree_reduce(comm, vector)` leaves the sum in
# rank 0's vector, `tree_broadcast(comm, vector)` copies rank 0's to all, `ring_reduce_scatter(comm, vector)`
# returns this rank's chunk of the sum (a view of `vector`), `ring_allgather(comm, vector)` brings the chunks
# to all ranks, and `ring_allreduce(comm, vector)` does both.

# %% [markdown]
# ### Exercise 26.1 · Groups by node
# All ranks of `comm` call `comm.Split(color, key)`. Those that give the same `color` get a communicator of
# their own, numbered in the order of `key`: `comm.Split(comm.rank % 2, comm.rank)` parts even from odd ranks.
# Think of the ranks as a table, one row per node. `inside` is my row: the ranks of my node, in the order of
# `comm`. `across` is my column: one rank of each node, those that have my number in their node, in the order
# of the nodes. 2 lines. (On a real cluster `comm.Split_type(MPI.COMM_TYPE_SHARED)` makes `inside`.)
#
# <details><summary>Hint 1: inside</summary>
#
# The color is what the members have in common, here the number of their node. As the key, the rank will do.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `inside = comm.Split(node, comm.rank)`. The members of `across` have `inside.rank` in common; its order is
# that of the nodes.
# </details>

# %%
def groups(comm, node):
    """node: number of the node that this rank is on. Returns the communicators inside and across."""
    raise NotImplementedError("exercise 26.1: Groups by node")
    return inside, across


# %%
def members(comm, node):
    return [group.allgather(comm.rank) for group in groups(comm, node)]


def expect_groups(rows):
    """rows: the ranks of each node. Every rank's groups are its row and its column."""
    m, g = rows.shape
    node_of = [int(np.argwhere(rows == rank)[0][0]) for rank in range(m * g)]
    run = virtual.Cluster(nodes=m, ranks_per_node=g).run(members, virtual.by_rank(node_of))
    for (node, local), rank in np.ndenumerate(rows):
        wants = {"inside": rows[node].tolist(), "across": rows[:, local].tolist()}
        for (name, want), got in zip(wants.items(), run.results[rank], strict=True):
            subject = f"Ranks by node {rows.tolist()}: on rank {rank}, the ranks in `{name}`"
            expect(got == want, f"{subject} should be {want}, not {got}.")


with check("26.1"):
    for m, g in [(1, 4), (4, 1), (2, 2), (3, 2), (2, 3), (4, 4)]:
        node_by_node = np.arange(m * g).reshape(m, g)
        dealt_like_cards = np.arange(m * g).reshape(g, m).T
        for rows in (node_by_node, dealt_like_cards, node_by_node[::-1]):
            expect_groups(rows)

# %% [markdown]
# ### Predict
# 4 nodes of 4 ranks. How many times the vector's bytes leave each node in all: in a flat ring in the order of
# the nodes, in a flat ring whose neighbours are never on one node, with two levels, with two dimensions?

# %%
predict("26.3", flat=..., dealt_out=..., two_level=..., two_dimensional=...)


# %% [markdown]
# ### Exercise 26.2 · Two levels
# Three calls of the functions above. Who takes part in the one in the middle? 4 lines.
#
# <details><summary>Hint 1: in the middle</summary>
#
# Leaders have `inside.rank == 0`. The `across` of a leader holds all leaders and nobody else.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `tree_reduce(inside, vector)`; on a leader only, `ring_allreduce(across, vector)`; and back, on everybody.
# </details>

# %%
def two_level(inside, across, vector):
    """Sum `vector` over all ranks, in place: to the leader of each node, among leaders, back."""
    raise NotImplementedError("exercise 26.2: Two levels")


# %%
def by_node(function, comm, vector, g):
    function(*groups(comm, comm.rank // g), vector)


def leaving(run):
    """Messages and bytes that leave the busiest node, and the bytes of these that its busiest rank sends."""
    of_rank = np.zeros((run.ranks, 2))  # messages, bytes
    for (source, dest), pair in run.links.items():
        if run.nodes[source] != run.nodes[dest]:
            of_rank[source] += pair
    of_node = of_rank.reshape(max(run.nodes) + 1, -1, 2).sum(axis=1)
    messages, nbytes = of_node.max(axis=0)
    return messages, nbytes, of_rank[:, 1].max()


# %%
def expect_traffic(run, length, m, g, rings, rounds):
    """On m nodes of g, no more leaves a node than by so many rings, each with its part of the vector."""
    messages, nbytes, busiest = leaving(run)
    parts = np.array_split(range(length), rings)
    sent = [2 * (len(part) - len(part) // m) / length for part in parts]  # vectors, in each ring
    subject = f"The sum is right. But with {m} node(s) of {g} rank(s) and {length} values,"
    for got, least, what in [
        (nbytes / 8 / length, sum(sent), "vectors leave a node"),
        (messages, 2 * (m - 1) * rings, "messages leave a node"),
        (busiest / 8 / length, max(sent), "vectors leave a node from one rank"),
        (max(run.steps), rounds, "rounds pass"),
    ]:
        expect(got <= least + 1e-9, f"{subject} {got:.3g} {what}; {least:.3g} are enough.")


def expect_allreduce(function, rings, rounds):
    """1 to 4 nodes of 1 to 4 ranks: the sum; what leaves a node in rings(g) rings; rounds(m, g)."""
    for g in (1, 2, 3, 4):
        case = {"ranks_per_node": g, "args": (g,), "what": f"(nodes of {g}) the sum"}
        runs = virtual.trials(partial(by_node, function), sum, [g, 2 * g, 3 * g, 4 * g], **case)
        for (p, length), run in runs.items():
            m = p // g
            expect_traffic(run, length, m, g, rings(g), rounds(m, g))


# %%
def expect_on_ranks(comm, function):
    vector = np.arange(100_003, dtype=np.float32) % 1000 * (comm.rank + 1)
    by_node(function, comm, vector, 1 if comm.size % 2 else 2)
    want = np.arange(100_003) % 1000 * sum(range(1, comm.size + 1))
    expect.close(vector, want, f"{comm.size} real ranks, 100,003 values: the sum on rank {comm.rank}")


with check("26.2"):
    expect_allreduce(
        two_level,
        rings=lambda g: 1,
        rounds=lambda m, g: 2 * (m - 1) + 2 * (g - 1).bit_length(),
    )
    launch.run(expect_on_ranks, two_level, ranks=launch.ranks_here(4), timeout=patience)


# %% [markdown]
# ### Exercise 26.3 · Two dimensions
# Along the rows of the table, down the columns, along the rows: what is there to sum in a column? 3 lines.
#
# <details><summary>Hint 1: what the rows leave</summary>
#
# `ring_reduce_scatter` returns this rank's chunk of its node's sum, a view of `vector`. The ranks of its
# column have the same chunk of the other nodes' sums.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `chunk = ring_reduce_scatter(inside, vector)`, then an allreduce of that alone, `ring_allreduce(across, …)`.
# What brings all chunks to all ranks of a node?
# </details>

# %%
def two_dimensional(inside, across, vector):
    """Sum `vector` over all ranks, in place: scattered in the node, across by chunks, gathered."""
    raise NotImplementedError("exercise 26.3: Two dimensions")


# %%
def flat(comm, vector, g):
    ring_allreduce(comm, vector)


def dealt_out(comm, vector, g):
    """A flat ring in another order: the first rank of every node, then the second of every node, …"""
    ring_allreduce(comm.Split(0, comm.rank % g * comm.size + comm.rank), vector)


ways = {
    "flat": flat,
    "dealt_out": dealt_out,
    "two_level": partial(by_node, two_level),
    "two_dimensional": partial(by_node, two_dimensional),
}


def run_on(machine, way, nodes, nbytes, **options):
    """`way` on nodes of 4 ranks, with vectors that stand for nbytes."""
    cluster = virtual.Cluster(nodes, ranks_per_node=4, machine=machine)
    return cluster.run(ways[way], virtual.vector(np.ones(cluster.size), stands_for=nbytes), 4, **options)


# %%
with check("26.3"):
    expect_allreduce(
        two_dimensional,
        rings=lambda g: g,
        rounds=lambda m, g: 2 * (m - 1) + 2 * (g - 1),
    )
    launch.run(expect_on_ranks, two_dimensional, ranks=launch.ranks_here(4), timeout=patience)
    card = {way: leaving(run_on(None, way, 4, 1.0))[1] for way in ways}
    predict.compare("26.3", **card)
plots.compare(predict.recall("26.3"), card, unit="vectors that leave a node", title="Through the card")

# %% [markdown]
# In the order of the nodes a flat ring sends hardly more than the clever ways: only one rank of a node talks
# to the next node. In a bad order it sends four times as much. What is left to gain? **Rounds**, 2(p - 1)
# against few, and **cards**: of several cards a flat ring uses one for sending, two dimensions use all.

# %%
machine = virtual.machine("ethernet10_4gpu")
print(machine)

# %% [markdown]
# ### Predict
# 8 nodes of this machine, with four ranks and one card each; then the same with four cards. How many times as
# fast as the flat ring are two levels and two dimensions, for 100 MB? On paper, with α and β (1/bandwidth)
# inside (i) a node and on the network (e), and k ranks to a card:
#
# - flat ring, as slow as its slowest link: 2(gm - 1)(αe + n/(gm) βe)
# - two levels: 2⌈lg g⌉(αi + nβi) + 2(m - 1)(αe + n/m βe)
# - two dimensions: 2(g - 1)(αi + n/g βi) + 2(m - 1)(αe + n/(gm) kβe)

# %%
predict("26.2", one_card=..., four_cards=...)
predict("26.3", one_card=..., four_cards=...)

# %%
four_cards = machine.but(name="ethernet10_4gpu with four cards", nics=4)
machines = {"one_card": machine, "four_cards": four_cards}
runs = {
    cards: {way: {n: run_on(machines[cards], way, nodes, n) for n in lengths} for way in ways}
    for cards in machines
}


def gain(cards, way, n):
    """How many times as fast as the flat ring."""
    return runs[cards]["flat"][n].time / runs[cards][way][n].time


times = {way: {n: run.time for n, run in row.items()} for way, row in runs["one_card"].items()}
plots.bandwidth(times, what="algbw", title=f"{nodes} nodes of {machine.name}")
curves = {"two levels": {n / 1e3: gain("one_card", "two_level", n) for n in lengths}}
for cards in machines:
    label = f"two dimensions, {cards.replace('_', ' ')}"
    curves[label] = {n / 1e3: gain(cards, "two_dimensional", n) for n in lengths}
plots.lines(curves, xlabel="kB", ylabel="times as fast as a flat ring", title="What it gains", logx=True)
predict.compare("26.2", **{cards: gain(cards, "two_level", lengths[-1]) for cards in machines})
predict.compare("26.3", **{cards: gain(cards, "two_dimensional", lengths[-1]) for cards in machines})

# %% [markdown]
# **Short** vectors: two levels win, with the fewest messages. **Long** ones: two levels lose, for other ranks
# wait while leaders work, and more cards do not help; two dimensions gain with every card. With **one card**,
# the flat ring keeps up. (The jump behind 1 MB: there its messages get so long that they wait for the
# receiver.) Below, four ranks share a card: who waits? In the map: where are groups worth the trouble?

# %%
run = run_on(machine, "two_dimensional", 2, 1e7, trace=True)
plots.timeline(run, title="Two dimensions, one card a node")
places = [(n, m) for n in lengths for m in (2, 4, 8) if m <= nodes]
best = {way: {(n, m): run_on(machine, way, m, n).time for n, m in places} for way in ways}
plots.crossover(best, ylabel="nodes", title=f"Who is fastest on {machine.name}")


# %% [markdown]
# ### Measure: this machine
# On one host all links are alike: what can groups of two gain? (With fewer cores than ranks, waiting for one
# hides it.) On a cluster, `srun` this file with as many ranks on each node: then the nodes are real.

# %%
def compare(comm):
    from mpi4py import MPI

    # Across ranks: which node is mine? Where all are on one host, as if there were nodes of two.
    hosts = comm.allgather(MPI.Get_processor_name())
    names = list(dict.fromkeys(hosts))
    pretend = 1 if comm.size % 2 else 2
    node = names.index(hosts[comm.rank]) if len(names) > 1 else comm.rank // pretend
    inside, across = groups(comm, node)  # made once, before the clock runs
    rows = {}
    for nbytes in sizes:
        vector = np.zeros(nbytes // 4, np.float32)
        calls = {
            "flat": partial(ring_allreduce, comm, vector),
            "two_level": partial(two_level, inside, across, vector),
            "two_dimensional": partial(two_dimensional, inside, across, vector),
        }
        rows[nbytes] = timing.in_turns(calls, comm=comm, seconds=2)
    return rows


# %%
p = launch.ranks_here(4)
rows = launch.run(compare, ranks=p)[0]
times = {way: {nbytes: row[way] for nbytes, row in rows.items()} for way in rows[sizes[0]]}
plots.bandwidth(times, factor=2 * (p - 1) / p, what="busbw", title=f"{p} real ranks")
for way, row in times.items():
    for nbytes, seconds in row.items():
        record.add("allreduce", way=way, ranks=p, bytes=nbytes, seconds=seconds, **record.BY_MPI)

# %% [markdown]
# ### What you take away
# - `Split` by node and by number in the node: two communicators make a table of the ranks.
# - Two levels: fewest messages, one rank of a node on the network. Right for short vectors.
# - Two dimensions: 1/g of the vector per rank on the network. For long vectors; each card more helps.
# - A flat ring in node order is a strong rival with one card; its order is what counts.
# - ChainerMN's communicators of these kinds: 90 % efficiency on 128 GPUs (arXiv 1710.11351). In NCCL's tree,
#   the ranks of a node form a chain, and only the nodes a tree.
