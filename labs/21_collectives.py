# %% [markdown]
# <!-- Generated from solutions/21_collectives.py by `make labs`. Learners work on a copy in work/. -->
# # 21 Collectives
#
# Five operations in which all ranks take part carry nearly all data-parallel training; you
# build them from messages.
#
# **You will be able to** (1) say what broadcast, reduce, allreduce, reduce-scatter and allgather
# leave on each rank, (2) count their rounds and bytes, and say from them which way is for short
# vectors and which for long ones, (3) average a gradient with MPI's own.
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
moment = 1.0  # seconds for all ways together at one size of vector, in the measurement


# %% [markdown]
# ### What each of them does
# Every rank calls a collective, and each gets its part. In these sums, every digit shows who took
# part:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 3 4 | 10 20 30 40 | 100 200 300 400 | 1000 2000 3000 4000 |
# | broadcast from 1 | 10 20 30 40 | 10 20 30 40 | 10 20 30 40 | 10 20 30 40 |
# | reduce to 0 | 1111 2222 3333 4444 | | | |
# | **allreduce** | 1111 2222 3333 4444 | 1111 2222 3333 4444 | the same | the same |
# | reduce-scatter | 1111 | 2222 | 3333 | 4444 |
# | allgather of that | 1111 2222 3333 4444 | 1111 2222 3333 4444 | the same | the same |
#
# The *root* is the rank from which a broadcast comes, or to which a reduce goes. Training
# broadcasts once, so that all ranks begin with equal weights. Then it needs an **allreduce** of the
# gradients in every step.
#
# ### Broadcast by doubling
# In a simple broadcast the root sends to one rank after another. A rank sends at most one message
# at a time, and receives at most one, so 8 ranks need 7 *rounds*. It is better when all who have
# the vector pass it on: then their number doubles in each round.

# %%
def doublings(size):
    """[1, 2, 4, …] below size: how many ranks have the vector before each round."""
    return [2**step for step in range((size - 1).bit_length())]


# Drawing: in each round every rank that has the vector sends it `reach` ranks further on.
arrows = []
for step, reach in enumerate(doublings(8)):
    for rank in range(reach):
        arrows.append((rank, rank + reach, "", step))
plots.messages(
    arrows, 8, layout="tree", title="A broadcast from rank 0 to 8 ranks takes three rounds"
)

# %% [markdown]
# This picture is called a *tree*. Read it by color: in step 1 rank 0 sends to 1; in step 2 ranks 0
# and 1 send to 2 and 3; in step 3 ranks 0 to 3 send to 4 to 7.
#
# ### Predict
# How many rounds, and how many messages in all, does such a broadcast need on 16 ranks?

# %%
predict("21.1", rounds=..., messages=...)


# %% [markdown]
# ### Exercise 21.1 · Broadcast by a tree
# Write it with `Send` and `Recv`, for any number of ranks and any root. `me` is this rank's number
# counted from the root: the root is 0, its right neighbour 1. `reach` is how many ranks have the
# vector before a round: those with `me < reach`. Each of them sends it to the rank `reach` further
# on, if there is one. That one receives; the others do nothing in this round. A number counted from
# the root becomes a rank again by adding the root: `(me + reach + root) % comm.size`. 5 lines.
# *(beginner)*
#
# <details><summary>Hint 1: who does what in a round?</summary>
#
# `me < reach` sends to `me + reach`, if that is below `comm.size`; `reach <= me < 2 * reach`
# receives.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `dest=(me + reach + root) % comm.size`. After `elif reach <= me < 2 * reach:` receive, from
# `source=(me - reach + root) % comm.size`.
# </details>

# %%
def broadcast(comm, vector, root):
    """Copy root's `vector` into every rank's `vector`, in place."""
    me = (comm.rank - root) % comm.size
    for reach in doublings(comm.size):
        raise NotImplementedError("exercise 21.1: Broadcast by a tree")
    return vector


# %%
# Asked: The right values lie in the caller's own array, on 1 to 5 ranks and
# from any root, after as few rounds as a tree needs, with as many vectors sent
# as needed.
check("21.1", broadcast)


