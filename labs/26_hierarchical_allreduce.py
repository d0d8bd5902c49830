# %% [markdown]
# <!-- Generated from solutions/26_hierarchical_allreduce.py by `make labs`. Learners work on a copy in work/. -->
# # 26 Hierarchical allreduce
#
# Four GPUs share one network card: you write the two allreduces that know it, and see when they win
# and lose.
#
# **You will be able to** (1) split ranks into groups by node, (2) write a two-level and a
# two-dimensional allreduce, (3) count what leaves a node through its network card, (4) say for a
# machine and a message size whether a flat ring, two levels or two dimensions are right.
#
# Needs: mpi · Ranks: 4 · Minutes: 50 · Level: intermediate · Before: 23, 24

# %%
from functools import partial

import numpy as np
import virtual
from labkit import check, hint, lab, launch, plots, predict, record, timing, world
from labkit.collectives import (
    ring_allgather,
    ring_allreduce,
    ring_reduce_scatter,
    tree_broadcast,
    tree_reduce,
)
from support import lab26

lab.start("26_hierarchical_allreduce")

# %% tags=["parameters"]
nodes = 8  # nodes of the virtual machines in the plots, with 4 ranks each
lengths = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)  # bytes of the vectors there
sizes = (256, 16384, 1048576, 16777216)  # bytes per rank in the measurement on real ranks
patience = 20  # seconds after which a check calls a program on real ranks stuck


# %% [markdown]
# ### Two kinds of link
# Inside a node, ranks talk over NVLink, PCIe or shared memory. Between nodes they share a network
# card or a few, often ten times slower. So few bytes should cross. Think of m nodes of g ranks as a
# table: a row is a node, a column holds one rank of each node. There are two ways to sum:
#
# | | in each row | between the nodes | in each row |
# |---|---|---|---|
# | **two levels** | sum on the first rank, the *leader* | allreduce of the leaders | leader broadcasts |
# | **two dimensions** | reduce-scatter: each has a chunk of the sum | allreduce in each column | allgather |
#
# With 2 nodes of 2 ranks, and vectors of two values whose digits show who took part. Bold is what
# the way goes on with; the rest is left over and means nothing. (Rank 0 of a row gets chunk 1, as
# in [lab 23](23_ring_allreduce.ipynb)'s ring.)
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 | 10 20 | 100 200 | 1000 2000 |
# | two levels, rows | **11 22** | 10 20 | **1100 2200** | 1000 2000 |
# | … between leaders | **1111 2222** | 10 20 | **1111 2222** | 1000 2000 |
# | two dimensions, rows | 1 **22** | **11** 20 | 100 **2200** | **1100** 2000 |
# | … in the columns | 1 **2222** | **1111** 20 | 100 **2222** | **1111** 2000 |
#
# In both, a last step in the rows brings the sum to all.
#
# <details><summary>Who does it so?</summary>
#
# ChainerMN had both as communicators: until its version 6 it advised `hierarchical` for one card
# per node and `two_dimensional` for several; version 7 lists neither, and NCCL does it all.
# Horovod's hierarchical allreduce has two dimensions. So has Sony's 2D-torus, which trained
# ResNet-50 in 224 s (Mikami et al., arXiv 1811.05233). IBM's PowerAI DDL has more of them (Cho et
# al., arXiv 1708.02188).
# </details>
#
# `labkit.collectives` has the parts. They are yours from labs [21](21_collectives.ipynb) and [23](23_ring_allreduce.ipynb):
#
# | call | after it |
# |---|---|
# | `tree_reduce(comm, vector)` | rank 0's vector is the sum; the others' hold anything |
# | `tree_broadcast(comm, vector)` | all vectors are rank 0's |
# | `chunk = ring_reduce_scatter(comm, vector)` | `chunk` is this rank's part of the sum, a view of `vector` |
# | `ring_allgather(comm, vector)` | all have the chunks of all, after a reduce-scatter |
# | `ring_allreduce(comm, vector)` | all vectors are the sum: both of the above |

# %% [markdown]
# ### Exercise 26.1 · Groups by node
# All ranks of `comm` call `comm.Split(color, key)`. Those that give the same `color` get a
# communicator of their own, and are numbered in it from 0, in the order of `key`. So
# `comm.Split(comm.rank % 2, comm.rank)` makes two: one of the even ranks, one of the odd.
#
# `inside` is my row of the table: the ranks of my node, in the order of `comm`. `across` is my
# column: the one rank of each node that has my number in its node, in the order of the nodes. 2
# lines. *(intermediate)*
#
# (On a real cluster `comm.Split_type(MPI.COMM_TYPE_SHARED)` makes `inside`.)
#
# <details><summary>Hint 1: inside</summary>
#
# The color is what the members have in common, here the number of their node. As the key, the rank
# will do.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `inside = comm.Split(node, comm.rank)`. The members of `across` have `inside.rank` in common; its
# order is that of the nodes.
# </details>

