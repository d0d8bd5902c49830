# %% [markdown]
# <!-- Generated from solutions/25_broadcast_for_deep_learning.py by `make labs`. Learners work on a copy in work/. -->
# # 25 Broadcast for deep learning
#
# Before [allreduce](../labs/GLOSSARY.md#allreduce) became the rule, many training programs let one [rank](../labs/GLOSSARY.md#rank) update the parameters and
# send them to all ranks, in every training step. Such a program needs a [broadcast](../labs/GLOSSARY.md#broadcast) for each layer,
# and the time of these broadcasts grows with the number of GPUs while the computation of a GPU
# stays the same.
#
# In our model of VGG-16 on 128 GPUs, the broadcasts take half of the training time if they use the
# tree of [lab 21](21_collectives.ipynb). Today, most data-parallel jobs still broadcast their parameters once, at the
# start.
#
# In this lab we write two broadcasts that cut a long vector into chunks, *scatter-allgather* and
# the *pipelined chain*, and find the best number of chunks. Then we compare five broadcasts on a
# modeled GPU cluster with 128 ranks, and choose one for each layer of VGG-16. Four optional parts
# (about 15 minutes more) follow the recap.
#
# **After this lab you can** (1) build a broadcast by scatter-allgather and by a pipelined chain,
# (2) compute the best number of chunks from the time α per message and the time β per byte, and (3)
# choose a broadcast for each layer of a network.
#
# ![What each of four ranks sends over time: the tree sends whole vectors in two steps, scatter-allgather and the pipelined chain send quarters and take three quarters of the tree's time](../notebooks/figures/25_broadcasts.svg)
#
# *Three broadcasts from rank 0 to three other ranks. Each box is a message, drawn in the row of the
# rank that sends it. The number in a box is that of a chunk, a quarter of the vector. A whole
# vector of n bytes takes the time nβ.*
#
# Needs: mpi · Ranks: 4 · Minutes: 65 · Level: intermediate · Before: 21, 22, 23

# %%
from collections import Counter
from functools import partial
from math import log, sqrt

import numpy as np
import virtual
from labkit import check, hint, lab, launch, nets, plots, predict, record, timing, world
from labkit.collectives import tree_broadcast
from support import lab25

lab.start("25_broadcast_for_deep_learning")

# %% tags=["parameters"]
net = "vgg16"  # whose layers are sent: a name of nets.layer_table
where = "k80_fdr"  # the virtual cluster's machine
many = 128  # ranks of it
# Bytes there.
sizes = (1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456)
most_chunks = 256  # of a chain there; more take long to run
nccl_start = 8.4e-6  # seconds to start a call of NCCL 2 (ring, Simple protocol)
sizes_here = (4096, 65536, 1048576, 16777216)  # bytes per broadcast on real ranks

# %% [markdown]
# ## A broadcast for each layer, in every training step
# A *root solver* is a training program in which one rank, the root, does the update. It collects
# the [gradients](../labs/GLOSSARY.md#gradient) of all ranks, updates the parameters, and broadcasts them with one message for each
# layer. S-Caffe (Awan et al., 2017), a version of the framework Caffe for many GPUs, was such a
# program.
#
# Its authors made these broadcasts fast in [MVAPICH2-GDR](https://mvapich.cse.ohio-state.edu/userguide/gdr/), the [MPI](../labs/GLOSSARY.md#MPI) (Message Passing
# Interface) library for GPUs of Ohio State University.
#
# GDR is short for [GPUDirect RDMA](../labs/GLOSSARY.md#GPUDirect-RDMA) (remote direct memory access), with which a [NIC](../labs/GLOSSARY.md#NIC) (network interface
# card) reads and writes the memory of a GPU.
#
# How long are the messages of such a program? The next cell prints the size of each layer's
# parameters in VGG-16. The largest layer is fc6, the first fully connected one.

# %%
# Bytes, float32.
layers = nets.layer_table(net).query("parameters > 0").set_index("layer").parameters * 4
print(f"{net}, MB:", ", ".join(f"{layer} {nbytes / 1e6:.3g}" for layer, nbytes in layers.items()))