# %% [markdown]
# **Explain.** The number of ranks that have the vector doubles. So p ranks need lg p rounds,
# rounded up: lg p is the logarithm to base 2, and tells how often p can be halved. Every rank but
# the root receives once: p - 1 messages, as in the simple way. The tree saves time, not messages.
#
# ### Exercise 21.2 · Reduce by the same tree, and allreduce
# The tree backwards: the last round comes first, vectors travel towards the root, and whoever
# receives adds.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 | 10 | 100 | 1000 |
# | `reach` 2: 2 sends to 0, and 3 to 1 | 101 | 1010 | | |
# | `reach` 1: 1 sends to 0 | 1111 | | | |
#
# Add *into* `vector`, by `vector += box`: the sum must lie in the root's own array.
# `vector = vector + box` makes a new array, which the caller never sees. What the other ranks'
# vectors hold afterwards does not matter. Allreduce is then two calls. *(beginner)*
#
# <details><summary>Hint 1: what changes</summary>
#
# Where broadcast sends to `me + reach`, reduce receives from there into `box` and adds:
# `vector += box`. Where broadcast receives, reduce sends.
# </details>
# <details><summary>Hint 2: allreduce</summary>
#
# `reduce(comm, vector, root)`: now one rank has the sum. Which call brings it to all?
# </details>

# %%
def reduce(comm, vector, root):
    """Add all ranks' vectors up in root's `vector`, in place."""
    me = (comm.rank - root) % comm.size
    box = np.empty_like(vector)
    for reach in reversed(doublings(comm.size)):
        raise NotImplementedError("exercise 21.2: Reduce by the same tree, and allreduce")
    return vector


def allreduce_tree(comm, vector, root=0):
    """Add all ranks' vectors up in every rank's `vector`, in place."""
    raise NotImplementedError("exercise 21.2: Reduce by the same tree, and allreduce")
    return vector


# %%
# Asked: The sum lies in the root's own array, then in every rank's, after a
# tree's rounds and after twice as many.
check("21.2", reduce, allreduce_tree)

# %% [markdown]
# ### Chunks
# The tree sends *whole* vectors, one round after another, while most ranks wait. Now cut the vector
# into p chunks, and put rank r in charge of chunk r. First each rank adds up its own chunk, which
# is the reduce-scatter. Then the finished chunks go to all, which is the allgather. Both together
# are an allreduce.
#
# ### Predict
# How many vectors does the busiest rank send in an allreduce on 4 ranks: by the tree, up and down
# again? And by chunks, where every rank sends 3 chunks in the first half, and 3 in the second? A
# chunk is a quarter of a vector.

# %%
predict("21.3", sent_by_tree=..., sent_by_chunks=...)


# %% [markdown]
# ### Exercise 21.3 · Reduce-scatter
# In step i, for i from 1 to p - 1, rank r sends chunk r + i to the rank that is in charge of it,
# and that is rank r + i; all modulo p. So in each step everybody sends one chunk and receives one.
# Four ranks, with the digits of above:
#
# | step | rank 0 sends | rank 1 sends | rank 2 sends | rank 3 sends | so chunk 0 of rank 0 holds |
# |---|---|---|---|---|---|
# | before | | | | | 1 |
# | 1 | chunk 1 to rank 1 | chunk 2 to rank 2 | chunk 3 to rank 3 | chunk 0, its 1000, to rank 0 | 1001 |
# | 2 | chunk 2 to rank 2 | chunk 3 to rank 3 | chunk 0, its 100, to rank 0 | chunk 1 to rank 1 | 1101 |
# | 3 | chunk 3 to rank 3 | chunk 0, its 10, to rank 0 | chunk 1 to rank 1 | chunk 2 to rank 2 | 1111 |
#
# The loop over i stands there, and so does `to`. From whom does rank r receive in step i? From the
# rank i to the left, r - i. Do both by one `comm.Sendrecv` (lab 20), into `box`, and add `box` to
# your own chunk, `chunks[comm.rank]`. `chunks` are views: adding *into* one, by `+=`, adds into
# `vector`, and there the sum must lie. 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: from whom?</summary>
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
        raise NotImplementedError("exercise 21.3: Reduce-scatter")
    return chunks[comm.rank]


# %%
# Asked: Chunk r of the sum lies in rank r's own array, after p - 1 rounds.
check("21.3", reduce_scatter)


