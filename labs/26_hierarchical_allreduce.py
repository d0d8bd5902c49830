# %% [markdown]
# <!-- Generated from solutions/26_hierarchical_allreduce.py by `make labs`. Learners work on a copy in work/. -->
# # 26 Hierarchical allreduce
#
# In [lab 23](23_ring_allreduce.ipynb) every [rank](../labs/GLOSSARY.md#rank) had its own link to the network. On many GPU clusters the ranks of a node
# share links instead. A node contains four or eight GPUs, which are connected by fast links. For
# messages to other nodes they share one or a few [NICs](../labs/GLOSSARY.md#NIC) (network interface cards), which are often
# ten times slower than these links.
#
# A *flat* [allreduce](../labs/GLOSSARY.md#allreduce), which ignores the nodes, can send the same bytes through a NIC several times
# while the fast links are idle. A bad order of the ranks alone can make a flat ring several times
# as slow as necessary.
#
# In this lab we write two allreduces that distinguish the links inside a node from the links
# between nodes. One has *two levels*, the other *two dimensions*, and both are built from parts
# that you wrote in labs [21](21_collectives.ipynb) and [23](23_ring_allreduce.ipynb). We count the bytes that leave a node, and then compare both with
# a flat ring on a model of a cluster, first with one NIC per node and then with four.
#
# **After this lab you can** (1) split the ranks into groups by node, (2) write a two-level and a
# two-dimensional allreduce, (3) count the bytes that leave a node through its NIC, and (4) decide
# for a machine and a message size whether a flat ring, two levels or two dimensions are right.
#
# ![Two nodes of four ranks. With two levels only the first rank of each node communicates with the other node, and it sends whole vectors. With two dimensions every rank communicates with its counterpart, each about a quarter of the vector](../notebooks/figures/26_ways.svg)
#
# *Left: the leaders, drawn dark, collect the sum of their node and then communicate with each
# other. Right: each rank is responsible for a quarter of the vector, so all four communicate with
# the other node at the same time.*
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
# ## Two kinds of link
# Inside a node, ranks communicate over NVLink, PCIe or shared memory. Between nodes they share one
# or a few NICs, so an allreduce should send few bytes from node to node.
#
# Think of m nodes with g ranks each as a grid of ranks. Each row of the grid is a node, and each
# column contains one rank of every node. There are two ways to use this grid:
#
# | | first, in each row | then, between the nodes | last, in each row |
# |---|---|---|---|
# | **two levels** (leader-based) | reduce to the first rank, the *leader* | allreduce of the leaders | the leader broadcasts |
# | **two dimensions** | reduce-scatter, which leaves a chunk of the sum on each rank | allreduce in each column | allgather |
#
# The next table shows the first two operations for 2 nodes of 2 ranks. Ranks 0 and 1 are the first
# row of the grid, and ranks 2 and 3 the second. Each rank has two values with its own decimal
# digit, so a sum shows which ranks have contributed to it. The algorithm continues with the bold
# values, and the others are left over and mean nothing.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 | 10 20 | 100 200 | 1000 2000 |
# | two levels, first | **11 22** | 10 20 | **1100 2200** | 1000 2000 |
# | two levels, then | **1111 2222** | 10 20 | **1111 2222** | 1000 2000 |
# | two dimensions, first | 1 **22** | **11** 20 | 100 **2200** | **1100** 2000 |
# | two dimensions, then | 1 **2222** | **1111** 20 | 100 **2222** | **1111** 2000 |
#
# The last operation, in the rows, brings the whole sum to all ranks. (With two dimensions, rank 0
# of a row gets chunk 1, as in the ring of [lab 23](23_ring_allreduce.ipynb).)