# %% [markdown]
# ## Scatter, then allgather
# This lab uses these symbols and terms:
#
# - p is the number of ranks.
# - α is the time per message and β the time per byte, so a message of n bytes takes α + nβ seconds
#   ([lab 22](22_latency_and_bandwidth.ipynb)).
# - In a *step* of an algorithm a rank sends and receives at most one message.
# - A *training step* processes one batch.
#
# The tree from [lab 21](21_collectives.ipynb), `tree_broadcast(comm, vector, root)`, sends the whole vector ⌈log₂ p⌉ times,
# one after another. With 128 ranks it sends the 411 MB of layer fc6 seven times in a row, although
# a rank needs only the time nβ to *receive* n bytes. The tree is slow because each rank waits for
# the whole vector before it sends anything.
#
# The first improvement cuts the vector into p chunks, and has two phases:
#
# - **Scatter.** The root keeps chunk 0 and sends one chunk to each other rank.
# - **Allgather.** All ranks pass chunks around a ring, as in [lab 21](21_collectives.ipynb). Each rank begins with its own
#   chunk and passes on to the right what has just arrived from the left.
#
# This is known as van de Geijn's algorithm, and MPI libraries use it for long vectors. (They often
# scatter along a tree. Here the root sends every chunk itself, which takes more messages, but no
# more bytes.)
#
# With four ranks the scatter takes 3 messages of a quarter vector and the ring 3 more, as in the
# figure above. If we neglect α, the times are
#
# | ranks | tree | scatter-allgather |
# |---|---|---|
# | 4 | 2 nβ | 1.5 nβ |
# | p | ⌈log₂ p⌉ nβ | 2(p − 1)/p nβ, always less than 2 nβ |
#
# The next table follows the chunks 0, 1 and 2 on three ranks, with root 1. The variable `me` is a
# rank's number counted from the root. In the ring, 0 → 2 means that the rank sends chunk 0 and
# receives chunk 2:
#
# | | rank 1, the root (`me` 0) | rank 2 (`me` 1) | rank 0 (`me` 2) |
# |---|---|---|---|
# | scatter | sends chunks 1 and 2 | receives chunk 1 | receives chunk 2 |
# | ring, i = 0 | 0 → 2 | 1 → 0 | 2 → 1 |
# | ring, i = 1 | 2 → 1 | 0 → 2 | 1 → 0 |
#
# In each line of the ring a rank sends the chunk that it received in the line above. The root,
# which has all chunks from the start, begins with chunk 0 and takes part in the ring like any other
# rank.
#
# ### Exercise 25.1 · Scatter, then allgather
# Write `scatter_allgather` for any root, any number of ranks, and vectors of any length and type.
# This takes about 9 lines. *(intermediate)*
#
# - Use `Send`, `Recv` and `Sendrecv`.
# - The root sends chunk i directly to the rank whose `me` is i.
# - The given lines cut `vector` into `chunks`, which are views, so receiving into `chunks[i]`
#   writes into `vector`.
#
# <details><summary>Hint 1: scatter</summary>
#
# The root (`me == 0`) sends `chunks[i]` to rank `(root + i) % comm.size`. The other ranks receive
# `chunks[me]` from `root`.
# </details>
# <details><summary>Hint 2: allgather, nearly the answer</summary>
#
# Call `comm.Sendrecv(chunks[(me - i) % comm.size], dest=right, recvbuf=…, source=left)` p - 1
# times, with i from 0. The number of the chunk that arrives is one lower, so it is
# `chunks[(me - i - 1) % comm.size]`.
# </details>

# %%
def scatter_allgather(comm, vector, root):
    """Copy root's `vector` into every rank's."""
    chunks = np.array_split(vector, comm.size)
    me = (comm.rank - root) % comm.size
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    raise NotImplementedError("exercise 25.1: Scatter, then allgather")


# %%
# Asked: The vector arrives for any root, number of ranks and length, with at
# most 2(p - 1)/p vectors sent by a rank, and in 2(p - 1) steps.
check("25.1", scatter_allgather)

