# %% [markdown]
# # 23 Ring allreduce
#
# In data-parallel training every worker computes a gradient on its own part of the batch, and
# before the next update all workers need the sum of these gradients. The obvious solution is to
# send all gradients to one worker, which adds them up and sends the sum back. With sixteen workers
# and gradients of 100 MB, the link of the collecting worker then has to transfer 1.5 GB in each
# direction, while the links of the other fifteen workers transfer 0.1 GB each way and are idle most
# of the time. Every additional worker makes the busy link busier, and all workers wait for it.
#
# In this lab we write the **ring allreduce**, in which every worker talks only to its two neighbors
# and all links transfer the same number of bytes. The first versions of [NCCL](@nccl) (NVIDIA
# Collective Communications Library) and [Horovod](@horovod) were built on it.
#
# A ring is not always the right choice, however, because it sends many messages one after the
# other. We therefore derive its cost and compare the formula with simulated runs on up to 64 ranks.
# The tree of lab 21 needs fewer but longer messages, so we also find out for which vectors it is
# faster, in a model of a GPU cluster and on your own machine.
#
# **After this lab you can** (1) write a ring allreduce with `Sendrecv` for any number of ranks and
# values, (2) predict from the number of ranks, the vector's length, and the latency and bandwidth
# of the links how many bytes a rank sends and how long the allreduce takes, and (3) find the vector
# length below which a tree is faster, for a modeled cluster and for the machine in front of you.
#
# ![Left: ranks 1, 2 and 3 send whole vectors to rank 0, which sends the sum back. Right: four ranks form a ring, and each sends one chunk to its right neighbor](23_ring.svg)
#
# *Left: if rank 0 collects the vectors, all of them pass through its link. Right: in the first step
# of the ring, each rank sends only one chunk, a quarter of its vector, to its right neighbor.*
#
# Needs: mpi · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 21

# %%
from functools import partial

import numpy as np
import virtual
from labkit import check, hint, lab, launch, plots, predict, record, timing, world
from labkit.collectives import tree_allreduce
from labkit.scaling import costs
from support import lab23

lab.start("23_ring_allreduce")

# %% tags=["parameters"]
gradient = 100e6  # bytes per rank in the simulated runs; ResNet-50's gradient has about 102 MB
many = 64  # ranks of the virtual cluster in the plots
sizes = (1024, 16384, 262144, 4194304, 67108864)  # bytes per rank in the measurement on real ranks
moment = 2.0  # seconds for all three ways together at one of these sizes
patience = 20  # seconds after which a check calls a program on real ranks stuck

