# %% [markdown]
# # 21 Collectives
#
# Data-parallel training needs only a few kinds of communication. At the start all ranks have to get
# the same weights, and after every backward pass all ranks need the average of their gradients. You
# could write these exchanges with single messages, but every program would repeat the code, and a
# simple version would be slow on many ranks. MPI (Message Passing Interface) therefore offers
# **collectives**, which are operations in which all ranks of a group take part. Nearly all
# communication in data-parallel training consists of five of them.
#
# In this lab we build these five collectives from messages, so that we can count what they cost.
# For the most important one, the allreduce, we compare two algorithms. The first sends whole
# vectors along a tree of ranks, and the second sends parts of the vectors, called chunks. At the
# end we use MPI's own allreduce to average a gradient, and measure it and our two algorithms on
# this machine.
#
# **After this lab you can** (1) say what broadcast, reduce, allreduce, reduce-scatter and allgather
# leave on each rank, (2) count their steps and bytes, and derive from them which algorithm is for
# short vectors and which for long ones, and (3) average a gradient with MPI's own allreduce.
#
# ![Five small tables of four ranks before and after broadcast, reduce, allreduce, reduce-scatter and allgather](21_collectives.svg)
#
# *The five collectives on four ranks. Each rank begins with a vector of four chunks, except in the
# allgather, where it begins with one chunk. A darker cell is a chunk of the sum, and an empty cell
# may contain anything.*
#
# Needs: mpi · Ranks: 4 · Minutes: 60 · Level: beginner · Before: 20

# %%
from functools import partial

import numpy as np
import virtual
from labkit import check, hint, lab, launch, plots, predict, record, timing, world

lab.start("21_collectives")

# %% tags=["parameters"]
patience = 30  # seconds after which a check calls a program stuck
computed_ranks = (4, 64)  # numbers of ranks in the computed curves
# Bytes.
computed_sizes = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
sizes = (1, 64, 4096, 65536, 1048576)  # values (float32, 4 bytes) per vector in the measurement
moment = 1.0  # seconds at most for all ways together at one size of vector, in the measurement

# %% [markdown]
# ## What each collective does
# Every rank calls the collective, and each gets its part of the result:
#
# - **Broadcast** copies the vector of one rank, the *root*, to all ranks.
# - **Reduce** adds up the vectors of all ranks and leaves the sum on the root.
# - **Allreduce** leaves this sum on all ranks.
# - **Reduce-scatter** leaves one chunk of the sum on each rank.
# - **Allgather** collects one chunk from each rank and leaves all chunks on all ranks.
#
# In this table every rank's values use their own decimal digit, so a sum shows which ranks have
# contributed to it:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 3 4 | 10 20 30 40 | 100 200 300 400 | 1000 2000 3000 4000 |
# | broadcast from 1 | 10 20 30 40 | 10 20 30 40 | 10 20 30 40 | 10 20 30 40 |
# | reduce to 0 | 1111 2222 3333 4444 | | | |
# | **allreduce** | 1111 2222 3333 4444 | 1111 2222 3333 4444 | the same | the same |
# | reduce-scatter | 1111 | 2222 | 3333 | 4444 |
# | allgather of the row above | 1111 2222 3333 4444 | 1111 2222 3333 4444 | the same | the same |
#
# Simple data-parallel training broadcasts once, so that all ranks start with equal weights, and
# then needs an **allreduce** of the gradients in every step.
#
# ## Broadcast by doubling
# In the simplest broadcast the root sends its vector to one rank after another. We count its time
# in *steps*. In one step a rank sends at most one message and receives at most one, so the simple
# broadcast to 8 ranks takes 7 steps.
#
# A broadcast is faster if all ranks that have the vector already send it on, because their number
# then doubles in each step. The next cell draws this for 8 ranks.


# %%
def doublings(size):
    """[1, 2, 4, …] below size: how many ranks have the vector before each step."""
    return [2**step for step in range((size - 1).bit_length())]


# Drawing: in each step every rank that has the vector sends it `reach` ranks further on.
arrows = []
for step, reach in enumerate(doublings(8)):
    for rank in range(reach):
        arrows.append((rank, rank + reach, step))
plots.messages(
    arrows, 8, layout="tree", title="A broadcast from rank 0 to 8 ranks takes three steps"
)

