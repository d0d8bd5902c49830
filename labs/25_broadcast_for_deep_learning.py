# %% [markdown]
# <!-- Generated from solutions/25_broadcast_for_deep_learning.py by `make labs`. Learners work on a copy in work/. -->
# # 25 Broadcast for deep learning
#
# Some trainers send all parameters from one rank to everybody, in every step. You build the
# broadcasts that made this bearable, up to the pipelined chain of MVAPICH2-GDR, and find out which
# wins at which size.
#
# **You will be able to** (1) build scatter-allgather and a pipelined chain, (2) say from α and β
# into how many chunks to cut, (3) pick a broadcast for each layer of a net.
#
# Needs: mpi · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 21, 22, 23

# %%
from functools import partial
from math import ceil, inf, log, sqrt
from operator import itemgetter

import numpy as np
import virtual
from labkit import check, hint, lab, launch, nets, plots, predict, record, timing, world
from labkit.collectives import tree_broadcast
from labkit.scaling import costs
from support import lab25

lab.start("25_broadcast_for_deep_learning")

# %% tags=["parameters"]
net = "vgg16"  # whose layers are sent: a name of nets.layer_table
where = "k80_fdr"  # the virtual cluster's machine
many = 128  # ranks of it
# Bytes there.
sizes = (1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456)
most_chunks = 256  # of a chain there; more take long to run
images = 32  # images of each GPU in a step of training
flops = 1.3e12  # floating-point operations a second of a K80 GPU in training (where from: lab 32)
nccl_start = 8.4e-6  # seconds to start a call of NCCL 2 (ring, Simple protocol)
sizes_here = (4096, 65536, 1048576, 16777216)  # bytes per broadcast on real ranks

# %% [markdown]
# ### A broadcast for each layer, in every step
# Before allreduce became the rule, many trainers had one rank that did the update. Such a *root
# solver* collects the gradients of all ranks, updates the parameters, and sends them to everybody,
# a message for each layer. S-Caffe, a training program for many GPUs, worked so. That is a
# broadcast for each layer, in every step. MVAPICH2-GDR is an MPI library for GPUs; its authors made
# these broadcasts fast.
#
# Below there are p ranks, and messages of n bytes that take α + nβ ([lab 22](22_latency_and_bandwidth.ipynb)).

# %%
# Bytes, float32.
layers = nets.layer_table(net).query("parameters > 0").set_index("layer").parameters * 4
print(f"{net}, MB:", ", ".join(f"{layer} {nbytes / 1e6:.3g}" for layer, nbytes in layers.items()))


# %% [markdown]
# [Lab 21](21_collectives.ipynb)'s tree, `tree_broadcast(comm, vector, root)`, sends the whole vector ⌈lg p⌉ times (lg: the
# logarithm to base 2), one after another: to 64 ranks, the 411 MB of layer fc6 six times. But to
# *receive* n bytes takes nβ, once. So cut the vector in p chunks. The root **scatters** them, one
# to each rank. Then all **allgather** them round a ring, as in [lab 21](21_collectives.ipynb): each begins with its own
# chunk, and passes on to the right what came last from the left. MPI libraries do so for long
# vectors (van de Geijn's broadcast), with a tree for the scatter.
#
# ### Exercise 25.1 · Scatter, then allgather
# For any root, number of ranks and length. `me` counts from the root, and chunk i goes to the rank
# whose `me` is i, straight from the root. Chunks are views: what is received into `chunks[i]` is in
# `vector`. About 9 lines. *(intermediate)*
#
# <details><summary>Hint 1: scatter</summary>
#
# The root (`me == 0`) sends `chunks[i]` to `(root + i) % comm.size`; others receive `chunks[me]`
# from `root`.
# </details>
# <details><summary>Hint 2: allgather, nearly the answer</summary>
#
# p - 1 times, i from 0:
# `comm.Sendrecv(chunks[(me - i) % comm.size], dest=right, recvbuf=…, source=left)`, and what comes
# is the chunk before: `chunks[(me - i - 1) % comm.size]`.
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
# most 2(p - 1)/p vectors sent by a rank.
check("25.1", scatter_allgather)