# %% [markdown]
# ## Terms, and where your code runs
# The vectors in this lab are gradients, flattened into one array per rank. The collectives are
# those of lab 21, and α and β are those of lab 22.
#
# | term | meaning |
# |---|---|
# | rank | one process of a program that uses MPI (Message Passing Interface) |
# | *p* | number of ranks, which are numbered from 0 to *p* − 1; the right neighbor of rank *p* − 1 is rank 0 |
# | *n* | bytes in the vector of one rank |
# | chunk | one of *p* nearly equal parts of a vector, numbered from 0 to *p* − 1 |
# | **allreduce** | leaves the sum of all vectors on every rank; the next two collectives together do this |
# | **reduce-scatter** | leaves one chunk of the sum on each rank |
# | **allgather** | brings the chunks of all ranks to every rank |
# | step | in one step a rank sends at most one message and receives at most one |
# | α | latency, the seconds that every message costs, however short it is |
# | β | seconds per byte, which is 1 / bandwidth |
#
# ### The virtual cluster
# Your code will run on real ranks and on the **virtual cluster**, a simulator that comes with these
# labs. It runs your function unchanged on as many ranks as we like, all in one process, and counts
# messages, bytes and steps exactly.
#
# Each virtual rank has its own clock, and on this clock a message takes as long as it would on a
# given *machine model*. For example, with α = 1 µs and 1 GB/s, which is the default, a message of 1
# MB advances the clock by 1.001 ms.
#
# ## How a ring adds
# A ring allreduce has two halves, and in each half the chunks travel around the ring once. In the
# first half, the reduce-scatter, every rank cuts its vector into *p* chunks. In each step a rank
# sends one chunk to its right neighbor, receives another chunk from its left neighbor, and *adds*
# the received values to its own copy of that chunk.
#
# The table follows four ranks through this half. Their vectors have four values each, so that a
# chunk is a single value. Each rank's values have their own decimal digit, so a sum shows which
# ranks have contributed to it. The sums that have just been computed are in bold.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 3 4 | 10 20 30 40 | 100 200 300 400 | 1000 2000 3000 4000 |
# | step 0 | 1 2 3 **4004** | **11** 20 30 40 | 100 **220** 300 400 | 1000 2000 **3300** 4000 |
# | step 1 | 1 2 **3303** 4004 | 11 20 30 **4044** | **111** 220 300 400 | 1000 **2220** 3300 4000 |
# | step 2 | 1 **2222** 3303 4004 | 11 20 **3333** 4044 | 111 220 300 **4444** | **1111** 2220 3300 4000 |
#
# To read the table, follow chunk 3, the fourth value of each rank. Rank 3 sends its 4000 to rank 0,
# which adds its own 4 and gets 4004. Rank 0 sends this partial sum to rank 1, where it becomes
# 4044, and rank 2 adds the last contribution. The other chunks travel in the same way from
# different starting ranks, so every link is busy in every step.
#
# After *p* − 1 steps each rank has one finished chunk, which contains the values of all ranks. Rank
# *r* begins by sending chunk *r*, and ends with chunk *r* + 1 (mod *p*) finished. (In lab 21,
# `reduce_scatter` left chunk *r* on rank *r*.)
#
# In the second half, the allgather, the finished chunks travel around the ring once more. This time
# a rank does not add the values that it receives. They overwrite its own, unfinished copy of the
# chunk.
#
# <details><summary>Whose idea was it?</summary>
#
# Patarasuk and Yuan described the ring for clusters in 2009 (see *Further reading*). NVIDIA's NCCL
# used rings from its first published version in November 2015. Baidu introduced the ring to deep
# learning in February 2017 with an article and [its code](@baidu_allreduce), from which Horovod
# started in the same year.
# </details>
#
# ### Predict
# Now take 8 ranks, so that a chunk is an eighth of the vector. How many vectors' worth of bytes
# does each rank send in both halves together, and in how many steps? You can first count the first
# half for *p* = 4 in the table. The check for exercise 23.2 prints the answer.

# %%
predict("23.2", vectors_sent=1.75, steps=14)

# %% [markdown]
# ### Two tools: `Sendrecv` and views
# `comm.Sendrecv(out, dest=right, recvbuf=box, source=left)` sends the array `out` to the right and
# receives an array from the left into `box` (lab 20). Because it does both at the same time, the
# ranks cannot end up waiting for each other in a circle.
#
# `np.array_split` cuts a vector into chunks. These chunks are *views*, so values that you write
# **into** a chunk, with `+=` or `[:] =`, are written into the vector. In contrast, `a = a + b`
# makes a new array and leaves the vector unchanged, as this cell shows:

# %%
ten = np.zeros(10)
parts = np.array_split(ten, 4)
parts[0] += 1  # writes into `ten`
parts[1] = parts[1] + 1  # makes a new array, and `ten` does not change
print("lengths of the chunks:", [len(part) for part in parts], "· the vector:", ten)

# %% [markdown]
# ### Exercise 23.1 · Reduce-scatter around a ring
# Write the loop of `reduce_scatter`. In step i, counted from 0, rank r sends chunk r − i (mod p) to
# its right neighbor. For example, rank 2 sends chunk 1 in step 1 of the table. Work out which chunk
# arrives from the left in the same step, receive it, and add it to your own copy of that chunk. The
# loop calls `Sendrecv` p − 1 times and takes 5 lines. *(intermediate)*
#
# - *Receive:* the lengths of chunks can differ by one value, as you saw above, and the array
#   `incoming` is as long as the longest chunk. Receive into the part of it that is as long as the
#   chunk to which you will add.
# - *Send:* send each chunk as it is, without padding and in the vector's type. (Lower-case
#   `sendrecv` pickles the array and therefore sends more bytes.)
#
# <details><summary>Hint 1: which chunk arrives?</summary>
#
# The left neighbor is rank r − 1 and runs the same code, so in step i it sends chunk (r − 1) − i.
# You can check this in the table, where rank 0 receives chunk 3 in step 0, then chunk 2, and then
# chunk 1.
# </details>
# <details><summary>Hint 2: chunks of unequal length</summary>
#
# If `own` is the chunk to which you will add, receive into `incoming[: len(own)]`.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# In each step, take `own = chunks[(comm.rank - step - 1) % comm.size]` and
# `box = incoming[: len(own)]`. Then call
# `comm.Sendrecv(chunks[…], dest=right, recvbuf=box, source=left)`, and add with `own += box`.
# </details>