# %% [markdown]
# This pattern of messages is called a *tree*. In step 1 rank 0 sends to rank 1, in step 2 ranks 0
# and 1 send to ranks 2 and 3, and in step 3 ranks 0 to 3 send to ranks 4 to 7.
#
# ### Predict
# How many steps does such a broadcast take on 16 ranks, and how many messages does it send in all?

# %%
predict("21.1", steps=4, messages=15)

# %% [markdown]
# ### Exercise 21.1 · Broadcast by a tree
# Write the tree with blocking `Send` and `Recv`, for any number of ranks and any root. The cell
# contains two variables:
#
# - `me` is this rank's number counted from the root.
# - `reach` is the number of ranks that have the vector before a step. These are the ranks with
#   `me < reach`.
#
# With root 5 on 8 ranks, for example, `me` is:
#
# | rank | 5 | 6 | 7 | 0 | 1 | 2 | 3 | 4 |
# |---|---|---|---|---|---|---|---|---|
# | `me` | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
#
# `Send` and `Recv` need ranks. The number k belongs to rank `(k + root) % comm.size`, so the number
# 3 belongs to rank (3 + 5) % 8 = 0 in this example.
#
# In each step, a rank with `me < reach` sends the vector to the rank with the number `me + reach`,
# if there is one. That rank receives the vector, and all other ranks do nothing. This takes 5
# lines. *(beginner)*
#
# <details><summary>Hint 1: who does what in a step?</summary>
#
# A rank with `me < reach` sends to `me + reach`, if that is below `comm.size`. A rank with
# `reach <= me < 2 * reach` receives.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Send to `dest=(me + reach + root) % comm.size`. After `elif reach <= me < 2 * reach:` receive from
# `source=(me - reach + root) % comm.size`.
# </details>


# %%
def broadcast(comm, vector, root):
    """Copy root's `vector` into every rank's `vector`, in place."""
    me = (comm.rank - root) % comm.size
    for reach in doublings(comm.size):
        ### BEGIN SOLUTION
        # Across ranks: ranks with the vector send, the next ones receive, the others wait.
        if me < reach:
            if me + reach < comm.size:
                comm.Send(vector, dest=(me + reach + root) % comm.size)
        elif me < 2 * reach:
            comm.Recv(vector, source=(me - reach + root) % comm.size)
        ### END SOLUTION
    return vector


# %%
check("21.1", broadcast)

# %% [markdown]
# **Explain.** The number of ranks that have the vector doubles in each step. After 0, 1, 2, 3 and 4
# steps, 1, 2, 4, 8 and 16 ranks have it, so 16 ranks need 4 steps. In general p ranks need ⌈log₂ p⌉
# steps, the logarithm to base 2 rounded up, so 5 to 8 ranks need 3.
#
# Every rank except the root receives one message, so there are p − 1 messages, 15 on 16 ranks, as
# many as in the simple broadcast. The tree saves time, not messages.
#
# ### Exercise 21.2 · Reduce by the same tree, and allreduce
# A reduce uses the same tree in the opposite direction. The last step comes first, each vector is
# sent toward the root, and a rank that receives a vector adds it to its own:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 | 10 | 100 | 1000 |
# | `reach` = 2: rank 2 sends to rank 0, rank 3 to rank 1 | 101 | 1010 | | |
# | `reach` = 1: rank 1 sends to rank 0 | 1111 | | | |
#
# Write `reduce`, in about 5 lines, and `allreduce_tree`, in 2 lines that call `reduce` and
# `broadcast`. *(beginner)*
#
# - As in 21.1, a rank with the number `me + reach` might not exist.
# - Receive into `box`, an array that the cell contains already. Then add *into* `vector`, with
#   `vector += box`, because the sum must be in the root's own array. The statement
#   `vector = vector + box` would make a new array, which the caller never sees.
# - The vectors of the other ranks may contain anything afterwards.
#
# <details><summary>Hint 1: what changes?</summary>
#
# Where broadcast sends to `me + reach`, reduce receives from this rank into `box` and adds:
# `vector += box`. Where broadcast receives, reduce sends.
# </details>
# <details><summary>Hint 2: allreduce</summary>
#
# After `reduce(comm, vector, root)` one rank has the sum. Which call brings it to all ranks?
# </details>