# %%
def groups(comm, node):
    """node: number of the node that this rank is on. Returns the communicators inside and
    across."""
    raise NotImplementedError("exercise 26.1: Groups by node")
    return inside, across


# %%
# Asked: Each rank's groups are its row and its column, in whatever order the
# ranks lie on the nodes.
check("26.1", groups)

# %% [markdown]
# ### Predict
# 4 nodes of 4 ranks. Count the bytes that leave a node in all, in vectors. A ring of p ranks sends
# 2(p - 1)/p of its vector through each link ([lab 23](23_ring_allreduce.ipynb)). (1) A flat ring of all 16 in the order of the
# nodes: how many of a node's ranks have their right neighbour on another node? (2) A flat ring
# dealt out, so that neighbours are never on one node. (3) Two levels: a ring of how many leaders?
# (4) Two dimensions: how many rings at once, each with which part of the vector?

# %%
predict("26.3", flat=..., dealt_out=..., two_level=..., two_dimensional=...)


# %% [markdown]
# ### Exercise 26.2 · Two levels
# Three calls of the functions in the table. Who takes part in the one in the middle? 4 lines.
# *(beginner)*
#
# <details><summary>Hint 1: in the middle</summary>
#
# Leaders have `inside.rank == 0`. The `across` of a leader holds all leaders and nobody else.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `tree_reduce(inside, vector)`; on a leader only, `ring_allreduce(across, vector)`; and back, on
# everybody.
# </details>

# %%
def two_level(inside, across, vector):
    """Sum `vector` over all ranks, in place: to the leader of each node, among leaders, back."""
    raise NotImplementedError("exercise 26.2: Two levels")


# %%
# Asked: The sum is right on 1 to 4 nodes of 1 to 4 ranks and on real ranks, and
# only leaders send from node to node, by a ring.
check("26.2", two_level)


# %% [markdown]
# ### Exercise 26.3 · Two dimensions
# Along the rows of the table, down the columns, along the rows. What is there to sum in a column? 3
# lines. *(intermediate)*
#
# <details><summary>Hint 1: what the rows leave</summary>
#
# `ring_reduce_scatter` returns this rank's chunk of its node's sum, a view of `vector`. The ranks
# of its column have the same chunk of the other nodes' sums.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `chunk = ring_reduce_scatter(inside, vector)`, then an allreduce of that alone,
# `ring_allreduce(across, …)`. What brings all chunks to all ranks of a node?
# </details>

# %%
def two_dimensional(inside, across, vector):
    """Sum `vector` over all ranks, in place: scattered in the node, across by chunks, gathered."""
    raise NotImplementedError("exercise 26.3: Two dimensions")


# %%
# Asked: The sum is right on 1 to 4 nodes of 1 to 4 ranks and on real ranks, and
# each rank sends only its chunk from node to node, by a ring.
check("26.3", two_dimensional)


# %%
# The four ways of the prediction, by name.
def flat(comm, vector, g):
    ring_allreduce(comm, vector)


def dealt_out(comm, vector, g):
    """A flat ring in another order: the first rank of every node, then the second of every node,
    …"""
    ring_allreduce(comm.Split(0, comm.rank % g * comm.size + comm.rank), vector)


ways = {
    "flat": flat,
    "dealt_out": dealt_out,
    "two_level": partial(lab26.by_node, two_level, groups),
    "two_dimensional": partial(lab26.by_node, two_dimensional, groups),
}


def run_on(machine, way, nodes, nbytes, **options):
    """`way` on nodes of 4 ranks, with vectors that stand for nbytes."""
    cluster = virtual.Cluster(nodes, ranks_per_node=4, machine=machine)
    return cluster.run(
        ways[way], virtual.vector(np.ones(cluster.size), stands_for=nbytes), 4, **options
    )


card = {way: lab26.leaving(run_on(None, way, 4, 1.0))[1] for way in ways}
predict.compare("26.3", **card)
plots.compare(
    predict.recall("26.3"), card, unit="vectors that leave a node", title="Through the card"
)

# %% [markdown]
# **Explain.** You should see that a flat ring in the order of the nodes sends a quarter more than
# the clever ways, 1.875 against 1.5 vectors: only one rank of a node talks to the next node. In the
# bad order it sends four times as much. Where can the clever ways gain then, beside that quarter?
#
# <details><summary>Answer</summary>
#
# In **rounds**: a flat ring of p ranks has 2(p - 1), the others far fewer. And in **cards**: of
# several cards in a node a flat ring uses one for sending, for one rank sends; two dimensions use
# all. (NCCL lays several rings, each of which leaves by another card.)
# </details>
#
# ### Measure: a machine
# The next cell prints the machine of the measurement. It is a model. *Estimate* marks what is not
# published: a common node of its time.