# %%
def reduce_scatter(comm, vector):
    """Leave the sum over all ranks in chunk rank + 1 (mod p) of `vector`.

    vector: 1-D array of any length. Its other chunks may hold anything afterwards.
    """
    chunks = np.array_split(vector, comm.size)
    incoming = np.empty_like(chunks[0])  # no chunk is longer than the first one
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ### BEGIN SOLUTION
    for step in range(comm.size - 1):
        # Across ranks: one chunk leaves to the right while another arrives from the left.
        own = chunks[(comm.rank - step - 1) % comm.size]
        box = incoming[: len(own)]
        comm.Sendrecv(chunks[(comm.rank - step) % comm.size], dest=right, recvbuf=box, source=left)
        own += box
    ### END SOLUTION


# %%
check("23.1", reduce_scatter)

# %% [markdown]
# ### Exercise 23.2 · The whole ring
# The table continues with the first step of the second half, in which every rank sends its finished
# chunk, here in italics, to the right. The chunks that have just arrived are bold.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 *2222* 3303 4004 | 11 20 *3333* 4044 | 111 220 300 *4444* | *1111* 2220 3300 4000 |
# | step 0 | **1111** 2222 3303 4004 | 11 **2222** 3333 4044 | 111 220 **3333** 4444 | 1111 2220 3300 **4444** |
#
# Complete `ring_allreduce`. In the first step rank r sends its finished chunk r + 1 (mod p) to the
# right, and in each later step it sends the chunk that has just arrived from the left. Since every
# chunk that arrives is finished, receive it directly into its place in the vector. This takes 3
# lines. *(intermediate)*
#
# <details><summary>Hint 1: which chunks?</summary>
#
# In step i, rank r sends chunk r + 1 − i, and its left neighbor sends chunk (r − 1) + 1 − i.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For each `step in range(comm.size - 1)`, call `comm.Sendrecv(chunks[(comm.rank + 1 - step) %
# comm.size], dest=right, recvbuf=chunks[…], source=left)`. You need neither a box nor an addition.
# </details>


# %%
def ring_allreduce(comm, vector):
    """Sum `vector` over all ranks, in place. vector: 1-D array of any length, equal on all
    ranks."""
    reduce_scatter(comm, vector)
    chunks = np.array_split(vector, comm.size)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ### BEGIN SOLUTION
    for step in range(comm.size - 1):
        # Across ranks: finished chunks go round once more, each rank keeps a copy and passes it on.
        theirs = chunks[(comm.rank - step) % comm.size]
        mine = chunks[(comm.rank + 1 - step) % comm.size]
        comm.Sendrecv(mine, dest=right, recvbuf=theirs, source=left)
    ### END SOLUTION


# %%
check("23.2", ring_allreduce)

# %% [markdown]
# Why are 1.75 vectors and 14 steps the right numbers for 8 ranks?
#
# <details><summary>Answer</summary>
#
# Each half takes 7 steps, one fewer than there are ranks, so both halves together take 14. In every
# step a rank sends one chunk, which is an eighth of the vector, and 14 eighths are 1.75 vectors.
# </details>
#
# ### Measure: what does each rank do, and when?
# Now we run your ring on four virtual ranks and draw what happens. Each row of the plot is a rank,
# and time runs from left to right. In this run each rank also needs time to add, at 4 GB/s. The
# control is the same run with additions that take no time.
#
# The vector should be 100 MB long, but we don't need to store that much.
# `virtual.vector(np.ones(16), stands_for=gradient)` makes an array of only 16 values that the
# virtual cluster treats as if it were 100 MB long.