# %% [markdown]
# ### Allgather
# Each rank has one finished chunk, and all want all. They stand in a ring. In each of p - 1 steps
# every rank sends to the right what came last from the left; in the first step it sends its own
# chunk. With chunks A, B, C, D of ranks 0 to 3:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | A · · · | · B · · | · · C · | · · · D |
# | after step 0 | A · · D | A B · · | · B C · | · · C D |
# | after step 1 | A · C D | A B · D | A B C · | · B C D |
# | after step 2 | A B C D | A B C D | A B C D | A B C D |
#
# Rank 0 sends A, then D, then C. You write such a ring in lab 23; here it is given.

# %%
def allgather(comm, vector):
    """Rank r's chunk r of `vector` goes to all ranks' `vector`, in place."""
    chunks = np.array_split(vector, comm.size)
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size
    for i in range(comm.size - 1):
        # Across ranks: what came from the left in the last step goes to the right in this one.
        old = (comm.rank - i) % comm.size
        new = (comm.rank - i - 1) % comm.size
        comm.Sendrecv(chunks[old], dest=right, recvbuf=chunks[new], source=left)
    return vector


def allreduce_chunks(comm, vector):
    """Add all ranks' vectors up in every rank's `vector`, in place: your reduce-scatter, then
    allgather."""
    reduce_scatter(comm, vector)
    return allgather(comm, vector)


# %%
# Both allreduces leave the sum on all ranks. What does the busiest of four virtual ranks send?
vector = np.ones(8)
tree = virtual.Cluster(4).run(allreduce_tree, vector)
chunks = virtual.Cluster(4).run(allreduce_chunks, vector)
sent = {
    "tree": max(tree.sent_bytes) / vector.nbytes,
    "chunks": max(chunks.sent_bytes) / vector.nbytes,
}
predict.compare("21.3", sent_by_tree=sent["tree"], sent_by_chunks=sent["chunks"])
print(f"Rounds on four ranks: tree {max(tree.steps)}, chunks {max(chunks.steps)}.")

# %% [markdown]
# **Explain.** The busiest ranks of the tree, the root among them, send 2 vectors. With chunks each
# sends 1.5: that is a small difference. The large one is in the rounds. Each of the tree's 4 rounds
# moves a whole vector, one after the other: 4 vectors long. The 6 rounds of the chunks move a
# quarter each: 1.5 vectors long.
#
# ### Who leads where, computed
# Say that a message of n bytes takes α + n β seconds: α = 2 µs, and 1/β = 12 GB/s, as between
# machines with a fast network. Then the two ways take, on 4 ranks:
#
# | | rounds | bytes in each | seconds |
# |---|---|---|---|
# | tree | 4 | n | 4 (α + n β) = 4 α + 4 n β |
# | chunks | 6 | n / 4 | 6 (α + n/4 β) = 6 α + 1.5 n β |
#
# ### Predict
# The chunks have 2 α more, and 2.5 n β less. From how many kB on do they lead, on 4 ranks? α/β is
# 24 kB: so many bytes take as long as α.

# %%
predict("21.3", chunks_lead_from_kB=...)


# %% [markdown]
# `virtual.Cluster` ([lab 23](23_ring_allreduce.ipynb) explains it) runs your functions on ranks that are not there, and
# charges α + n β for each message. So this is no measurement, but what your messages cost by that
# rule. About 10 s.

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
    title="Few rounds for short vectors, few bytes for long ones",
    logx=True,
    logy=True,
)
chunks_lead = {}
for ranks in computed_ranks:
    # by what the tree takes longer: a straight line over the bytes, so two sizes are enough
    longer = []
    for nbytes in (1000, 1_000_000):
        longer.append(
            computed(allreduce_tree, ranks, nbytes) - computed(allreduce_chunks, ranks, nbytes)
        )
    chunks_lead[ranks] = np.interp(0, longer, (1, 1000))  # kB, where that is 0
    print(f"{ranks} ranks: the chunks lead from {chunks_lead[ranks]:.1f} kB on")
predict.right("21.3", chunks_lead_from_kB=chunks_lead[min(chunks_lead)])