# %%
machine = virtual.machine("ethernet10_4gpu")
print(machine)

# %% [markdown]
# ### Predict
# 8 nodes of this machine, with four ranks and one card each; then the same with four cards. How
# many times as fast as the flat ring are two levels and two dimensions, for 100 MB? On paper, with
# α (latency) and β (1/bandwidth) inside a node (i) and on the network (e), and k ranks to a card
# (4, then 1):
#
# | way | seconds |
# |---|---|
# | flat ring, long vectors: as slow as its slowest link | 2(gm - 1) n/(gm) βe |
# | flat ring, short vectors: one hop in g is on the network | 2(gm - 1)(αe + (g - 1)αi)/g |
# | two levels | 2⌈lg g⌉(αi + nβi) + 2(m - 1)(αe + n/m βe) |
# | two dimensions | 2(g - 1)(αi + n/g βi) + 2(m - 1)(αe + n/(gm) kβe) |
#
# For 100 MB all the α are small. So take the β alone: nβe is 85 ms, nβi is 9 ms.

# %%
predict("26.2", one_card=..., four_cards=...)
predict("26.3", one_card=..., four_cards=...)

# %%
# All ways and lengths, on both machines: about 10 s.
four_cards = machine.but(name="ethernet10_4gpu with four cards", nics=4)
runs = {"one_card": {}, "four_cards": {}}
for way in ways:
    runs["one_card"][way] = {n: run_on(machine, way, nodes, n) for n in lengths}
for way in ("flat", "two_level", "two_dimensional"):
    runs["four_cards"][way] = {n: run_on(four_cards, way, nodes, n) for n in lengths}


def gain(cards, way, n):
    """How many times as fast as the flat ring."""
    return runs[cards]["flat"][n].time / runs[cards][way][n].time


# %%
times = {way: {n: run.time for n, run in row.items()} for way, row in runs["one_card"].items()}
plots.bandwidth(times, what="algbw", title=f"{nodes} nodes of {machine.name}")
curves = {"two levels, one card": {n / 1e3: gain("one_card", "two_level", n) for n in lengths}}
curves["two levels, four cards"] = {n / 1e3: gain("four_cards", "two_level", n) for n in lengths}
curves["two dimensions, one card"] = {
    n / 1e3: gain("one_card", "two_dimensional", n) for n in lengths
}
curves["two dimensions, four cards"] = {
    n / 1e3: gain("four_cards", "two_dimensional", n) for n in lengths
}
title = "What groups gain over a flat ring"
plots.lines(curves, xlabel="kB", ylabel="times as fast as a flat ring", title=title, logx=True)
predict.compare("26.2", **{cards: gain(cards, "two_level", lengths[-1]) for cards in runs})
predict.compare("26.3", **{cards: gain(cards, "two_dimensional", lengths[-1]) for cards in runs})
for cards, row in runs.items():
    took = ", ".join(
        f"{way} {1e3 * by_length[lengths[-1]].time:.0f} ms" for way, by_length in row.items()
    )
    print(f"{cards}, {lengths[-1] / 1e6:g} MB: {took}")

# %%
# A control for 1,000 kB: the same machine, where no message waits for its receiver.
at_once = machine.but(name="ethernet10_4gpu without rendezvous", eager=float("inf"))
for kind in (machine, at_once):
    seconds = {way: run_on(kind, way, nodes, 1e6).time for way in runs["four_cards"]}
    print(f"{kind.name}, 1,000 kB:")
    for way, took in seconds.items():
        print(
            f"  {way:<16}{1e3 * took:6.2f} ms, {seconds['flat'] / took:.2f} times as fast as a flat"
            " ring"
        )