# %%
def reduce(comm, vector, root):
    """Add all ranks' vectors up in root's `vector`, in place."""
    me = (comm.rank - root) % comm.size
    box = np.empty_like(vector)
    for reach in reversed(doublings(comm.size)):
        ### BEGIN SOLUTION
        # Across ranks: of the ranks that still take part, the upper half sends to the lower half.
        if reach <= me < 2 * reach:
            comm.Send(vector, dest=(me - reach + root) % comm.size)
        elif me < reach and me + reach < comm.size:
            comm.Recv(box, source=(me + reach + root) % comm.size)
            vector += box
        ### END SOLUTION
    return vector


def allreduce_tree(comm, vector, root=0):
    """Add all ranks' vectors up in every rank's `vector`, in place."""
    ### BEGIN SOLUTION
    reduce(comm, vector, root)
    broadcast(comm, vector, root)
    ### END SOLUTION
    return vector


# %%
check("21.2", reduce, allreduce_tree)

# %% [markdown]
# ## Chunks
# The tree sends *whole* vectors, one step after another, while most ranks wait. Instead we can cut
# the vector into p chunks and make rank r responsible for chunk r. First each rank adds up the
# chunk for which it is responsible (reduce-scatter), and then the finished chunks are sent to all
# ranks (allgather). The two together are an allreduce.
#
# ### Exercise 21.3 · Reduce-scatter
# In step i, rank r sends chunk r + i to rank r + i, which is responsible for it (both modulo p, so
# rank 0 follows the last rank). In each step every rank therefore sends one chunk and receives one.
# This is what happens on four ranks, with the digits from above:
#
# | step | rank 0 sends | rank 1 sends | rank 2 sends | rank 3 sends | chunk 0 of rank 0 then contains |
# |---|---|---|---|---|---|
# | before | | | | | 1 |
# | 1 | chunk 1 to rank 1 | chunk 2 to rank 2 | chunk 3 to rank 3 | chunk 0, its 1000, to rank 0 | 1001 |
# | 2 | chunk 2 to rank 2 | chunk 3 to rank 3 | chunk 0, its 100, to rank 0 | chunk 1 to rank 1 | 1101 |
# | 3 | chunk 3 to rank 3 | chunk 0, its 10, to rank 0 | chunk 1 to rank 1 | chunk 2 to rank 2 | 1111 |
#
# The loop over i and the variable `to`, which is r + i, are in the cell already. Write the rest of
# the loop's body, in 3 lines. *(intermediate)*
#
# - In step i, rank r receives from rank r − i (modulo p). Send and receive with one `comm.Sendrecv`
#   (lab 20), and receive into `box`.
# - Add `box` to your own chunk, `chunks[comm.rank]`. The chunks are *views* of `vector`, so adding
#   with `+=` changes `vector`, where the sum must be.
# - If the length is not divisible by p, some chunks have one value more than others. Every rank
#   receives only values for its own chunk, so `box` always fits.
#
# <details><summary>Hint 1: from which rank?</summary>
#
# `source = (comm.rank - i) % comm.size`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(chunks[to], dest=to, recvbuf=box, source=source)`, then add `box`.
# </details>


# %%
def reduce_scatter(comm, vector):
    """Chunk comm.rank of `vector` becomes the sum over all ranks; the other chunks may hold
    anything."""
    chunks = np.array_split(vector, comm.size)
    box = np.empty_like(chunks[comm.rank])
    for i in range(1, comm.size):
        to = (comm.rank + i) % comm.size
        ### BEGIN SOLUTION
        # Across ranks: in each step everybody sends one chunk and receives one.
        source = (comm.rank - i) % comm.size
        comm.Sendrecv(chunks[to], dest=to, recvbuf=box, source=source)
        chunks[comm.rank] += box
        ### END SOLUTION
    return chunks[comm.rank]


# %%
check("21.3", reduce_scatter)