# %%
long_vector = virtual.vector(np.ones(16), stands_for=gradient)
four = virtual.Cluster(nodes=4, machine=virtual.ideal(reduce=4e9))
run = four.run(ring_allreduce, long_vector, trace=True)
plots.timeline(run, title="A ring of four ranks: all links work, then all are idle")
free = virtual.Cluster(nodes=4).run(ring_allreduce, long_vector)
print(f"{run.time:.4f} s with additions at 4 GB/s, {free.time:.4f} s if they take no time")

# %% [markdown]
# **Explain.** You should see six steps in which all ranks send at the same time. After each of the
# first three steps all links are idle for a moment. Why are they idle there, and why not in the
# second half?
#
# <details><summary>Answer</summary>
#
# In the reduce-scatter a rank has to add a chunk before it can send it on, and the marks after the
# first three steps show these additions. In the allgather there is nothing to add, so each rank
# forwards the values that it received. The control is therefore shorter by exactly three additions
# of 25 MB at 4 GB/s, which take 0.0188 s.
# </details>
#
# ## What a ring costs
# The timeline shows the cost for four ranks on one machine model. For other numbers of ranks, other
# vectors and other networks we need a formula. A message of m bytes takes α + mβ seconds (lab 22).
# To get the cost of a collective, we count its steps, work out how long one step takes, and
# multiply.
#
# As an example, take the other allreduce from lab 21, which reduces along a tree and then
# broadcasts along the same tree. Both parts take L = ⌈log₂ p⌉ steps, and every step sends whole
# vectors, so the tree takes 2L(α + nβ) seconds.
#
# On four ranks L is 2, so the tree takes four steps. With n = 100 MB, α = 1 µs and β = 1 ns per
# byte (1 GB/s), one step takes about 0.1 s, and all four take 0.4 s.
#
# ### Exercise 23.3 · What it costs, on paper
# Write `ring_cost`, which returns the steps, the bytes that a rank sends in all, and the seconds of
# a ring of p ranks with n bytes each. To get them, first work out the number of steps and the bytes
# of one message. Assume that additions take no time. This takes 3 lines. *(beginner)*
#
# <details><summary>Hint 1: one step</summary>
#
# All ranks do the same at the same time, so one step takes as long as one message, and each message
# is a chunk of n / p bytes.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `steps = 2 * (p - 1)`, and every step sends one chunk and takes `alpha + n / p * beta` seconds.
# </details>


# %%
def ring_cost(p, n, alpha, beta):
    """(steps, bytes that each rank sends, seconds) of a ring allreduce.

    n: bytes per vector. alpha: seconds per message. beta: seconds per byte.
    """
    ### BEGIN SOLUTION
    steps, chunk = 2 * (p - 1), n / p
    return steps, steps * chunk, steps * (alpha + chunk * beta)
    ### END SOLUTION


# %%
check("23.3", ring_cost)

# %% [markdown]
# As long as the ranks do the additions themselves, no allreduce lets the busiest rank send less
# than the ring does. Patarasuk and Yuan (2009) derived 2n(p − 1)/p bytes as a lower bound, and
# because the ring reaches it, they call the ring *bandwidth optimal*.
#
# In short, for each value, p − 1 contributions have to be sent, and then p − 1 ranks have to get
# the sum. For n bytes these are 2(p − 1)n bytes in all, and the busiest of p ranks sends at least a
# p-th part of them.
#
# <details><summary>And if the switch adds?</summary>
#
# Some switches can add. NVIDIA's SHARP (Scalable Hierarchical Aggregation and Reduction Protocol)
# does so on InfiniBand, and NVLS (NVLink SHARP) on NVLink since 2022. A rank then sends its vector
# up once and receives the sum once, so it sends about n bytes instead of 2n, and the bound does not
# apply.
#
# NVIDIA's benchmark nccl-tests computes a bandwidth from the ring's bytes. On such machines it can
# therefore report more than the links carry.
# </details>
#
# ### Measure: what do more ranks cost?
# Now we allreduce 100 MB at 1 GB/s on 2 to 256 ranks. The plot compares:
#
# - *ring, run:* your ring on up to 64 virtual ranks.
# - *ring, your formula:* the seconds that `ring_cost` returns.
# - *one server, formula:* an additional machine receives the vectors of all ranks and then sends
#   the sum to each of them. Its link carries p vectors in and p vectors out, one after the other.
#   If the latencies of the messages overlap, this takes 2α + 2pnβ seconds.