# %% [markdown]
# ## The pipelined chain
# In a *chain* each rank passes on to its right neighbor what it has received from its left
# neighbor. This is slow for a vector in one piece, which travels to 8 ranks over 7 links one after
# another and takes 7 nβ. If the vector is cut into k chunks, however, a rank can send the first
# chunk *while* it receives the second, so many links work at the same time.
#
# The last rank receives its first chunk in step p − 1, and the other k − 1 chunks in the steps
# after that, one in each. Together these are p − 2 + k steps. Each step moves n/k bytes, so the
# chain takes
#
# **T(k) = (p − 2 + k)(α + nβ/k)**
#
# With 8 ranks and 8 chunks, for example, 14 steps of an eighth take 1.75 nβ if we neglect α.
#
# The next table shows a smaller case, three ranks with three chunks, in 3 − 2 + 3 = 4 steps:
#
# | step | rank 0, the root | rank 1 | rank 2, the last |
# |---|---|---|---|
# | 1 | sends chunk 0 | receives 0 | |
# | 2 | sends 1 | sends 0 and receives 1 | receives 0 |
# | 3 | sends 2 | sends 1 and receives 2 | receives 1 |
# | 4 | | sends 2 | receives 2 |
#
# ### Predict
# How many nβ does a chain of 64 chunks take with 64 ranks, if we neglect α? And how many nβ does
# the tree take? The check for the next exercise compares your answers with a run.

# %%
predict("25.2", chain=..., tree=...)


# %% [markdown]
# ### Exercise 25.2 · The pipelined chain
# Write the chain that MVAPICH2-GDR uses for GPUs (Awan et al., 2018). This takes about 5 lines.
# *(intermediate)*
#
# - Cut `vector` into `count` chunks (k in the formula) of nearly equal length. If `count` is
#   greater than the length of the vector, some chunks are empty.
# - Pass each chunk on to `right` while the next one arrives from `left`.
# - At the ends of the chain `left` or `right` is `PROC_NULL`. A send to `PROC_NULL` and a receive
#   from it do nothing, so all ranks can make the same calls.
#
# <details><summary>Hint 1: what must overlap</summary>
#
# With `Recv`, `Send`, `Recv`, `Send` a rank can wait in `Send` until its receiver has the whole
# chunk, and receives nothing in the meantime. A `Sendrecv` sends one chunk and receives the next
# one at the same time.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Cut with `np.array_split(vector, count)`, and receive the first chunk. For each pair `old, new` of
# neighboring chunks in `zip(chunks, chunks[1:])`, call
# `comm.Sendrecv(old, dest=right, recvbuf=new, source=left)`. At the end send the last chunk.
# </details>

# %%
def chain(comm, vector, root, count):
    """Copy root's `vector` into every rank's: `count` chunks, passed from neighbour to
    neighbour."""
    from mpi4py import MPI

    left = MPI.PROC_NULL if comm.rank == root else (comm.rank - 1) % comm.size
    right = MPI.PROC_NULL if (comm.rank + 1) % comm.size == root else (comm.rank + 1) % comm.size
    raise NotImplementedError("exercise 25.2: The pipelined chain")


# %%
# Asked: The vector arrives for any root, with one vector sent by a rank, in
# count messages and no more steps than p - 2 + count, and on real ranks, too.
check("25.2", chain)

# %% [markdown]
# ### Measure: the pipeline fills and drains
# Now 8 chunks are broadcast to 8 ranks on the **virtual cluster**, the simulator that [lab 23](23_ring_allreduce.ipynb)
# introduced. Here all of its links are alike (10 GB/s), and every send waits for its receive, as
# long messages do.
#
# In the plot each thin bar is one chunk that a rank sends, and a step takes about 0.1 ms. Look for
# the last bar of rank 6, after which rank 7 has all chunks.
#
# The lines below the plot give the time to send 1 GB to 64 ranks, as a multiple of nβ.

# %%
run = virtual.Cluster(8, machine=lab25.STRICT).run(chain, np.zeros(10**6), 0, 8, trace=True)
plots.timeline(run, title="8 chunks to 8 ranks: a staircase")
for name, way in (("tree", tree_broadcast), ("scatter-allgather", scatter_allgather)):
    print(f"To 64 ranks: {name} {lab25.times_n_beta(way, 64):.2f} nβ")
for count in (1, 64, 640):
    print(f"chain of {count} chunks: {lab25.times_n_beta(chain, 64, count):.2f} nβ")