# %% [markdown]
# ### Groups of ranks
# [MPI](../labs/GLOSSARY.md#MPI) forms the rows and columns of this grid as *[communicators](../labs/GLOSSARY.md#communicator)*, which are groups of ranks that are
# numbered from 0. All ranks of `comm` together call `comm.Split(color, key)` to divide the group.
# The ranks that pass the same `color` get a new communicator, in which they are numbered in the
# order of `key`.
#
# For example, `comm.Split(comm.rank % 2, comm.rank)` makes two communicators, one of the even ranks
# and one of the odd ranks:
#
# | rank in `comm` | 0 | 1 | 2 | 3 |
# |---|---|---|---|---|
# | color | 0 | 1 | 0 | 1 |
# | rank in the new communicator | 0 | 0 | 1 | 1 |
#
# ### Exercise 26.1 · Groups by node
# Make two communicators for a rank that is on the node with the number `node`. `inside` is this
# rank's row of the grid, which contains the ranks of its node, in the order of `comm`. `across` is
# its column, which contains the one rank of each node that has the same number inside its node, in
# the order of the nodes. This takes 2 lines. *(intermediate)*
#
# The ranks can be on the nodes in any order, for example in this one:
#
# | number inside the node | 0 | 1 | 2 |
# |---|---|---|---|
# | node 0 | rank 1 | rank 3 | rank 5 |
# | node 1 | rank 0 | rank 2 | rank 4 |
#
# Here the `inside` of rank 2 contains ranks 0, 2 and 4, and its `across` contains ranks 3 and 2.
#
# (On a real cluster `comm.Split_type(MPI.COMM_TYPE_SHARED)` makes `inside`.)
#
# <details><summary>Hint 1: inside</summary>
#
# The color is what the members have in common, which for `inside` is the number of their node. The
# rank can serve as the key.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `inside = comm.Split(node, comm.rank)`. The members of `across` have the same `inside.rank`, and
# they are ordered by node.
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
# ### Exercise 26.2 · Two levels
# `labkit.collectives` contains the parts, which you know from labs [21](21_collectives.ipynb) and [23](23_ring_allreduce.ipynb). The ranks that take
# part in a call are those of the communicator that you pass as `comm`:
#
# | call | after the call |
# |---|---|
# | `tree_reduce(comm, vector)` | rank 0's vector is the sum; the vectors of the other ranks contain anything |
# | `tree_broadcast(comm, vector)` | all vectors are equal to that of rank 0 |
# | `chunk = ring_reduce_scatter(comm, vector)` | `chunk` is this rank's part of the sum, a view of `vector` |
# | `ring_allgather(comm, vector)` | all ranks have the chunks of all, after a reduce-scatter |
# | `ring_allreduce(comm, vector)` | all vectors are the sum, by a reduce-scatter and then an allgather |
#
# Write the allreduce with two levels as three of these calls. Think about which ranks take part in
# the second one. This takes 4 lines. *(beginner)*
#
# <details><summary>Hint 1: the second call</summary>
#
# Leaders have `inside.rank == 0`. The `across` of a leader contains all leaders and no other ranks.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# First call `tree_reduce(inside, vector)` on all ranks, then `ring_allreduce(across, vector)` only
# on leaders, and finally, on all ranks, the call that brings the sum back.
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
# Write the allreduce with two dimensions, which first works along the rows of the grid, then along
# the columns, and then along the rows again. Think about which values have to be summed in a
# column. This takes 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: what the rows leave</summary>
#
# `ring_reduce_scatter` returns this rank's chunk of its node's sum, which is a view of `vector`.
# The other ranks of its column have the same chunk of the other nodes' sums.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Begin with `chunk = ring_reduce_scatter(inside, vector)`. Then allreduce only this chunk with
# `ring_allreduce(across, …)`. Which call brings all chunks to all ranks of a node?
# </details>

# %%
def two_dimensional(inside, across, vector):
    """Sum `vector` over all ranks, in place: scattered in the node, across by chunks, gathered."""
    raise NotImplementedError("exercise 26.3: Two dimensions")


# %%
# Asked: The sum is right on 1 to 4 nodes of 1 to 4 ranks and on real ranks, and
# each rank sends only its chunk from node to node, by a ring.
check("26.3", two_dimensional)