# %%
ranks = [2, 4, 8, 16, 32, 64, 128, 256]
seconds = {
    "ring, run": {p: lab23.run_ideal(ring_allreduce, p, gradient).time for p in ranks if p <= many},
    "ring, your formula": {p: ring_cost(p, gradient, 1e-6, 1e-9)[2] for p in ranks},
    "one server, formula": {p: costs.parameter_server_time(gradient, p, 1e-6, 1e-9) for p in ranks},
}
title = "The ring stays below 0.2 s, one server does not"
plots.lines(seconds, xlabel="ranks", ylabel="time (s)", title=title, logx=True, logy=True)

# %% [markdown]
# **Explain.** You should see the runs on the line of your formula. The ring's time rises from 0.1 s
# on 2 ranks to 0.175 s on 8, and approaches 2nβ = 0.2 s, because 2n(p − 1)/p approaches 2n. The
# server's time doubles whenever the number of ranks doubles, because its link has to transfer every
# vector.
#
# ## Where a ring is the wrong choice
# These vectors were long, so their size in bytes determined the time. For short vectors the time
# depends almost entirely on α, which the ring pays 2(p − 1) times and the tree only 2L times. But
# each message of the tree is a whole vector. The tree should therefore be faster for short vectors
# and the ring for long ones. At which length does their order change?
#
# ### Predict
# Take 64 ranks with α = 5 µs and 10 GB/s, so that β = 0.1 ns per byte. Below how many kB (1 kB =
# 1,000 bytes) is the tree faster: about 5, 50 or 500? A guess is enough, because the next exercise
# computes it.

# %%
predict("23.4", ring_wins_from_kB=500)

# %% [markdown]
# ### Exercise 23.4 · Where the ring is wrong
# Begin with four ranks. The table adds up the times of each algorithm's steps:
#
# | | latency | transfer |
# |---|---|---|
# | tree: four steps of whole vectors | 4α | 4nβ |
# | ring: six steps of quarters | 6α | 1.5nβ |
# | difference | the ring pays 2α more | the tree pays 2.5nβ more |
#
# Both take equally long if 2α = 2.5nβ, so n = 0.8 α/β. With α = 1 µs and β = 1 ns per byte, this is
# a vector of 800 bytes.
#
# Write the general formula for p = 4, 8, 16, … ranks. To get it, set the times of ring and tree
# equal and solve for n. In Python, L = ⌈log₂ p⌉ is `(p - 1).bit_length()`. This takes 1 to 5 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: sort by α and β</summary>
#
# The times are equal if 2L(α + nβ) = 2(p − 1)(α + n/p β). Collect the α terms on one side (how many
# more messages does the ring send than the tree?) and the nβ terms on the other side (how many more
# vectors does the tree send than the ring?).
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The ring sends 2(p − 1) − 2L more messages, and the tree sends 2L − 2(p − 1)/p more vectors. To
# get n, multiply the first number by α and divide it by the product of the second number and β.
# </details>


# %%
def ring_wins_from(p, alpha, beta):
    """The bytes n from which the ring is faster than the tree, for p = 4, 8, 16, … ranks.

    alpha: seconds per message. beta: seconds per byte.
    """
    ### BEGIN SOLUTION
    tree = 2 * (p - 1).bit_length()
    more_messages = 2 * (p - 1) - tree
    more_vectors = tree - 2 * (p - 1) / p
    return more_messages * alpha / (more_vectors * beta)
    ### END SOLUTION


# %%
check("23.4", ring_wins_from)