# %% [markdown]
# **Explain.** You should see three things in the second plot, read from left to right.
#
# **Short** vectors, to 10 kB: both ways with groups are about 1.7 times as fast as a flat ring. By
# the table, a chunk of the flat ring makes 62 hops of 11.8 µs on average, 730 µs in all. With
# groups it makes 14 hops of 30 µs, and few of 5.7 µs: about 450.
#
# **Long** vectors: two levels are no faster than a flat ring, for the other ranks wait while the
# leaders work. Four cards change nothing for these two, as the lines below the plot say. Two
# dimensions gain with four cards. With **one card**, the flat ring keeps up.
#
# In the middle, at 1,000 kB, all lines dip. There the flat ring with one card is ahead. Why? (The
# last printed lines are without rendezvous: [lab 20](20_ranks_and_messages.ipynb)'s word for a long message that waits until its
# receiver is ready, and then for what the machine calls `handshake`.)
#
# <details><summary>Answer</summary>
#
# Two things come together. A flat ring **overlaps**: while one chunk is on the network, others move
# inside the nodes. So its time is the longer of its two rows in the table, 1.65 ms. With groups
# each round waits for the one before, so latencies and bytes add up: 2.3 (two levels) and 2.1 ms
# without rendezvous.
#
# And messages above 64 KiB pay for **rendezvous**. The flat ring's have 1/32 of the vector, 31 kB.
# Two levels send 125 kB between the nodes and the whole vector inside, two dimensions 250 kB
# inside. Without rendezvous, the printed lines say, the dip is less deep. It does not go away.
# </details>
#
# ## For those who have time
# Two parts of some 12 minutes, which are not counted above.
#
# ### Measure: who waits for the card, and who is fastest where?
# A picture of two nodes whose four ranks share a card. Then a map: which way is fastest for which
# length on how many nodes?

# %%
run = run_on(machine, "two_dimensional", 2, 1e7, trace=True)
plots.timeline(run, title="Two dimensions: four ranks share one card")


def longest_send(run):
    """Milliseconds of the longest message from node to node, in a traced run."""
    longest = 0.0
    for rank, kind, start, end, peer, _ in run.trace:
        if kind == "send" and run.nodes[rank] != run.nodes[peer]:
            longest = max(longest, 1e3 * (end - start))
    return longest


own_cards = run_on(four_cards, "two_dimensional", 2, 1e7, trace=True)
sends = longest_send(run), longest_send(own_cards)
print("a message from node to node: {:.2f} ms; with a card for each rank: {:.2f} ms".format(*sends))

# %%
places = [(n, m) for n in lengths for m in (2, 4, 8) if m <= nodes]
best = {way: {(n, m): run_on(machine, way, m, n).time for n, m in places} for way in ways}
plots.crossover(best, ylabel="nodes", title=f"Who is fastest on {machine.name}")
print(f"{lengths[-1]:.0e} bytes, two dimensions against a flat ring:")
for m in sorted({m for _, m in places}):
    at = (lengths[-1], m)
    print(f"  {m} nodes: {best['flat'][at] / best['two_dimensional'][at]:.2f} times as fast")


# %% [markdown]
# **Explain.** In the picture all four ranks of a node send through the card at the same time in the
# middle part. Each gets a quarter of its speed. So each message takes four times as long as with a
# card of its own, as the line below the picture says.
#
# In the map two levels hold the left side. Two dimensions are close behind there, as the plot of
# before shows for 8 nodes. On the right two dimensions are ahead: by half on two nodes, by little
# on eight. There the one card decides, and through it go 2(m - 1)/m vectors against the flat ring's
# 2(gm - 1)/(gm): 1 against 1.75 on two nodes, 1.75 against 1.94 on eight. The two fields of the
# flat ring are the dip of above.
#
# ### Measure: this machine
# On one host all links are alike, so there are no real nodes: groups of two stand for them. Which
# way will be fastest for long vectors then, and which slowest? On a cluster, `srun` this file with
# as many ranks on each node, and the nodes are real.

# %%
# Four sizes, three ways in turns: about half a minute.
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
title = f"{p} real ranks on {world.cores()} cores: which way is fastest?"
plots.bandwidth(times, factor=2 * (p - 1) / p, what="busbw", title=title)
for way, row in times.items():
    for nbytes, seconds in row.items():
        record.add("allreduce", way=way, ranks=p, bytes=nbytes, seconds=seconds, **record.BY_MPI)

# %% [markdown]
# **Explain.** All links are memory here, so a group saves no slow bytes. What counts is how many
# vectors pass one after another. With four ranks the flat ring has 2·3/4 = 1.5. Two dimensions have
# as many: 1/2 in the rows, 1/2 in the columns, 1/2 in the rows. Two levels have three whole ones:
# to the leader, between the leaders, and back.
#
# You should see just that for long vectors: two levels take about twice as long as the flat ring,
# and two dimensions about as long as it. For the shortest vectors rounds count, 4 against 6. There
# you may see an order; with fewer cores than ranks it drowns in waiting for a core. What groups are
# for can be seen on a cluster, and above.
#
# ### What you take away
# - `Split` by node and by number in the node: two communicators make a table of the ranks.
# - Two levels: the fewest messages, and one rank of a node on the network. Good for short vectors.
# - Two dimensions: 1/g of the vector per rank on the network. For long vectors, and several cards
#   help.
# - A flat ring in node order is a strong rival where a node has one card. Its order is what counts.
# - Next: what NCCL makes of nodes and cards ([lab 43](43_horovod_nccl2.ipynb)).