# %% [markdown]
# ## What leaves a node
# Do the two algorithms send fewer bytes through the NIC than a flat ring? As [lab 23](23_ring_allreduce.ipynb) showed, a ring
# of p ranks sends 2(p − 1)/p of its vector through each of its links. A ring that sums only a part
# of the vector sends 2(p − 1)/p of this part.
#
# For example, take a flat ring of 2 nodes with 2 ranks each. One rank of each node has its right
# neighbor on the other node, so 2 · 3/4 = 1.5 vectors leave the node.
#
# ### Predict
# Take 4 nodes of 4 ranks. How many bytes leave one node in all, as a multiple of a vector?
#
# 1. `flat` is a flat ring of all 16 ranks in the order of the nodes. How many ranks of a node have
#    their right neighbor on another node?
# 2. `dealt_out` is a flat ring in another order (round-robin): rank 0 of every node, then rank 1 of
#    every node, and so on. Neighbors are never on the same node.
# 3. `two_level` has a ring of leaders. How many leaders are there?
# 4. `two_dimensional` runs several rings at the same time. How many are there, and what part of the
#    vector does each of them allreduce?

# %%
predict("26.1", flat=..., dealt_out=..., two_level=..., two_dimensional=...)


# %% [markdown]
# The next cell runs all four on a **virtual cluster**, the simulator that [lab 23](23_ring_allreduce.ipynb) introduced, and
# counts the bytes that leave the busiest node.

# %%
# The four ways of the prediction, by name.
def flat(comm, vector, g):
    ring_allreduce(comm, vector)


def dealt_out(comm, vector, g):
    """A flat ring in another order: first rank 0 of every node, then rank 1 of every node, …"""
    ring_allreduce(comm.Split(0, comm.rank % g * comm.size + comm.rank), vector)


ways = {
    "flat": flat,
    "dealt_out": dealt_out,
    "two_level": partial(lab26.by_node, two_level),  # by_node makes the groups as in 26.1
    "two_dimensional": partial(lab26.by_node, two_dimensional),
}


def run_on(machine, way, nodes, nbytes):
    """`way` on nodes of 4 ranks, with vectors that stand for nbytes."""
    cluster = virtual.Cluster(nodes, ranks_per_node=4, machine=machine)
    return cluster.run(ways[way], virtual.vector(np.ones(cluster.size), stands_for=nbytes), 4)


leaving = {way: lab26.leaving(run_on(None, way, 4, 1.0))[1] for way in ways}
predict.compare("26.1", **leaving)
plots.compare(
    predict.recall("26.1"), leaving, unit="vectors that leave a node", title="Through the NIC"
)

# %% [markdown]
# **Explain.** You should see that the two hierarchical algorithms save only a fifth of the bytes of
# a flat ring in the order of the nodes, 1.5 against 1.875 vectors. In this ring only one rank of a
# node sends to the next node. In the round-robin order every rank does so, and the ring sends four
# times as much.
#
# The hierarchical algorithms have two larger advantages:
#
# - *Fewer steps.* On these 16 ranks, two levels take 10 steps one after another and two dimensions
#   12, while the flat ring takes 2 · 15 = 30.
# - *Several NICs.* If a node has several NICs, two dimensions send through all of them, while a
#   flat ring uses only one.
#
# ## What it costs
# What are these advantages worth? The next cell prints the model of a cluster whose nodes have four
# GPUs and one NIC. *Estimate* marks numbers that are our estimates, because they have not been
# published.

# %%
machine = virtual.machine("ethernet10_4gpu")
print(machine)