# %% [markdown]
# Which of the three guesses was right, and why?
#
# <details><summary>Answer</summary>
#
# About 500. On 64 ranks the ring sends 126 messages one after the other and the tree 12, so the
# ring pays 114 α more. The tree sends 12 vectors and the ring 126/64, so the tree pays 10.03 nβ
# more. The times are equal at n = 114 α / (10.03 β), which is 568 kB.
# </details>
#
# ### Measure: a machine with K80 GPUs
# Both algorithms now run on 64 nodes of the machine model `k80_edr`, whose nodes have K80 GPUs and
# are connected by EDR (Enhanced Data Rate) InfiniBand at 11 GB/s. In this model a message above 12
# KiB waits until its receiver is ready (*rendezvous*, lab 20), which costs two more latencies. As a
# control, both algorithms also run without rendezvous.
#
# The left plot shows the time, and the right plot the **bus bandwidth**. This is the number of
# bytes that a ring has to send, 2n(p − 1)/p, divided by the time. Higher is faster, and the ring's
# curve can rise to at most the 11 GB/s of the links. In both plots the axis *message size* shows n,
# the length of the whole vector, and not of one message.

# %%
ways = {"ring": ring_allreduce, "tree": tree_allreduce}
machine = virtual.machine("k80_edr")
lengths = np.geomspace(1e2, 1e8, 13)
modelled = {}
for label, model in (("", machine), (", no rendezvous", machine.but(eager=float("inf")))):
    cluster = virtual.Cluster(nodes=many, ranks_per_node=1, machine=model)
    for name, way in ways.items():
        vectors = {n: virtual.vector(np.ones(many), stands_for=n) for n in lengths}
        modelled[name + label] = {n: cluster.run(way, vector).time for n, vector in vectors.items()}
title = f"{many} nodes of the model k80_edr: a tree for short vectors, a ring for long ones"
plots.bandwidth(modelled, factor=2 * (many - 1) / many, what="busbw", title=title)

# %% [markdown]
# **Explain.** Of the plotted sizes, the tree is faster at the smaller ones, and the ring at the
# larger ones. Without rendezvous the curves cross between 0.3 and 1 MB, as your formula predicts
# for nearly the same α and β (568 kB). With rendezvous the plotted curves cross later, between 1
# and 3 MB.
#
# Each curve also separates from its control at some size. Why does it, and why do the ring and the
# tree do so at different sizes?
#
# <details><summary>Answer</summary>
#
# A curve separates from its control where messages become longer than 12 KiB, because longer
# messages wait for their receivers. The tree sends whole vectors, so this happens at 12 KiB. The
# ring sends chunks of 1/64 of the vector, which are longer than 12 KiB when the vector is longer
# than 64 · 12 KiB, about 0.8 MB.
#
# With rendezvous the ring is also faster in a second range, from 0.5 to 0.8 MB, where only the
# tree's messages wait. The plot does not show it, as none of its sizes is in this range.
# </details>
#
# ### Measure: this machine
# The last measurement compares your ring, the tree, and MPI's own allreduce, which chooses its
# algorithm by message size. The three take turns, so that interference from other programs affects
# all of them. This takes about ten seconds.
#
# The cell uses real ranks, one per core, but at least two and at most four. On a cluster, start
# this file with `srun`, and the cell uses the ranks that `srun` started.