# %% [markdown]
# ### Predict
# In a *chain* each rank passes on to its right what comes from the left. In one piece, 64 ranks
# take 63 nβ. But of k chunks, a rank can send the first *while* it receives the second. The last
# rank gets its first chunk in round p - 1, then one each round: **T(k) = (p - 2 + k)(α + nβ/k)**.
# To 64 ranks, without α, how many nβ do 64 chunks take, how many the tree?

# %%
predict("25.2", chain=..., tree=...)


# %% [markdown]
# ### Exercise 25.2 · The pipelined chain
# MVAPICH2-GDR's design for GPUs (Awan et al. 2017, arXiv 1707.09414): cut `vector` into `count`
# chunks, pass each on to `right` while the next comes from `left`. These are `PROC_NULL` at the
# chain's ends, so all ranks make the same calls: a send to `PROC_NULL` and a receive from it do
# nothing. Some chunks are empty if `count` exceeds the length. About 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: what must overlap</summary>
#
# In `Recv`, `Send`, `Recv`, `Send` a rank waits in `Send` until its receiver has it all, and
# receives nothing meanwhile. One `Sendrecv` sends the chunk that is there and receives the next.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.array_split(vector, count)`. Receive the first chunk; for all neighbours `old, new` in
# `zip(chunks, chunks[1:])`: `comm.Sendrecv(old, dest=right, recvbuf=new, source=left)`; send the
# last.
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
# Asked: The vector arrives for any root, with one vector sent by a rank, in no
# more rounds than p - 2 + count, and on real ranks, too.
check("25.2", chain)

# %% [markdown]
# ### Measure: the pipeline fills and drains
# 8 chunks to 8 ranks on the virtual cluster. Each dark bar is one chunk that leaves. After how many
# rounds has rank 7 all chunks? Below it, the time of 1 GB to 64 ranks, as a multiple of nβ.

# %%
run = virtual.Cluster(8, machine=lab25.STRICT).run(chain, np.zeros(10**6), 0, 8, trace=True)
plots.timeline(run, title="8 chunks to 8 ranks: a staircase")
for name, way in (("tree", tree_broadcast), ("scatter-allgather", scatter_allgather)):
    print(f"To 64 ranks: {name} {lab25.times_n_beta(way, 64):.2f} nβ")
for count in (1, 64, 640):
    print(f"chain of {count} chunks: {lab25.times_n_beta(chain, 64, count):.2f} nβ")


# %% [markdown]
# **Explain.** Rank 0 sends in rounds 1 to 8, rank 1 in rounds 2 to 9, and so on. Rank 6 sends the
# last chunk to rank 7 in round 14. That is p - 2 + k = 8 - 2 + 8. In the middle nearly all links
# work at the same time. You should see that p chunks make the chain as good as scatter-allgather,
# about 2 nβ, and that more chunks bring it near nβ.
#
# ### Exercise 25.3 · The best number of chunks
# Write `best_chunks`: the k with the least T(k), as a whole number. It is 1 where there are one or
# two ranks, as they pass nothing on. 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: which terms depend on k?</summary>
#
# kα, which grows, and (p - 2)nβ/k, which falls. At the minimum the derivative is 0: α = (p -
# 2)nβ/k².
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `max(1, round(sqrt(…)))` of (p - 2)nβ/α; and 1 if `ranks < 3`.
# </details>

# %%
def best_chunks(nbytes, ranks, alpha, beta):
    """Into how many chunks a chain cuts nbytes. alpha: seconds per message. beta: seconds per
    byte."""
    raise NotImplementedError("exercise 25.3: The best number of chunks")


# %%
# Asked: The answer is a whole number, at most one off the best of 1 to 5,000 by
# the formula.
check("25.3", best_chunks)

# %% [markdown]
# ### Measure: how much does the best k matter?
# A layer of VGG-16, 9.4 MB, to 64 ranks: your chain and T(k), with the best k, half of it, twice as
# many.