# %% [markdown]
# The formulas below need the costs of a message inside a node (index i) and between nodes (index
# e). The values are those of the model, for a vector of n = 100 MB:
#
# | symbol | meaning | inside | between |
# |---|---|---|---|
# | αᵢ, αₑ | latency | 5.7 µs | 30 µs |
# | βᵢ, βₑ | seconds per byte (1/bandwidth) | nβᵢ = 9 ms | nβₑ = 85 ms |
#
# The formulas also need m, the number of nodes, g, the ranks per node, and k, the ranks that share
# a NIC. With g = 4, k is 4 with one NIC and 1 with four.
#
# The two hierarchical algorithms first work inside the nodes, then between them, and then inside
# again, so their times add up:
#
# | way | seconds inside the nodes | seconds between the nodes |
# |---|---|---|
# | two levels | 2⌈log₂ g⌉(αᵢ + nβᵢ) | 2(m − 1)(αₑ + nβₑ/m) |
# | two dimensions | 2(g − 1)(αᵢ + nβᵢ/g) | 2(m − 1)(αₑ + k nβₑ/(gm)) |
#
# With two levels, the reduce and the [broadcast](../labs/GLOSSARY.md#broadcast) take ⌈log₂ g⌉ steps each, with whole vectors. With
# two dimensions, each rank sends only n/g bytes per step inside the node and n/(gm) between the
# nodes. But each of the k ranks that share a NIC gets only 1/k of the NIC's [bandwidth](../labs/GLOSSARY.md#bandwidth).
#
# A **flat ring** uses both kinds of link at the same time. For long vectors, its slowest link, the
# NIC, determines the time, which is 2(gm − 1)/(gm) · nβₑ.
#
# For example, take 100 MB on 2 nodes of 4 ranks, with two NICs per node (k = 2), and neglect all α.
# The times are in ms:
#
# | way | inside | between | in all |
# |---|---|---|---|
# | flat ring | at the same time | 2 · 7/8 · 85 | 149 |
# | two levels | 2 · 2 · 9 = 36 | 2 · 1 · 85/2 = 85 | 121 |
# | two dimensions | 2 · 3 · 9/4 = 13.5 | 2 · 1 · 2 · 85/8 = 42.5 | 56 |
#
# So two levels are 149/121 = 1.2 times as fast as the flat ring, and two dimensions 2.7 times.
#
# ### Predict
# Now take 8 nodes of four ranks, first with one NIC per node (k = 4) and then with four (k = 1).
# For 100 MB, how many times as fast as the flat ring are two levels (26.2) and two dimensions
# (26.3)? Neglect all α again. A value below 1 means slower than the flat ring.

# %%
predict("26.2", one_nic=..., four_nics=...)
predict("26.3", one_nic=..., four_nics=...)

# %% [markdown]
# ### Measure: one NIC and four
# The next two cells simulate all ways for vectors of 100 bytes to 100 MB, on both machines, which
# takes a few seconds. In the plot, a way is faster than the flat ring where its curve is above 1.
# The times for 100 MB are printed below the plot.

# %%
four_nics = machine.but(name="ethernet10_4gpu with four NICs", nics=4)
runs = {"one_nic": {}, "four_nics": {}}
for way in ways:
    runs["one_nic"][way] = {n: run_on(machine, way, nodes, n) for n in lengths}
for way in ("flat", "two_level", "two_dimensional"):
    runs["four_nics"][way] = {n: run_on(four_nics, way, nodes, n) for n in lengths}


def gain(nics, way, n):
    """How many times as fast as the flat ring."""
    return runs[nics]["flat"][n].time / runs[nics][way][n].time


# %%
curves = {
    f"{words}, {nics.replace('_nic', ' NIC')}": {n / 1e3: gain(nics, way, n) for n in lengths}
    for way, words in {"two_level": "two levels", "two_dimensional": "two dimensions"}.items()
    for nics in runs
}
title = "One NIC per node, and four"
plots.lines(
    curves, xlabel="vector (kB)", ylabel="times as fast as a flat ring", title=title, logx=True
)
predict.compare("26.2", **{nics: gain(nics, "two_level", lengths[-1]) for nics in runs})
predict.compare("26.3", **{nics: gain(nics, "two_dimensional", lengths[-1]) for nics in runs})
for nics, row in runs.items():
    took = ", ".join(
        f"{way} {1e3 * by_length[lengths[-1]].time:.0f} ms" for way, by_length in row.items()
    )
    print(f"{nics}, {lengths[-1] / 1e6:g} MB: {took}")