# %% [markdown]
# ## Allgather
# Each rank now has one finished chunk, and all ranks need all chunks. In the allgather below the
# ranks form a *ring*, in which each rank sends to the next rank, its right neighbor, and the last
# rank sends to rank 0. In the first step every rank sends its own chunk, and in each later step the
# chunk that arrived last. With the chunks A, B, C, D of ranks 0 to 3 this looks as follows:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | A · · · | · B · · | · · C · | · · · D |
# | after step 1 | A · · D | A B · · | · B C · | · · C D |
# | after step 2 | A · C D | A B · D | A B C · | · B C D |
# | after step 3 | A B C D | A B C D | A B C D | A B C D |
#
# Rank 0 sends A, then D, then C. You will write such a ring in lab 23; here it is given, and
# `allreduce_chunks` calls it after your `reduce_scatter`.


# %%
def allgather(comm, vector):
    """Rank r's chunk r of `vector` goes to all ranks' `vector`, in place."""
    chunks = np.array_split(vector, comm.size)
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    for i in range(1, comm.size):
        # Across ranks: what came from the left in the last step goes to the right in this one.
        old = (comm.rank - i + 1) % comm.size
        new = (comm.rank - i) % comm.size
        comm.Sendrecv(chunks[old], dest=right, recvbuf=chunks[new], source=left)
    return vector


def allreduce_chunks(comm, vector):
    """Add up all ranks' vectors in every rank's `vector`, in place: your reduce-scatter, then
    allgather."""
    reduce_scatter(comm, vector)
    return allgather(comm, vector)


# %% [markdown]
# ### Predict
# How many vectors does the busiest rank, the one that sends most, send in an allreduce on 4 ranks?
#
# - With the tree, the allreduce is a reduce and then a broadcast.
# - With chunks, every rank sends 3 chunks in the reduce-scatter and 3 in the allgather. A chunk is
#   a quarter of a vector.

# %%
predict("21.3", sent_by_tree=2.0, sent_by_chunks=1.5)

# %% [markdown]
# `virtual.Cluster` is a simulator (lab 23 explains it). It runs your functions on simulated ranks
# and counts their messages.

# %%
# What does the busiest of four simulated ranks send?
vector = np.ones(8)
tree = virtual.Cluster(4).run(allreduce_tree, vector)
chunks = virtual.Cluster(4).run(allreduce_chunks, vector)
sent = {
    "tree": max(tree.sent_bytes) / vector.nbytes,
    "chunks": max(chunks.sent_bytes) / vector.nbytes,
}
predict.compare("21.3", sent_by_tree=sent["tree"], sent_by_chunks=sent["chunks"])
print(f"Steps on four ranks: tree {max(tree.steps)}, chunks {max(chunks.steps)}.")

# %% [markdown]
# **Explain.** The busiest ranks of the tree, the root among them, send 2 vectors, and with chunks
# each rank sends 1.5. This difference is small, but the difference in time is large, because the
# steps follow one after another:
#
# | | steps | a message of each step | all steps take as long as |
# |---|---|---|---|
# | tree | 4 | a whole vector | 4 vectors |
# | chunks | 6 | a quarter | 1.5 vectors |
#
# ## Which one is faster, computed
# Suppose that a message of n bytes takes α + nβ seconds. Here α is the *latency*, the time of an
# empty message, and β is the time of each byte, so 1/β is the *bandwidth*. As between machines with
# a fast network, let α be 2 µs and 1/β 12 GB/s. On 4 ranks an allreduce of n bytes then takes
#
# - with the tree 4 (α + nβ) = 4 α + 4 nβ seconds,
# - with chunks 6 (α + n/4 · β) = 6 α + 1.5 nβ seconds.
#
# ### Predict
# On 4 ranks, chunks cost 2 α more than the tree and save 2.5 nβ. From how many kB on are they
# faster? Here α/β is 24 kB, so the transfer of 24 kB takes as long as α.

# %%
predict("21.3", chunks_lead_from_kB=19.2)

# %% [markdown]
# The simulator now charges α + nβ for each message that your functions send. The curves are
# therefore not a measurement, but the cost of your messages under this rule. This takes about 10 s.


# %%
def computed(way, ranks, nbytes):
    """Seconds of an allreduce of so many bytes, by the messages that it sends."""
    vector = virtual.vector(np.ones(ranks), stands_for=nbytes)
    machine = virtual.ideal(2e-6, 12e9)
    return virtual.Cluster(ranks, machine=machine).run(way, vector).time