# %% [markdown]
# **Explain.** Rank 0 sends in steps 1 to 8, rank 1 in steps 2 to 9, and so on. Rank 6 sends the
# last chunk to rank 7 in step 14, which is p − 2 + k = 8 − 2 + 8. In the middle of the plot nearly
# all links work at the same time.
#
# The printed lines should be close to the formulas without α:
#
# | to 64 ranks | time, in nβ |
# |---|---|
# | tree | log₂ 64 = 6 |
# | scatter-allgather | 2 · 63/64 = 1.97 |
# | chain of 1 chunk | (64 − 2 + 1)/1 = 63 |
# | chain of 64 chunks | (64 − 2 + 64)/64 = 1.97 |
# | chain of 640 chunks | (64 − 2 + 640)/640 = 1.1 |
#
# With 64 chunks the chain is thus as good as scatter-allgather, and with more chunks it approaches
# nβ.
#
# ## Into how many chunks?
# The more chunks there are, the sooner all links work at the same time, but each chunk is one more
# message and costs α. Somewhere in between is the best number of chunks. The table shows this for 8
# ranks and a vector for which nβ is 100 α:
#
# | chunks k | T(k) = steps · time of a step |
# |---|---|
# | 1 | 7 · 101 α = 707 α |
# | 20 | 26 · 6 α = 156 α |
# | 100 | 106 · 2 α = 212 α |
#
# ### Exercise 25.3 · The best number of chunks
# Write `best_chunks`, which returns the k with the smallest T(k) as a whole number. With one or two
# ranks the result is 1, because no rank passes anything on. This takes 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: which terms depend on k?</summary>
#
# Multiply out T(k). The term kα grows with k, the term (p − 2)nβ/k falls, and the other terms do
# not depend on k. At the minimum the derivative is 0, so α = (p − 2)nβ/k².
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Return `max(1, round(sqrt(…)))` of (p − 2)nβ/α, and 1 if `ranks < 3`.
# </details>

# %%
def best_chunks(nbytes, ranks, alpha, beta):
    """Into how many chunks a chain cuts nbytes. alpha: seconds per message. beta: seconds per
    byte."""
    raise NotImplementedError("exercise 25.3: The best number of chunks")


# %%
# Asked: The answer is a whole number, at most one off the best of 1 to 5,000 by
# the formula, and 1 where that is the best.
check("25.3", best_chunks)

# %% [markdown]
# ### Measure: how much does the best k matter?
# The vector is a layer of VGG-16 with 9.4 MB, which is broadcast to 64 ranks of the same virtual
# cluster. The plot has points for your best k, for twice as many chunks, and for 1/2, 1/4, 1/8,
# 1/16 and 1/32 as many. One curve is the formula T(k), and the other shows runs of your chain.