# %% [markdown]
# **Explain.** All of these times are simulated, so they should be the same on your machine. The two
# curves of two levels coincide, because more NICs do not change their times.
#
# **Short vectors:** up to 10 kB, both hierarchical algorithms are 1.6 to 1.7 times as fast as a
# flat ring, because mainly latencies count. In the flat ring a chunk is sent 2(gm − 1) = 62 times.
# One message in g = 4 goes to the next node and takes αₑ, and the other three take αᵢ, so the mean
# is (30 + 3 · 5.7)/4 = 11.8 µs. The latencies add up to:
#
# | way | messages one after another | time |
# |---|---|---|
# | flat ring | 62 of 11.8 µs on average | 730 µs |
# | two levels | 14 of 30 µs, 4 of 5.7 µs | 443 µs |
# | two dimensions | 14 of 30 µs, 6 of 5.7 µs | 454 µs |
#
# **Long vectors:** the next table compares the printed times with those of the formulas, in
# milliseconds.
#
# | way | inside | between | formula | simulated |
# |---|---|---|---|---|
# | flat ring | at the same time | 165 | 165 | 171 |
# | two levels | 36 | 149 | 185 | 188 |
# | two dimensions, one NIC | 14 | 149 | 162 | 164 |
# | two dimensions, four NICs | 14 | 37 | 51 | 53 |
#
# With two levels, the leaders spend less time on the network than the flat ring, but the whole
# vectors inside the nodes cost another 36 ms.
#
# More NICs help neither two levels nor the flat ring, because only one rank of a node sends to
# other nodes. They do help with two dimensions, where all four ranks send at the same time.
#
# **The order of the ranks** matters more, with one NIC, than the choice among these ways.
# `dealt_out`, the ring in round-robin order, takes 664 ms, four times as long as in the good order.
#
# **Around 1,000 kB** all curves have a minimum, and with one NIC the flat ring is the fastest way.
# One cause is that it uses both kinds of link at the same time, because other chunks move inside
# the nodes while one chunk is on the network. A hierarchical way uses one kind of link after the
# other. The first optional part shows a second cause.
#
# ### In libraries
# | library or system | hierarchy |
# |---|---|
# | [Horovod](https://horovod.readthedocs.io)'s hierarchical allreduce | two dimensions |
# | Sony's 2D-torus, which trained ResNet-50 in 224 s (Mikami et al., 2018) | two dimensions |
# | IBM's PowerAI DDL (Distributed Deep Learning; Cho et al., 2017) | more than two dimensions |
# | [ChainerMN](https://docs.chainer.org/en/v6.2.0/chainermn/reference/index.html) 6 | two levels for one NIC per node, two dimensions for several |
# | NCCL (NVIDIA Collective Communications Library) | several rings instead, each of which can leave the node through another NIC |
#
# In [lab 43](43_horovod_nccl2.ipynb) you read in [NCCL](../labs/GLOSSARY.md#NCCL)'s log which path each ring takes.
#
# ### What you take away
# - Two calls of `Split`, by node and by number inside the node, make the communicators of the rows
#   and columns of a grid of ranks.
# - For short vectors, both hierarchical ways are faster than a flat ring, because they take far
#   fewer steps.
# - With two levels only one rank of each node uses the network, and whole vectors move inside the
#   nodes. More NICs do not make them faster.
# - With two dimensions each rank allreduces only 1/g of the vector over the network. With several
#   NICs they are the fastest for long vectors; with one they are about as fast as the flat ring.
# - For long vectors, a flat ring in the order of the nodes is hard to beat where a node has one
#   NIC, but it depends on this order.
#
# ## Going further (optional): rendezvous, and this machine (9 minutes)
# The time stated for this lab does not include the following two parts.
#
# ### Measure: why is the flat ring faster at 1,000 kB?
# With the *[rendezvous](../labs/GLOSSARY.md#rendezvous)* protocol of [lab 20](20_ranks_and_messages.ipynb), a long message waits until its receiver is ready. In the
# machine model, a long message has more than `eager` bytes, here 64 KiB, and the time that it waits
# is called `handshake`. As a control, the next cell simulates the same machine without rendezvous.