curves = {}
for ranks in computed_ranks:
    for name, way in (("tree", allreduce_tree), ("chunks", allreduce_chunks)):
        curves[f"{name}, {ranks} ranks"] = {
            n: computed(way, ranks, n) * 1e6 for n in computed_sizes
        }
plots.lines(
    {name: (list(row), list(row.values())) for name, row in curves.items()},
    xlabel="bytes of the vector",
    ylabel="computed time (µs)",
    title="Few steps for short vectors, few bytes for long ones",
    logx=True,
    logy=True,
)
chunks_lead = {}
for ranks in computed_ranks:
    # How much longer the tree takes is a straight line over the bytes, so two sizes are enough.
    longer = []
    for nbytes in (1000, 1_000_000):
        longer.append(
            computed(allreduce_tree, ranks, nbytes) - computed(allreduce_chunks, ranks, nbytes)
        )
    chunks_lead[ranks] = np.interp(0, longer, (1, 1000))  # kB, where the difference is 0
    print(f"{ranks} ranks: the chunks are faster from {chunks_lead[ranks]:.1f} kB on")
predict.right("21.3", chunks_lead_from_kB=chunks_lead[min(chunks_lead)])

# %% [markdown]
# **Explain.** For short vectors the number of steps matters, and the tree has fewer. For long
# vectors the bytes matter. With chunks, a rank sends 2 (p − 1)/p vectors, which is never more than
# 2, while on 64 ranks the tree's steps send 12 whole vectors one after another.
#
# In between, the curves cross where the chunks' additional steps cost as much time as their fewer
# bytes save:
#
# | | 4 ranks | 64 ranks |
# |---|---|---|
# | tree | 4 α + 4 nβ | 12 α + 12 nβ |
# | chunks | 6 α + 1.5 nβ | 126 α + 126/64 nβ |
# | equal where | 2 α = 2.5 nβ | 114 α = 10.03 nβ |
# | so chunks are faster from | n = 0.8 α/β = 19.2 kB | n = 11.4 α/β = 273 kB |
#
# Which algorithm should sum the gradients of a network of 100 MB, and which a single number such as
# a loss?
# <details><summary>Answer</summary>
#
# Chunks for the gradients, and the tree for the loss. Libraries choose according to the size, and
# lab 24 builds such a choice.
# </details>
#
# ## MPI's own collectives
# Each of the five collectives is one MPI call. As with messages, a capital letter means arrays,
# and a small letter means Python objects:
#
#     comm.Bcast(vector, root=1)                 # all ranks: vector becomes rank 1's
#     comm.Reduce(vector, result, root=0)        # result on rank 0 only
#     comm.Allreduce(vector, result)             # result on all
#     comm.Reduce_scatter_block(vector, chunk)   # chunk r of the sum on rank r, equal chunks
#     comm.Allgather(chunk, vector)              # the chunks of all ranks, on all
#
#     total = comm.allreduce(3.5)                # small letter: a number, serialized; slower
#
#     from mpi4py import MPI
#     comm.Allreduce(MPI.IN_PLACE, vector)       # the sum overwrites vector
#
# Reduce, allreduce and reduce-scatter *add*, unless you specify another operation. MPI relies on
# you for three things:
#
# - **All ranks** make the same call, with the same root.
# - Length and dtype are the same on all ranks.
# - Input and output are two different arrays, unless `MPI.IN_PLACE` replaces the input.
#
# If one rank leaves out a call, the other ranks may wait for it without end. MPI may also combine
# their call with the next collective of that rank, which leads to a wrong result or an error.
#
# ### Exercise 21.4 · Average with MPI's own
# Lab 30 averages gradients in this way. Return the **mean** of all ranks' gradients, in a new array
# of the same dtype, with one `Allreduce`. The array `gradient` must not change. This takes 3 lines.
# *(beginner)*
#
# <details><summary>Hint 1: where does the result go?</summary>
#
# Into another array of the same shape and dtype: `np.empty_like(gradient)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After `comm.Allreduce(gradient, mean)` the array contains the sum. How do you get the mean from
# it?
# </details>


# %%
def average(comm, gradient):
    """The mean of all ranks' gradients (float32), a new array."""
    ### BEGIN SOLUTION
    mean = np.empty_like(gradient)
    # Across ranks: MPI adds, the division is ours.
    comm.Allreduce(gradient, mean)
    return mean / comm.size
    ### END SOLUTION