# %%
curves = lab25.chain_by_chunks(chain, best_chunks, nbytes=float(sorted(layers)[len(layers) // 2]))
plots.lines(
    curves, xlabel="chunks", ylabel="ms", title="To 64 ranks: the minimum is wide", logx=True
)
measured = curves["your chain"]
print(f"Your chain is fastest with {min(measured, key=measured.get)} chunks.")

# %% [markdown]
# **Explain.** You should see the runs of your chain on the curve of T(k). The minimum is wide, so
# half or twice the best k costs only 10 % more time. With very few chunks each step is long, and
# 1/32 of the best k takes about seven times as long as the best.
#
# ## Two levels
# So far, all links have been equal. In a cluster of nodes with several GPUs, the links inside a
# node differ from those between nodes. A broadcast can then be *hierarchical*, which means that it
# first goes from node to node and then to all ranks inside each node.
#
# The given `lab25.two_level` is such a broadcast. Each rank has two [communicators](../labs/GLOSSARY.md#communicator) for it ([lab 26](26_hierarchical_allreduce.ipynb)
# builds them):
#
# - `across` contains the ranks that have the same place in their nodes. The vector is first sent by
#   the tree in the root's `across`.
# - `node` contains the ranks of one node. There the vector is sent by a broadcast that you can
#   choose.
#
# With 8 ranks, 4 on each node, and root 6:
#
# | rank | its `node` | its `across` | receives the vector |
# |---|---|---|---|
# | 6 | 4, 5, 6, 7 | 2, 6 | is the root |
# | 2 | 0, 1, 2, 3 | 2, 6 | first, by the tree in `across` |
# | 4, 5, 7 | 4, 5, 6, 7 | not used | then, from rank 6 in `node` |
# | 0, 1, 3 | 0, 1, 2, 3 | not used | then, from rank 2 in `node` |
#
# ### Measure: which broadcast is fastest at which size?
# The next cell prints the machine on which we compare the broadcasts, a model of nodes with 16 K80
# GPUs. Its third column says whether a number was published, computed or estimated.
#
# - The lines that begin with *inside* and *between* are the links inside a node and between nodes.
# - The lines *ranks_per_node* and *nics* say that the 16 ranks of a node share 2 NICs. Each rank
#   always uses the same one of them, and messages that leave through one NIC at the same time share
#   its [bandwidth](../labs/GLOSSARY.md#bandwidth).

# %%
machine = virtual.machine(where)
print(machine)

# %% [markdown]
# We compare five broadcasts, under these names:
#
# | | name | broadcast |
# |---|---|---|
# | 1 | *tree* | the tree over all ranks |
# | 2 | *scatter-allgather* | exercise 25.1 over all ranks |
# | 3 | *chain* | exercise 25.2 over all ranks, with your best k, at most 256 |
# | 4 | *two-level* | two levels with the chain inside |
# | 5 | *with NCCL* | two levels with a ring of NCCL inside |
#
# [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html) is the NVIDIA [Collective](../labs/GLOSSARY.md#collective) Communications Library. Row 5 stands for an earlier design
# of MVAPICH2-GDR, which used [NCCL](../labs/GLOSSARY.md#NCCL) inside each node.
#
# <details><summary>How we model NCCL, and the α and β from which the best k is computed</summary>
#
# MPI's long messages wait until their receiver is ready, which we call a handshake (*[rendezvous](../labs/GLOSSARY.md#rendezvous)* in
# [lab 20](20_ranks_and_messages.ipynb)). NCCL's ring is modeled as your chain, with three differences:
#
# - It has no handshake.
# - Its chunks have 256 KiB, or more above 64 MiB. (No chain here has more than 256 chunks, to keep
#   the simulation short.)
# - It takes 8.4 µs to start (from NCCL's tuning model in `src/graph/tuning.cc`).
#
# The links differ, but `best_chunks` takes one α and one β:
#
# - Most links are inside nodes, so we take α from there, with the handshake.
# - The slowest link limits a pipeline, so we take β between nodes.
# </details>
#
# ### Predict
# Which of the five is the fastest way to broadcast 1 KiB to 128 ranks, and which is the fastest for
# 256 MiB? Use the numbers 1 to 5 from the table above.

# %%
predict("25.4", for_1_KiB=..., for_256_MiB=...)

# %% [markdown]
# The next cell runs all five ways for all sizes, on 16 to 128 ranks, and compares your prediction
# with the result. The dictionary `best` then contains, for each size, the fastest way to broadcast
# to 128 ranks, as size -> name. This takes about half a minute.

# %%
ways = lab25.Ways(scatter_allgather, chain, best_chunks, most_chunks, nccl_start)
table = ways.table(machine, sizes, many)
best = {n: min(table, key=lambda way, n=n: table[way][n, many]) for n in sizes}
places = {way: place for place, way in enumerate(table, start=1)}
predict.right("25.4", for_1_KiB=places[best[sizes[0]]], for_256_MiB=places[best[sizes[-1]]])

# %% [markdown]
# The next cell draws the result in two plots:
#
# - *A map.* Each field is one size (x; each is four times the one to its left) and one number of
#   ranks (y). Its color and letters show which way is the fastest, as listed in the legend.
# - *The time (left) and the bandwidth (right)* of each way of broadcasting to 128 ranks, the top
#   row of the map. The bandwidth is the size of the vector divided by the time of the whole
#   broadcast.

# %%
plots.crossover(table, title=f"The fastest broadcast on {where}")
curves = {way: {n: row[n, many] for n in sizes} for way, row in table.items()}
plots.bandwidth(curves, title=f"Broadcast to {many} ranks of {where}, on the virtual cluster")


# %% [markdown]
# **Explain.** Read the top row of the map from left to right. For short vectors the tree is
# fastest, because the number of messages that follow one another determines the time:
#
# | way | messages one after another for a short vector |
# |---|---|
# | tree | 7 |
# | two-level, with NCCL | 3 between the 8 nodes + 15 inside a node = 18 |
# | chain | 127 |
# | scatter-allgather | 1 for the scatter + 127 around the ring = 128 |
#
# The scatter counts as one message, because the root sends its short messages without waiting, so
# they travel at the same time.
#
# For the longest vectors the chain is fastest, because each link carries the vector only once and
# nearly all links work at the same time. In between, other ways are fastest.
#
# The tree has only about 0.24 GB/s for long vectors, because the ranks of a node share its NICs.
# The first optional part at the end shows how.
#
# ### Exercise 25.4 · A broadcast for each layer
# The layers of VGG-16 have between 7 kB and 411 MB, so no single way is the fastest for all of
# them. Write `pick(nbytes)`, which returns the name of the way in which to broadcast `nbytes` bytes
# to `many` ranks. Use the entry of the dictionary `best` whose size is nearest to `nbytes` by
# ratio. This takes 2 lines. *(beginner)*
#
# For example, the sizes around 3 MB are 1 MiB and 4 MiB, which differ from it by factors of 2.9 and
# 1.4, so take the entry of 4 MiB.
#
# <details><summary>Hint 1: nearest by ratio</summary>
#
# The distance between two sizes by ratio is `abs(log(size / nbytes))`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min(best, key=lambda size: …)` is the nearest size, and `best[…]` is its way.
# </details>

# %%
def pick(nbytes):
    """The name of the way, by the table `best`."""
    raise NotImplementedError("exercise 25.4: A broadcast for each layer")


# %%
# Asked: At a size of the table you pick its way, between two sizes the way of
# the nearer one by ratio, and beyond an end the end's.
check("25.4", pick)

# %% [markdown]
# ### Measure: a training step of VGG-16
# The next cell adds up the time of all 16 broadcasts of a training step, first with one way for all
# layers, and then with a way picked for each layer. This takes about 10 s.
#
# In the plot, each bar is the sum for one way, and its lower part is the time of the longest layer
# alone. The lines below it say for how many layers each way was picked, and compare the picked ways
# with the best single way and two others.

# %%
seconds = partial(ways.seconds, ranks=many, machine=machine)
parts = lab25.training_step(dict(layers), seconds, pick)
bars = {way.replace(" ", "\n").replace("-", "-\n"): times for way, times in parts.items()}
title = f"{net} to {many} ranks of {where}, the longest layer apart"
plots.bars(bars, ylabel="ms a training step", title=title)
whole = {way: sum(times.values()) for way, times in parts.items()}
single = min(table, key=whole.get)
print("Layers by picked way:", dict(Counter(pick(nbytes) for nbytes in layers)))
for way in ("picked", single, "with NCCL", "tree"):
    print(f"{way}: {whole[way]:.1f} ms a step")

# %% [markdown]
# **Explain.** Layer fc6 has three quarters of the bytes and takes more than half of each sum. The
# tree takes 2.3 s, mostly because of the shared NICs.
#
# You should see that picking a way for each layer is only a little better than the chain for all
# layers. The eight longest layers are sent by the chain in both cases, and only the other eight
# gain:
#
# | layers | bytes | chain for all | picked |
# |---|---|---|---|
# | the eight longest | 98 % | 147 ms | 147 ms |
# | the other eight | 2 % | 22 ms | 9.5 ms |
# | all 16 | 100 % | 169 ms | 157 ms |
#
# What is this worth in training? We compare the broadcasts with the computation of a GPU in a step:
#
# - A forward and a [backward pass](../labs/GLOSSARY.md#backward-pass) need about 93 · 10⁹ operations for each image.
# - Each GPU has 32 images in a step, which is our guess.
# - A K80 does 1.3 · 10¹² operations per second in training ([lab 32](32_buckets_and_overlap.ipynb)).
#
# The computation then takes 32 · 93 · 10⁹ / (1.3 · 10¹²) = 2.3 s:
#
# | broadcast | computation | broadcasts | step | share of the broadcasts |
# |---|---|---|---|---|
# | tree | 2.3 s | 2.3 s | 4.6 s | 50 % |
# | with NCCL | 2.3 s | 0.32 s | 2.6 s | 12 % |
# | picked | 2.3 s | 0.16 s | 2.5 s | 6 % |
#
# Compared with NCCL inside the nodes, the picked ways shorten this step by 0.16 s of 2.6 s, which
# is a gain of 6 %. (The 6 % in the table is another quantity, the share of the picked ways.) This
# result has two limits:
#
# - With half as many images as we guessed, the gain would be 11 %.
# - The table leaves out that the root also collects the gradients, and that S-Caffe hides a part of
#   the broadcasts behind the [forward pass](../labs/GLOSSARY.md#forward-pass) ([lab 32](32_buckets_and_overlap.ipynb)). Both make the broadcasts' share of a real step
#   smaller.
#
# ### What you take away
# - No broadcast takes less than nβ. For long vectors and equal links, the tree takes ⌈log₂ p⌉ times
#   as much, scatter-allgather twice as much, and a chain of many chunks little more than nβ.
# - Chunks cost messages, (p − 2 + k)α in all. The best k is √((p − 2)nβ/α), and a factor of two in
#   k costs little.
# - For short vectors the number of messages that follow one another determines the time, and for
#   long vectors the number of bytes. A network has both kinds of layer, so the size decides which
#   broadcast to choose.
#
# [Lab 26](26_hierarchical_allreduce.ipynb) builds an allreduce with two levels, and [lab 32](32_buckets_and_overlap.ipynb) hides messages behind computation.
#
# ## Going further (optional): why is the tree so slow for long vectors? (5 minutes)
# The tree has only about 0.24 GB/s for long vectors, although a link between nodes has 6.39 GB/s.
# Its seven steps explain a factor of about 7, but not of 27.
#
# A possible cause is that the 16 ranks of a node share two NICs. The next cell therefore repeats
# the tree's largest broadcast, first with two NICs in a node and then, as a control, with 16.

# %%
for nics in (machine.nics, machine.ranks_per_node):
    time = lab25.tree_time(machine.but(nics=nics), sizes[-1], many)
    print(f"The tree with {nics:2} NICs in a node: {time:.2f} s for {sizes[-1]:,} bytes")

# %% [markdown]
# **Explain.** The shared NICs are the cause, because with 16 of them the tree takes about 0.22 s
# instead of 1.1 s.
#
# In the tree's seven steps, a rank that has the vector sends it to the rank that is 1, 2, 4, 8, 16,
# 32 and 64 further on (with root 0). The ranks of a node are 16 consecutive numbers, so only the
# first four steps stay inside a node. By arithmetic, a broadcast of 268 MB takes
#
# | steps of the tree | messages | whole vectors, one after another | time |
# |---|---|---|---|
# | 1 to 4 | inside the first node, at 11 GB/s | 1 in each step, together 4 | 0.1 s |
# | 5 to 7 | all 16 ranks of a node send to another node, 8 of them through each NIC, at 6.39 GB/s | 8 in each step, together 24 | 1.0 s |
#
# The sum is 1.1 s, as printed. In the training step, 24 times the 553 MB of all layers take 2.1 of
# the tree's 2.3 s.
#
# The chain and the two levels don't have this problem, because only one rank of each node sends to
# other nodes. Where the ranks of a node share NICs, count the vectors that pass through one NIC.
#
# ## Going further (optional): how sure is this result? (4 minutes)
# The machine model contains estimates, and we want to know whether the result depends on them. The
# next cell changes one number at a time. It prints the fastest way to 128 ranks for three sizes,
# and NCCL's time divided by the time of the fastest way. This takes about 20 s.

# %%
fast = machine.inside
changes = {
    "as it is": (machine, nccl_start),
    "bandwidth inside x 2": (
        machine.but(inside=virtual.Link(fast.latency, 2 * fast.bandwidth)),
        nccl_start,
    ),
    "NICs x 2": (machine.but(nics=2 * machine.nics), nccl_start),
    "NCCL starts at once": (machine, 0.0),
}
for name, (changed, start) in changes.items():
    for n in (sizes[0], sizes[len(sizes) // 2], sizes[-1]):
        times = ways.seconds(n, many, changed, start)
        winner = min(times, key=times.get)
        longer = times["with NCCL"] / times[winner]
        print(f"{name:22}{n:>12,} bytes: {winner:17} NCCL takes {longer:.1f} times as long")


# %% [markdown]
# **Explain.** For 1 KiB the tree is fastest in all four cases, and for 256 MiB the chain is, so
# these results do not depend on the changed numbers.
#
# For 1 MiB the fastest way does depend on them. With twice the bandwidth inside a node, it is *with
# NCCL* instead of scatter-allgather, so only a measurement on the real machine can decide.
#
# ## Going further (optional): real ranks (4 minutes)
# The next cell runs three of our broadcasts and MPI's own `Bcast` on real ranks of this machine,
# which takes about half a minute. The chain has four chunks. Bars at the points show the
# [interquartile range](../labs/GLOSSARY.md#interquartile-range).

# %%
def compare(comm):
    ways = {
        "tree": tree_broadcast,
        "scatter-allgather": scatter_allgather,
        "chain": partial(chain, count=4),
        "MPI": type(comm).Bcast,
    }
    rows = {}
    for nbytes in sizes_here:
        vector = np.zeros(nbytes, np.uint8)
        # Across ranks: the slowest counts.
        calls = {name: partial(way, comm, vector, 0) for name, way in ways.items()}
        rows[nbytes] = timing.in_turns(calls, comm=comm)
    return rows


ranks = launch.ranks_here(4)
real = launch.run(compare, ranks=ranks)[0]
curves = {way: {n: row[way] for n, row in real.items()} for way in real[sizes_here[0]]}
plots.bandwidth(
    curves, title=f"{ranks} real ranks on {world.cores()} cores: does cutting pay here?"
)
for way, row in curves.items():
    for n, time in row.items():
        record.add("broadcast", way=way, ranks=ranks, bytes=n, seconds=time, **record.BY_MPI)

# %% [markdown]
# **Explain.** You should see that cutting the vector does not help for short messages, because each
# chunk is one more message. For 16 MiB the ways that cut the vector might be faster, because four
# chunks to four ranks take 1.5 nβ and the tree takes 2 nβ. Long bars mean that ranks also wait for
# a core, and then the plot does not tell you which way is faster.
#
# MPI's own `Bcast` might be faster than the three others at all sizes. A likely cause, not measured
# here, is that ours call MPI from Python for each message.
#
# ## Going further (optional): what was published (2 minutes)
# The authors of the chain measured a gain of up to 7 % for VGG on 128 GPUs, in Microsoft's
# framework CNTK (Awan et al., 2018). Our 6 % are close to it, but do not trust this agreement too
# much, because our number depends on the 32 images that we guessed.
#
# These are further gains, all measured on GPUs. "Up to" mostly refers to short messages, while
# training spends most of its broadcast time on long ones.
#
# | broadcast | compared with | gain | source |
# |---|---|---|---|
# | chain, inside a node | NCCL-based | up to 14 times | Awan, 2018 |
# | chain, between nodes | NCCL-based | up to 16.6 times | Awan, 2018 |
# | chain, up to middle sizes | NCCL 2's own broadcast | up to 10 times | Awan, 2019 |
# | InfiniBand's multicast | the best earlier broadcast | 68 % shorter; CNTK 24 % | Chu, poster at SC17 |
# | NCCL-based | not stated | up to 2 times; VGG in CNTK 38 % | a poster, probably Awan's at SC17; in no paper that we found |
#
# ### Further reading
# - A. Awan, C. Chu, H. Subramoni and D. Panda, *[Optimized Broadcast for Deep Learning Workloads on Dense-GPU InfiniBand Clusters: MPI or NCCL?](https://arxiv.org/abs/1707.09414)*, EuroMPI, 2018. The pipelined chain, and the comparison with NCCL on up to 128 GPUs.
# - A. Awan et al., *[Optimized large-message broadcast for deep learning workloads: MPI, MPI+NCCL, or NCCL2?](https://doi.org/10.1016/j.parco.2019.03.005)*, Parallel Computing 85, 2019. The same question again, with NCCL 2.
# - A. Awan, K. Hamidouche, J. Hashmi and D. Panda, *[S-Caffe: Co-designing MPI Runtimes and Caffe for Scalable Deep Learning on Modern GPU Clusters](https://doi.org/10.1145/3018743.3018769)*, PPoPP, 2017. S-Caffe, a root solver with broadcasts for each layer.
# - C. Chu et al., *[Efficient and Scalable Multi-Source Streaming Broadcast on GPU Clusters for Deep Learning](https://doi.org/10.1109/ICPP.2017.25)*, ICPP, 2017. Broadcasts with the multicast of InfiniBand.
# - E. Chan, M. Heimlich, A. Purkayastha and R. van de Geijn, *[Collective communication: theory, practice, and experience](https://doi.org/10.1002/cpe.1206)*, Concurrency and Computation 19(13), 2007. Cost formulas and lower bounds for scatter-allgather and other collectives.
# - [MVAPICH2-GDR User Guide](https://mvapich.cse.ohio-state.edu/userguide/gdr/). The user guide of MVAPICH2-GDR.