# %%
at_once = machine.but(name="ethernet10_4gpu without rendezvous", eager=float("inf"))
for kind in (machine, at_once):
    seconds = {way: run_on(kind, way, nodes, 1e6).time for way in runs["four_nics"]}
    print(f"{kind.name}, 1,000 kB:")
    for way, took in seconds.items():
        print(
            f"  {way:<16}{1e3 * took:6.2f} ms, {seconds['flat'] / took:.2f} times as fast as a flat"
            " ring"
        )


# %% [markdown]
# **Explain.** You should see these times, in ms:
#
# | | flat ring | two levels | two dimensions |
# |---|---|---|---|
# | without rendezvous | 1.7 | 2.3 | 2.1 |
# | with rendezvous | 1.7 | 3.4 | 2.4 |
#
# The first row shows the **overlap**. In a flat ring, other chunks move inside the nodes while one
# chunk is on the network. In the hierarchical algorithms each step waits for the previous one.
#
# The second row adds the **handshakes** of messages above 64 KiB. The messages of the flat ring are
# only 31 kB long. Two levels send 125 kB between the nodes and the whole vector inside them, and
# two dimensions send 250 kB inside.
#
# ### Measure: this machine
# On a single host all links are alike and there are no real nodes, so groups of two ranks play the
# role of nodes. (On a cluster, start this file with `srun` and the same number of ranks on each
# node; the cell then uses the real nodes.)
#
# Which way will be the fastest for long vectors, and which one the slowest? The right plot shows
# the [bus bandwidth](../labs/GLOSSARY.md#bus-bandwidth) of [lab 22](22_latency_and_bandwidth.ipynb).

# %%
# Four sizes, three ways in turns, at most 2 s for each size.
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
# **Explain.** All links lead through the same memory here, so a hierarchy cannot save bytes on a
# slow link. For long vectors, the number of vectors sent one after another determines the time. The
# last column is our reference run with 16 MiB, on an otherwise idle machine of 2 cores:
#
# | way, on 4 ranks | vectors one after another | steps | measured |
# |---|---|---|---|
# | flat ring | 2 · 3/4 = 1.5 | 6 | 8.0 ms |
# | two dimensions | 1/2 in the rows, 1/2 in the columns, 1/2 in the rows: 1.5 | 4 | 9.1 ms |
# | two levels | one to the leader, one between the leaders, one back: 3 | 4 | 15.9 ms |
#
# So for long vectors, two levels should take about twice as long as the other two ways. On a busy
# machine, the time spent waiting for a core can hide these differences.
#
# For the shortest vectors the number of steps determines the time, but with fewer cores than ranks,
# waiting for a core hides this, too. The advantage of a hierarchy is visible only on a cluster, or
# on the virtual cluster above.
#
# ### Further reading
# - H. Mikami et al., *[Massively Distributed SGD: ImageNet/ResNet-50 Training in a Flash](https://arxiv.org/abs/1811.05233)*, 2018. Sony's 2D-torus allreduce, with which ResNet-50 was trained in 224 s.
# - X. Jia et al., *[Highly Scalable Deep Learning Training System with Mixed-Precision: Training ImageNet in Four Minutes](https://arxiv.org/abs/1807.11205)*, 2018. A hierarchical allreduce at Tencent, which trained on up to 2,048 GPUs.
# - M. Cho et al., *[PowerAI DDL](https://arxiv.org/abs/1708.02188)*, 2017. IBM's PowerAI DDL, with rings in more than two dimensions.
# - [Massively Scale Your Deep Learning Training with NCCL 2.4](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/). NCCL's trees, which treat the links inside a node and between nodes differently.
# - [ChainerMN: Communicators](https://docs.chainer.org/en/v6.2.0/chainermn/reference/index.html). The communicators of ChainerMN 6, and which it recommended for which node.