# %%
check("21.4", average)

# %% [markdown]
# ### Measure
# Now we compare your two algorithms and MPI's own on real ranks of this machine. They take turns,
# so that interference from other programs affects all of them. There is one rank for each core, but
# at least two and at most four. A batch job measures on all of its ranks. This takes a few seconds.


# %%
def race(comm):
    from mpi4py import MPI

    def own_of_mpi(comm, vector):
        comm.Allreduce(MPI.IN_PLACE, vector)

    ways = {"your tree": allreduce_tree, "your chunks": allreduce_chunks, "MPI's own": own_of_mpi}
    times = {name: {} for name in ways}
    for values in sizes:
        calls = {
            name: partial(way, comm, np.zeros(values, np.float32)) for name, way in ways.items()
        }
        batch = 10 if values <= 4096 else 1
        # Across ranks: comm= starts all together and counts the slowest.
        for name, time in timing.in_turns(calls, comm=comm, seconds=moment, batch=batch).items():
            times[name][4 * values] = time
    return times


ranks = launch.ranks_here(max(2, min(4, world.cores())))
per_rank = launch.run(race, ranks=ranks)
times = per_rank[0]
plots.lines(
    {name: {n: 1e6 * time.samples for n, time in row.items()} for name, row in times.items()},
    xlabel="bytes of the vector",
    ylabel="time (µs)",
    title=f"Allreduce on {len(per_rank)} real ranks",
    logx=True,
    logy=True,
    xbytes=True,
)
for name, row in times.items():
    medians = [time.median for time in row.values()]
    unsteady = [n for n, time in row.items() if not time.steady]
    print(f"{name}: not steady at {unsteady} bytes" if unsteady else f"{name}: steady at all sizes")
    record.add(
        "allreduce",
        way=name,
        ranks=len(per_rank),
        bytes=list(row),
        seconds=medians,
        **record.BY_MPI,
    )

# %% [markdown]
# **Explain.** Your plot depends on the number of ranks. The rule α + nβ predicts:
#
# | ranks | tree | chunks | shortest vectors | longest vectors |
# |---|---|---|---|---|
# | 2 | 2 steps, whole vectors | 2 steps, halves | equal | chunks faster |
# | 3 | 4 steps, whole vectors | 4 steps, thirds | equal | chunks faster |
# | 4, as computed above | 4 steps, whole vectors | 6 steps, quarters | tree faster | chunks faster |
#
# For example, this is one measurement of 2 ranks on two cores:
#
# | | predicted | tree | chunks |
# |---|---|---|---|
# | short vectors | equal | 5 µs | 14 µs |
# | 4 MiB | chunks need at best half of the time | 1.16 ms | 0.66 ms |
#
# For short vectors the prediction is wrong because the rule leaves out Python's overhead. With
# chunks, your function calls `np.array_split` twice, which takes 4 µs or more per call. For long
# vectors the two can be equal while other programs use the cores.
#
# **MPI's own** allreduce is faster for short vectors. Likely causes are that it is written in C,
# while yours calls MPI from Python once for each message, and that its algorithm may be another
# one.
#
# Points that are listed as *not steady* varied much from sample to sample (lab 01), most likely
# because the cores are busy with other programs, so run the cell again. On one machine all messages
# go through memory. For a network between machines, look at the computed curves above, or run
# `make submit LAB=21 NODES=2`.
#
# ### What you take away
# - Broadcast makes all ranks equal, and allreduce adds up vectors and gives the sum to all ranks.
#   Data-parallel training needs little else.
# - A tree takes few steps, which is good for short vectors. Chunks send few bytes, which is good
#   for long vectors. MPI and NCCL choose according to the size (lab 24).
# - `Allreduce` adds, so you have to divide to get the mean. MPI requires the same call, root,
#   length and dtype on every rank.
#
# Lab 22 measures what a message costs, and lab 30 trains with an allreduce.
#
# ### Further reading
# - [@thakur2005] The paper derives the costs of these collectives and shows how an MPI library
#   chooses among algorithms.
# - [@chan2007] A systematic introduction to collectives, with figures like the tables of this lab.
# - [@mpi4py] The tutorial has a section on collective communication.
# - [@nccl_collectives] The same collectives in NVIDIA's library for GPUs.