# %%
layer = (float(sorted(layers)[len(layers) // 2]), 64, lab25.ALPHA, lab25.BETA)
tried = sorted(
    {max(1, round(best_chunks(*layer) * 2**step)) for step in (-5, -4, -3, -2, -1, 0, 1)}
)
cluster = virtual.Cluster(64, machine=lab25.STRICT)
vector = virtual.vector(np.zeros(1 << 14), stands_for=layer[0])
formula = {count: 1e3 * costs.chain_broadcast_time(*layer, count) for count in tried}
measured = {count: 1e3 * cluster.run(chain, vector, 0, count).time for count in tried}
curves = {"T(k)": formula, "your chain": measured}
plots.lines(
    curves, xlabel="chunks", ylabel="ms", title="To 64 ranks: the bottom is wide", logx=True
)
print(f"Your chain is fastest with {min(measured, key=measured.get)} chunks.")


# %% [markdown]
# **Explain.** You should see runs of your chain on the line of T(k). The bottom is wide: half or
# twice the best k costs little. Far left a chunk is long, and the last rank waits for it 62 times.
# Far right the many α count.
#
# ### Two levels
# On nodes with several GPUs one can broadcast in two steps: between nodes, then inside each. An
# earlier design of MVAPICH2-GDR did so: MPI's tree between nodes, NVIDIA's library NCCL inside, a
# ring over PCI Express.
#
# The next cell has such a broadcast. `node` is a communicator of the ranks of one node, `across` of
# those that have the same place in their nodes; [lab 26](26_hierarchical_allreduce.ipynb) builds such groups. The ranks at the root's
# place get the vector by the tree, one per node. Then each tells its node by the function `inside`.

# %%
def two_level(comm, vector, root, per_node, inside):
    """Copy root's `vector` into every rank's: by a tree between nodes, by `inside` in each."""
    node = comm.Split(comm.rank // per_node)
    across = comm.Split(comm.rank % per_node)
    # Across ranks: one rank of each node gets the vector over the network, and then tells its node.
    if comm.rank % per_node == root % per_node:
        tree_broadcast(across, vector, root // per_node)
    inside(node, vector, root % per_node)


four_chunks = partial(chain, count=4)
case = {"ranks_per_node": 4, "args": (6, 4, four_chunks), "what": "the vector of root 6"}
virtual.trials(two_level, itemgetter(6), ranks=[8, 12], **case)  # an error, if it were wrong

# %% [markdown]
# ### Measure: who wins at which size?
# The next cell prints the machine: a model of nodes with K80 GPUs. Mind the third column. How many
# ranks a node has, how many network cards, and the speed inside a node are *estimates*.

# %%
machine = virtual.machine(where)
per_node = machine.ranks_per_node
print(machine)

# %% [markdown]
# Five ways take part: the tree, scatter-allgather, the chain over all ranks with your best k (but
# at most 256 chunks, as more take long to run here), two levels with a chain inside, and two levels
# with NCCL inside. A call of NCCL takes 8.4 µs to start (its tuning model, `src/graph/tuning.cc`),
# but its messages wait for no handshake ([lab 20](20_ranks_and_messages.ipynb)). Which way is fastest to 128 ranks for 1 KiB, and
# which for 256 MiB? Number them 1 to 5 in this order.

# %%
predict("25.4", for_1_KiB=..., for_256_MiB=...)

# %%
# The five ways. For the best k: α of a message inside a node, as most of the chain, and
# β between nodes, the slower link.
hop = machine.inside.alpha + machine.handshake, machine.between.beta


def nccl_ring(comm, vector, root, count, start):
    comm.compute(start)
    chain(comm, vector, root, count)


def seconds(nbytes, ranks, machine=machine, start=nccl_start):
    """{way: virtual seconds to broadcast nbytes to so many ranks}. start: seconds to start NCCL."""
    vector = virtual.vector(np.zeros(1 << 14), stands_for=nbytes)
    over_all = min(best_chunks(nbytes, ranks, *hop), most_chunks)
    in_node = min(best_chunks(nbytes, per_node, *hop), most_chunks)
    ways = {
        "tree": tree_broadcast,
        "scatter + ring": scatter_allgather,
        "chain": partial(chain, count=over_all),
        "two-level": partial(two_level, per_node=per_node, inside=partial(chain, count=in_node)),
    }
    cluster = virtual.Cluster.of(ranks, per_node, machine)
    times = {name: cluster.run(way, vector, 0).time for name, way in ways.items()}
    pieces = min(ceil(nbytes / 2**18), most_chunks)  # of 256 KiB
    nccl = partial(nccl_ring, count=pieces, start=start)
    cluster = virtual.Cluster.of(ranks, per_node, machine.but(eager=inf))  # no message waits
    times["with NCCL"] = cluster.run(two_level, vector, 0, per_node, nccl).time
    return times


# %%
# All ways, sizes and numbers of ranks: about half a minute.
table = {}
for doubled in range((many // per_node).bit_length()):
    p = per_node * 2**doubled
    for n in sizes:
        for way, time in seconds(n, p).items():
            table.setdefault(way, {})[n, p] = time
best = {n: min(table, key=lambda way, n=n: table[way][n, many]) for n in sizes}
places = {way: place for place, way in enumerate(table, start=1)}
predict.right("25.4", for_1_KiB=places[best[sizes[0]]], for_256_MiB=places[best[sizes[-1]]])

# %%
plots.crossover(table, title=f"The fastest broadcast on {where}")
curves = {way: {n: row[n, many] for n in sizes} for way, row in table.items()}
plots.bandwidth(curves, title=f"Broadcast to {many} ranks of {where}, on the virtual cluster")


# %% [markdown]
# **Explain.** Read the map's top row, 128 ranks, from left to right. You should see the tree first.
# A likely cause: it has the fewest messages one after another, 7. Two levels have 3 between the 8
# nodes and 15 inside, the chain 127, scatter-allgather 254. At the right end the chain wins. In
# between other ways do. In the lowest row, one node, NCCL's ring takes over from the tree at some
# MiB.
#
# ### Exercise 25.4 · A broadcast for each layer
# VGG-16's layers have 7 kB to 411 MB. Write `pick(nbytes)`: the name of the way for a broadcast of
# so many bytes to `many` ranks. Take the way that is fastest in `best` at the size nearest to
# `nbytes`, where nearest means the smallest ratio: 2 MB is nearer to 4 than to 0.5. `best` is a
# dictionary, size -> name. 2 lines. *(beginner)*
#
# <details><summary>Hint 1: nearest by ratio</summary>
#
# The distance of two sizes by ratio is `abs(log(size / nbytes))`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `min(best, key=lambda size: …)` is the nearest size; `best[…]` its way.
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
# ### Measure: a step of VGG-16
# The time of all 16 broadcasts, with one way for all, and with a way picked for each layer. About
# 10 s.

# %%
by_size = {nbytes: seconds(nbytes, many) for nbytes in set(layers)}
step = {layer: by_size[nbytes] for layer, nbytes in layers.items()}
big = layers.idxmax()
picked = {layer: pick(nbytes) for layer, nbytes in layers.items()}
parts = {}
for way in table:
    rest = sum(row[way] for layer, row in step.items() if layer != big)
    parts[way] = {big: 1e3 * step[big][way], "the rest": 1e3 * rest}
rest = sum(step[layer][way] for layer, way in picked.items() if layer != big)
parts["picked"] = {big: 1e3 * step[big][picked[big]], "the rest": 1e3 * rest}
plots.bars(parts, ylabel="ms a step", title=f"{net} to {many} ranks of {where}: one layer decides")
for way in table:
    print(
        f"{way}: picked for {sum(name == way for name in picked.values())} of {len(picked)} layers"
    )
whole = {way: sum(times.values()) for way, times in parts.items()}
single = min(table, key=whole.get)
for name, way in (
    ("picked", "picked"),
    ("best single way", single),
    ("two levels with NCCL", "with NCCL"),
):
    print(f"{name}, {way}: {whole[way]:.1f} ms a step")

# %% [markdown]
# **Explain.** Layer fc6 has three quarters of the bytes, so it decides. You should see that picking
# is no worse than the best single way, and little better: the small layers take little time in any
# way.
#
# ### What you take away
# - No broadcast beats nβ. Tree: lg p times that. Scatter-allgather: twice. A chain of many chunks:
#   nearly once.
# - Chunks cost messages, (p - 2 + k)α. The best k is sqrt((p - 2)nβ/α); a factor of two costs
#   little.
# - For short vectors the number of messages one after another counts, for long ones the bytes. A
#   net has both: choose by size.
# - Next: [lab 26](26_hierarchical_allreduce.ipynb) gives allreduce two levels; [lab 32](32_buckets_and_overlap.ipynb) hides messages behind computing.
#
# ### For those who have time: how sure is that?
# What follows is not in the 60 minutes of this lab. It takes about 20 more.
#
# The machine has estimates. What if one is wrong? The next cell changes one number at a time, and
# prints which way is fastest to 128 ranks at three sizes, and NCCL's time over the best one's.

# %%
# About 20 s.
fast = machine.inside
changes = {
    "as it is": (machine, nccl_start),
    "bandwidth inside x 2": (
        machine.but(inside=virtual.Link(fast.latency, 2 * fast.bandwidth)),
        nccl_start,
    ),
    "network cards x 2": (machine.but(nics=2 * machine.nics), nccl_start),
    "NCCL starts at once": (machine, 0.0),
}
for name, (changed, start) in changes.items():
    for n in (sizes[0], sizes[len(sizes) // 2], sizes[-1]):
        times = seconds(n, many, changed, start)
        winner = min(times, key=times.get)
        longer = times["with NCCL"] / times[winner]
        print(f"{name:22}{n:>12,} bytes: {winner:15} NCCL takes {longer:.1f} times as long")

# %% [markdown]
# **Explain.** Where the winner of a size is the same in all four, it does not hang on that number:
# the tree for 1 KiB, the chain for 256 MiB. Where it changes, the machine must be measured. The
# number of ranks on a node is an estimate, too; it was not changed here.
#
# ### Measure: what does a training gain?
# The authors trained VGG with Microsoft's program CNTK on 2 to 128 GPUs, once with the NCCL-based
# broadcasts and once with theirs. Here is that figure from our model: an epoch of ImageNet, 1.28
# million images, 32 for each GPU in a step. A step is the arithmetic (forward, and twice that
# backward) and a broadcast for each layer. The gradients' way to the root, the input and all
# overlap are left out.
#
# A library takes for each layer the fastest way *at that number of GPUs*: that is *picked* here.
# About 20 s.

# %%
arithmetic = 3 * nets.layer_table(net).flops.sum() * images / flops  # seconds a step
in_training = {many: by_size}
for doubled in range(1, many.bit_length() - 1):
    in_training[2**doubled] = {nbytes: seconds(nbytes, 2**doubled) for nbytes in set(layers)}
epoch = {"tree for all": {}, "with NCCL": {}, "picked": {}}
for p in sorted(in_training):
    steps = 1.28e6 / (images * p)
    fastest = sum(min(in_training[p][nbytes].values()) for nbytes in layers)
    hours = {"picked": fastest}
    hours["tree for all"] = sum(in_training[p][nbytes]["tree"] for nbytes in layers)
    hours["with NCCL"] = sum(in_training[p][nbytes]["with NCCL"] for nbytes in layers)
    for name, broadcasts in hours.items():
        epoch[name][p] = steps * (arithmetic + broadcasts) / 3600

# %%
axes = {"xlabel": "GPUs", "ylabel": "hours an epoch", "logx": True, "logy": True}
plots.lines(epoch, title=f"An epoch of {net}: broadcasts count beyond a node", **axes, name="epoch")
print("shorter with picked broadcasts than")
for p in sorted(in_training):
    less = {
        name: 100 * (1 - epoch["picked"][p] / epoch[name][p])
        for name in ("with NCCL", "tree for all")
    }
    print(
        f"{p:4} GPUs: " + ", ".join(f"{name} by {percent:4.1f} %" for name, percent in less.items())
    )
for p, paper in ((per_node, 14), (many, 16.6)):
    ratio = max(table["with NCCL"][n, p] / min(row[n, p] for row in table.values()) for n in sizes)
    print(
        f"one broadcast on {p} GPUs: up to {ratio:.1f} times as fast as with NCCL, measured up to"
        f" {paper}"
    )
for p in (per_node, many):
    ratio = max(table["tree"][n, p] / table["with NCCL"][n, p] for n in sizes)
    less = 1 - epoch["with NCCL"][p] / epoch["tree for all"][p]
    print(
        f"NCCL, not the tree, on {p} GPUs: up to {ratio:.1f} times as fast, an epoch {less:.0%}"
        " shorter"
    )


# %% [markdown]
# **Explain.** Up to 16 GPUs, one node, the three ways lie close together: an epoch is arithmetic,
# and the GPUs share that. Beyond a node the tree falls behind, and on 128 GPUs half of its epoch is
# broadcasts. *With NCCL* stays near *picked*: about 6 % on 128 GPUs. The authors measured up to 7 %
# there. Do not trust so good an agreement too far: 32 images are a guess, and half as many would
# make it 11 %.
#
# What was **measured** on GPUs, and where it stands:
#
# | compared | gain | paper | our model |
# |---|---|---|---|
# | chain with NCCL-based, inside a node | up to 14 times | Awan et al., arXiv 1707.09414 | printed above |
# | the same, between nodes | up to 16.6 times | the same | printed above |
# | VGG in CNTK, 128 GPUs | up to 7 % | the same | printed above |
# | chain with NCCL 2's own, up to middle sizes | up to 10 times | Awan et al., ParCo 85, 2019 | none |
# | InfiniBand's multicast with the best before | 68 % shorter; CNTK 24 % | Chu, poster at SC17 | none |
#
# A poster of the same group has three numbers of its own, each an "up to". Broadcasts that use NCCL
# are 2 times as fast in a micro-benchmark, and they improve the training of VGG with CNTK by 38 %;
# a ring by MPI alone is 10 times as fast for small and medium messages. (By its contents it is
# poster A26 of SC17, Awan's "Co-Designing MPI Runtimes and Deep Learning Frameworks". We have found
# the first two numbers in no paper.)
#
# The last two printed lines are our model's counterpart of the 2 times and the 38 %: broadcasts
# with NCCL, compared with the tree for all. On 128 GPUs one broadcast is up to 7.3 times as fast
# there, and an epoch 43 % shorter. The first number suggests that the poster compares with
# something better than a plain tree. So it confirms neither number that 43 lies near 38.
#
# For one broadcast by the chain, compared with NCCL, the model shows a smaller gain than was
# measured. It has NCCL 2's start of 8.4 µs; they ran NCCL 1, whose calls took longer, and each was
# followed by a wait for the GPU. That would raise the ratio for short messages, where it is
# largest. But see above how little it falls when NCCL starts at once. How much of the difference it
# explains is not known.
#
# A broadcast that is up to 14 times as fast, and a training that is 7 % faster: how does that go
# together?
# <details><summary>Answer</summary>
#
# "Up to" is for short messages. The training's broadcasts are mostly layer fc6, which is long:
# there the ways lie much closer together. And the broadcasts are a small part of a step.
# </details>
#
# ### Measure: real ranks
# The tree, scatter-allgather and a chain of four chunks here, beside MPI's own `Bcast`. About half
# a minute.

# %%
def compare(comm):
    ways = {
        "tree": tree_broadcast,
        "scatter": scatter_allgather,
        "chain": four_chunks,
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
# **Explain.** You should see that cutting does not pay for the short messages: each chunk is one
# more message. For 16 MiB the ways may lie close together, or cutting may lead: with four cores
# free, four chunks to four ranks take 1.5 nβ and the tree 2 nβ, if the memory is fast enough for
# copies at the same time. With fewer cores than ranks, a message also waits for a turn on a core,
# and wide bars say so: then this plot ranks nothing.