# %% [markdown]
# **Explain.** For short vectors the bytes cost nearly nothing, and the rounds decide: on 64 ranks
# the tree has 12, the chunks 126. For long vectors the bytes decide: the chunks send 2 (p - 1)/p
# vectors, which is never more than 2; the tree's rounds are 12 whole vectors one after another. In
# between the curves cross, and with more ranks they cross further to the right.
#
# On 4 ranks they cross where 2.5 n β = 2 α, so n = 0.8 α/β = 19.2 kB. On 64 ranks the chunks have
# 114 α more, and 12 - 126/64 = 10.03 n β less: n = 11.4 α/β = 273 kB.
#
# Which one is for the gradients of a network of 100 MB, which for one number, such as a loss?
# <details><summary>Answer</summary> Chunks for the gradients, the tree for the loss. Libraries choose by
# size; [lab 24](24_trees_and_halving.ipynb) builds such a choice.</details>
#
# ### MPI's own
# Each of the five is one call of MPI, with arrays by capital letters and with objects by small
# ones:
#
#     comm.Bcast(vector, root=1)                 # all ranks: vector becomes rank 1's
#     comm.Reduce(vector, result, root=0)        # result on rank 0 only
#     comm.Allreduce(vector, result)             # result on all
#     total = comm.allreduce(3.5)                # small letters: a number, packed; slower
#     comm.Allreduce(MPI.IN_PLACE, vector)       # the sum overwrites vector
#
# Reduce and Allreduce *add*, unless told otherwise. MPI trusts you in three things: that **all
# ranks** make the same call, that length and dtype are the same everywhere, and that input and
# output are two arrays (or `MPI.IN_PLACE` stands for the first). Where a rank does not call, the
# others wait for it, or take its next collective for this one.
#
# ### Exercise 21.4 · Average with MPI's own
# Lab 30 stands on this. Return the **mean** of all ranks' gradients, in a new array of the same
# dtype, by one `Allreduce`. `gradient` must stay as it is. 3 lines. *(beginner)*
#
# <details><summary>Hint 1: where does the result go?</summary>
#
# Into another array of that length and dtype: `np.empty_like(gradient)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Allreduce(gradient, mean)`; that is the sum. What makes a mean of it?
# </details>

# %%
def average(comm, gradient):
    """The mean of all ranks' gradients (float32), a new array."""
    raise NotImplementedError("exercise 21.4: Average with MPI's own")


# %%
# Asked: Each of 1 to 5 ranks gets the mean, by one Allreduce of the array.
check("21.4", average)


# %% [markdown]
# ### Measure
# Now your two ways and MPI's own on real ranks of this machine. They take turns, so that what
# disturbs one disturbs all. There are not more ranks than cores: else most of the time would be
# waiting for a core. About 15 s.

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


ranks = max(2, min(4, world.cores()))
per_rank = launch.run(race, ranks=ranks)
times = per_rank[0]
plots.bandwidth(times, title=f"Allreduce on {len(per_rank)} real ranks of this machine")
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
# **Explain.** On 2 ranks the tree has 2 rounds of whole vectors, the chunks 2 rounds of halves. So
# you should see: equal times for short vectors, and for long ones the chunks ahead, at most by half
# of the time. With 4 cores there are 4 ranks, and you should see the tree ahead at the left end,
# the chunks at the right. MPI's own is ahead for short vectors. One likely cause: it is written in
# C, and yours calls MPI from Python, once for each message. Another one: MPIs choose their way by
# size ([lab 24](24_trees_and_halving.ipynb)), and it may be neither of yours.
#
# You may see instead: wide bars, where the cores are most likely busy with something else; or
# curves that cross twice, perhaps for the same reason, perhaps by the step from eager to rendezvous
# ([lab 20](20_ranks_and_messages.ipynb)). Points named as *not steady* varied much from sample to sample ([lab 01](01_time_it_properly.ipynb)) and say nothing;
# run the cell again. What a network between machines shows is the computed picture above: here the
# messages go through memory.
#
# ### What you take away
# - Broadcast makes equal; allreduce adds up and tells all. Data-parallel training needs little
#   else.
# - Tree: few rounds, for short vectors. Chunks: few bytes, for long ones. MPI and NCCL choose (lab
#   24).
# - `Allreduce` adds; the mean is yours. MPI asks for the same call, root, length and dtype on every
#   rank.
# - Next: lab 22 measures what a message costs, lab 30 trains with an allreduce.