# %%
# Five sizes, three allreduces in turns.
def compare(comm):
    from mpi4py import MPI

    def own_of_mpi(comm, vector):
        comm.Allreduce(MPI.IN_PLACE, vector)

    rows = {}
    for nbytes in sizes:
        vector = np.zeros(nbytes // 4, np.float32)
        calls = {name: partial(way, comm, vector) for name, way in ways.items()}
        calls["MPI's own"] = partial(own_of_mpi, comm, vector)
        # Across ranks: the three take turns, each run begins together, and the slowest rank's time
        # counts.
        rows[nbytes] = timing.in_turns(calls, comm=comm, seconds=moment)
    return rows


# %%
p = launch.ranks_here(max(2, min(4, world.cores())))
rows = launch.run(compare, ranks=p)[0]
times = {name: {nbytes: row[name] for nbytes, row in rows.items()} for name in rows[sizes[0]]}
title = f"{p} real ranks on {world.cores()} cores: which allreduce is fastest at which size?"
plots.bandwidth(times, factor=2 * (p - 1) / p, what="busbw", title=title)
share = timing.Ratio(times["MPI's own"][sizes[-1]], times["ring"][sizes[-1]])
for name, row in times.items():
    for nbytes, seconds in row.items():
        record.add("allreduce", way=name, ranks=p, bytes=nbytes, seconds=seconds, **record.BY_MPI)
record.add("bandwidth, ring over MPI's own", ranks=p, bytes=sizes[-1], share=share, **record.BY_MPI)
leads = [n for n in sizes if times["ring"][n].q3 < times["tree"][n].q1]
print(f"Bytes at which the ring is faster than the tree by more than the spread: {leads}")
print(f"At {sizes[-1]} bytes the ring reaches {share.median:.2f} of the bandwidth of MPI's own.")
shortest = times["ring"][sizes[0]].median * 1e6
longest = times["ring"][sizes[-1]].median * 1e6
print(f"The ring takes {shortest:.1f} µs for {sizes[0]} bytes, {longest:.0f} µs for {sizes[-1]}.")

# %% [markdown]
# **Explain.** With four ranks you should see the tree among the fastest at 1 KiB and the ring among
# the fastest at the largest size. The printed list begins with the smallest measured size at
# which the ring is faster on this machine.
#
# With two ranks both algorithms take two steps, and the ring sends halves. On two CPU cores we
# recorded these times:
#
# | two ranks | 1 KiB | 64 MiB |
# |---|---|---|
# | ring | 17 µs | 18 ms |
# | tree | 9 µs | 33 ms |
#
# For 1 KiB the tree was nevertheless faster. A likely cause is Python, because the ring's code also
# cuts the vector twice.
#
# The curves might be close together instead, and the list might be empty. Likely causes are:
#
# - *One memory.* All bytes pass through the same memory here, and in total both algorithms move the
#   same number of them, 2(p − 1)n.
# - *Only two steps more.* For short vectors, a ring of four needs only two steps more than the
#   tree, which can be less than the spread.
# - *More ranks than cores.* The ranks then spend most of the time waiting for each other, and you
#   should learn from the plot of the virtual cluster instead.
#
# Your Python ring might even be faster than MPI's own allreduce at the largest size. Is Python
# faster than C?
#
# <details><summary>Answer</summary>
#
# No. The last printed line also gives the ring's time for the smallest size, which is roughly the
# cost of Python and α. For the largest size, nearly all of the time is spent in NumPy's additions
# and MPI's copies, both of which are compiled code. MPI's own allreduce might use a different
# algorithm or treat memory differently. This plot does not show which.
# </details>
#
# ### What you take away
# - A ring allreduce is a reduce-scatter followed by an allgather, and each rank sends 2(p − 1)/p
#   vectors. As long as the ranks do the additions, and not the switches, no algorithm lets the
#   busiest rank send fewer bytes.
# - With more ranks the number of bytes hardly grows, but the number of messages does. The ring is
#   therefore right for long vectors and wrong for short ones. For this reason libraries choose an
#   algorithm by size (lab 24), and Horovod fuses small gradients into one long vector (lab 44).
# - In the models of this lab every rank has its own link. If four GPUs share one NIC (network
#   interface card), it matters whose link the ring uses, which is the subject of lab 26.
#
# ## Going further (optional): halves of chunks, and two directions (20 minutes)
# (a) Cut each chunk in two, and add one half while the other travels, with `Isend` and `Irecv`.
# What does the timeline look like then?
#
# (b) Send half of the vector around the ring to the left and the other half to the right. Is that
# faster?
#
# <details><summary>Answers</summary>
#
# (a) The links are idle only during the addition of the last half chunk, because all other
# additions overlap with sending. The run from above then takes 0.1531 s instead of 0.1688 s. If the
# allgather already sends the first half of the last chunk, it takes 0.1500 s.
#
# (b) It is not faster if a rank reaches both neighbors through one port, as on the virtual cluster,
# because the two halves share that port. It should be twice as fast if each neighbor has its own
# link, as between GPUs with NVLink.
# </details>
#
# ### Further reading
# - [@patarasuk2009] This paper describes the ring and derives the lower bound.
# - [@sergeev2018] It tells how Horovod developed from Baidu's code.
# - [@thakur2005] The authors use the same α and β, and show how an MPI library chooses an algorithm
#   by size.
# - [@nccl_tests] This page defines bus bandwidth and derives its factor for each collective.
# - [@mpi4py] The documentation describes `Sendrecv` and the other calls used here.
