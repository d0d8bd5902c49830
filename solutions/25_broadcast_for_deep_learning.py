# %% [markdown]
# # 25 Broadcast for deep learning
#
# Some trainers send all parameters from one rank to everybody, in every step. You build the broadcasts that
# made this bearable, up to the pipelined chain of MVAPICH2-GDR, and find out which wins at which size.
#
# **You will be able to** (1) build scatter-allgather, a pipelined chain and a two-level broadcast, (2) say
# from α and β into how many chunks to cut, (3) pick a broadcast for each layer of a net.
#
# Needs: mpi · Ranks: 4 · Minutes: 50 · Before: 21, 22

# %%
from functools import partial
from math import ceil, inf, sqrt
from operator import itemgetter

import numpy as np
from labkit import check, expect, hint, lab, launch, nets, plots, predict, record, timing, virtual
from labkit.collectives import tree_broadcast
from labkit.scaling import costs

lab.start("25_broadcast_for_deep_learning")

# %% tags=["parameters"]
net = "vgg16"  # whose layers are sent: a name of nets.layer_table
where = "k80_fdr"  # the virtual cluster's machine
many = 128  # ranks of it
sizes = (1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456)  # bytes there
most_chunks = 256  # of a chain there; more take long to run
nccl_start = 8.4e-6  # seconds to start a call of NCCL 2 (ring, Simple protocol)
sizes_here = (4096, 65536, 1048576, 16777216)  # bytes per broadcast on real ranks

# %% [markdown]
# ### A broadcast for each layer, in every step
# In a *root solver* (S-Caffe; CNTK broadcasts too) rank 0 adds up the gradients, updates the parameters, and
# sends them to all, a message for each layer. Below: p ranks, n bytes, α and β as in lab 22.

# %%
layers = nets.layer_table(net).query("parameters > 0").set_index("layer").parameters * 4  # bytes, float32
print(f"{net}, MB:", ", ".join(f"{layer} {nbytes / 1e6:.3g}" for layer, nbytes in layers.items()))

# %% [markdown]
# Lab 21's tree, `tree_broadcast(comm, vector, root)`, sends the whole vector ⌈lg p⌉ times, one after another:
# to 64 ranks, VGG's 411 MB six times. But to *receive* n bytes takes nβ, once. So cut the vector in p chunks:
# the root *scatters* them, one to each rank, then all *allgather* them round a ring, as in lab 21.
#
# ### Exercise 25.1 · Scatter, then allgather
# For any root, number of ranks and length. `me` counts from the root, and chunk i goes to the rank whose `me`
# is i. Chunks are views: what is received into `chunks[i]` is in `vector`. About 9 lines.
#
# <details><summary>Hint 1: scatter</summary>
#
# The root (`me == 0`) sends `chunks[i]` to `(root + i) % comm.size`; others receive `chunks[me]` from `root`.
# </details>
# <details><summary>Hint 2: allgather, nearly the answer</summary>
#
# p - 1 times, i from 0: `comm.Sendrecv(chunks[(me - i) % comm.size], dest=right, recvbuf=…, source=left)`,
# and what comes is the chunk before: `chunks[(me - i - 1) % comm.size]`.
# </details>


# %%
def scatter_allgather(comm, vector, root):
    """Copy root's `vector` into every rank's."""
    chunks = np.array_split(vector, comm.size)
    me = (comm.rank - root) % comm.size
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ### BEGIN SOLUTION
    # Across ranks: the root gives every rank its chunk, then each passes on to the right what came last.
    if me == 0:
        for i in range(1, comm.size):
            comm.Send(chunks[i], dest=(root + i) % comm.size)
    else:
        comm.Recv(chunks[me], source=root)
    for i in range(comm.size - 1):
        old, new = (me - i) % comm.size, (me - i - 1) % comm.size
        comm.Sendrecv(chunks[old], dest=right, recvbuf=chunks[new], source=left)
    ### END SOLUTION


# %%
alpha, beta = 2e-6, 1e-10  # seconds per message, and per byte (10 GB/s)
strict = virtual.ideal(alpha, 1 / beta).but(eager=0)  # every Send waits for its Recv, as long messages do
numbers = (1, 2, 3, 4, 5, 8, 16)  # of ranks


def expect_broadcast(way, p, *options, vectors, messages, rounds, per_node=1):
    """way(comm, vector, root, *options) on p ranks: right, for at most so much a rank. Returns Runs."""
    runs = []
    for root in sorted({0, 1 % p, p - 1}):
        case = {"args": (root, *options), "what": f"the vector of root {root}", "ranks_per_node": per_node}
        trials = virtual.trials(way, itemgetter(root), ranks=[p], machine=strict, **case)
        for (_, length), run in trials.items():
            run.expect_sent(at_most=vectors, unit=8 * length, rounding=8 * p, named=way.__name__)
            run.expect_messages(at_most=messages, named=way.__name__)
            run.expect_steps(at_most=rounds, named=way.__name__)
            runs.append(run)
    return runs


with check("25.1"):
    for p in numbers:
        both = 2 * (p - 1)  # of a scatter and an allgather
        expect_broadcast(scatter_allgather, p, vectors=both / p, messages=both, rounds=both)

# %% [markdown]
# ### Predict
# In a *chain* each rank passes on to its right what comes from the left. In one piece, 64 ranks take 63 nβ.
# But of k chunks, a rank can send the first *while* it receives the second. The last rank gets its first
# chunk in round p - 1, then one each round: **T(k) = (p - 2 + k)(α + nβ/k)**. To 64 ranks, without α,
# how many nβ do 64 chunks take, how many the tree? With α = 2 µs, β = 0.1 ns, n = 9.44 MB: guess the best k.

# %%
predict("25.2", chain=1.97, tree=6.0)
predict("25.3", best_chunks=171)

# %% [markdown]
# ### Exercise 25.2 · The pipelined chain
# MVAPICH2-GDR's design for GPUs (Awan et al. 2017, arXiv 1707.09414): cut `vector` into `count` chunks, pass
# each on to `right` while the next comes from `left`. These are `PROC_NULL` at the chain's ends, so all ranks
# make the same calls. Some chunks are empty if `count` exceeds the length. About 5 lines.
#
# <details><summary>Hint 1: what must overlap</summary>
#
# In `Recv`, `Send`, `Recv`, `Send` a rank waits in `Send` until its receiver has it all, and receives nothing
# meanwhile. One `Sendrecv` sends the chunk that is there and receives the next.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `np.array_split(vector, count)`. Receive the first chunk; for all neighbours `old, new` in
# `zip(chunks, chunks[1:])`: `comm.Sendrecv(old, dest=right, recvbuf=new, source=left)`; send the last.
# </details>


# %%
def chain(comm, vector, root, count):
    """Copy root's `vector` into every rank's: `count` chunks, passed from neighbour to neighbour."""
    from mpi4py import MPI

    left = MPI.PROC_NULL if comm.rank == root else (comm.rank - 1) % comm.size
    right = MPI.PROC_NULL if (comm.rank + 1) % comm.size == root else (comm.rank + 1) % comm.size
    ### BEGIN SOLUTION
    chunks = np.array_split(vector, count)
    comm.Recv(chunks[0], source=left)
    for old, new in zip(chunks, chunks[1:], strict=False):
        # Across ranks: while one chunk leaves to the right, the next one comes from the left.
        comm.Sendrecv(old, dest=right, recvbuf=new, source=left)
    comm.Send(chunks[-1], dest=right)
    ### END SOLUTION


# %%
with check("25.2"):
    for count in (1, 4, 23):
        for p in numbers:
            expect_broadcast(chain, p, count, vectors=1, messages=count, rounds=p - 2 + count)
    cluster = virtual.Cluster(64, machine=strict)
    vector = virtual.vector(np.zeros(4096), stands_for=1e9)
    by_chain = cluster.run(chain, vector, 0, 64).time / (1e9 * beta)
    by_tree = cluster.run(tree_broadcast, vector, 0).time / (1e9 * beta)
    expect.between(by_chain, 1, 2, "64 chunks to 64 ranks (1 chunk takes 63 nβ). nβ it took")
    predict.compare("25.2", chain=by_chain, tree=by_tree)
run = virtual.Cluster(8, machine=strict).run(chain, np.zeros(10**6), 0, 8, trace=True)
plots.timeline(run, title="8 chunks to 8 ranks: after how many rounds has rank 7 all?")

# %% [markdown]
# ### Exercise 25.3 · The best number of chunks
# The k with the least T(k), a whole number; 1 where there are one or two ranks, as they pass nothing on.
#
# <details><summary>Hint 1: which terms depend on k?</summary>
#
# kα, which grows, and (p - 2)nβ/k, which falls. At the minimum the derivative is 0: α = (p - 2)nβ/k².
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `max(1, round(sqrt(…)))` of (p - 2)nβ/α; and 1 if `ranks < 3`.
# </details>


# %%
def best_chunks(nbytes, ranks, alpha, beta):
    """Into how many chunks a chain cuts nbytes. alpha: seconds per message. beta: seconds per byte."""
    ### BEGIN SOLUTION
    if ranks < 3:
        return 1
    return max(1, round(sqrt((ranks - 2) * nbytes * beta / alpha)))
    ### END SOLUTION


# %%
layer = (float(sorted(layers)[len(layers) // 2]), 64, alpha, beta)
cases = [layer, (4e8, 99, 5e-6, beta), (1e5, 3, 1e-6, 1e-9)]
cases += [(8, 1, 1, beta), (8, 2, 1, beta), (8, 9, 1, beta)]
with check("25.3"):
    for nbytes, p, a, b in cases:
        best = 1
        if p > 2:
            tried = np.arange(1, 5000)
            best = int(tried[np.argmin(costs.chain_broadcast_time(nbytes, p, a, b, tried))])
        count = best_chunks(nbytes, p, a, b)
        right = isinstance(count, int | np.integer) and count in range(max(1, best - 1), best + 2)
        subject = f"{nbytes:g} bytes, {p} ranks, α = {a:g} s, β = {b:g} s"
        expect(right, f"{subject}: the best number of chunks is {best}, a whole number. Got {count!r}.")

# %%
tried = sorted({max(1, round(best_chunks(*layer) * 2**step)) for step in (-5, -4, -3, -2, -1, 0, 1)})
vector = virtual.vector(np.zeros(1 << 14), stands_for=layer[0])
formula = {count: 1e3 * costs.chain_broadcast_time(*layer, count) for count in tried}
measured = {count: 1e3 * cluster.run(chain, vector, 0, count).time for count in tried}
curves = {"T(k)": formula, "your chain": measured}
plots.lines(curves, xlabel="chunks", ylabel="ms", title="To 64 ranks: how wide is the bottom?", logx=True)
predict.compare("25.3", best_chunks=min(measured, key=measured.get))

# %% [markdown]
# The bottom is wide: half or twice the best k is good.
#
# ### Exercise 25.4 · Two levels
# MVAPICH2-GDR's first design for GPUs: NVIDIA's NCCL inside a node, a ring over PCI Express, and MPI's tree
# between nodes. Rank r is on node `r // per_node`, at place `r % per_node`. The ranks at the root's place get
# the vector by `tree_broadcast`, one per node; then each tells its node by `inside(comm, vector, root)`.
# `comm.Split(number)` makes a communicator of the ranks that give the same number. About 4 lines.
#
# <details><summary>Hint 1: two communicators</summary>
#
# `comm.Split(comm.rank // per_node)` is my node, numbered by place; with `%`, one rank per node, by node.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# If my place is the root's: `tree_broadcast(across, vector, root // per_node)`. Then all:
# `inside(node, vector, root % per_node)`.
# </details>


# %%
def two_level(comm, vector, root, per_node, inside):
    """Copy root's `vector` into every rank's: by a tree between nodes, by `inside` in each."""
    ### BEGIN SOLUTION
    node, across = comm.Split(comm.rank // per_node), comm.Split(comm.rank % per_node)
    # Across ranks: one rank of each node gets the vector over the network, and then tells its node.
    if comm.rank % per_node == root % per_node:
        tree_broadcast(across, vector, root // per_node)
    inside(node, vector, root % per_node)
    ### END SOLUTION


# %%
def expect_two_levels(p, per_node, **most):
    """On p virtual ranks, a chain in one piece inside each node: right, and only what must crosses."""
    inside = partial(chain, count=1)
    for run in expect_broadcast(two_level, p, per_node, inside, per_node=per_node, **most):
        between = sum(messages for messages, _ in run.node_links.values())
        subject = f"The vector is right {run.where}, {per_node} on a node. But between nodes, the number of"
        expect.equal(between, p // per_node - 1, f"{subject} messages")


def expect_on_ranks(comm, ways):
    for way in ways:
        for root in range(comm.size):
            vector = np.arange(1003) + 10000 * comm.rank
            way(comm, vector, root)
            subject = f"On real ranks, the vector of root {root} on rank {comm.rank} of {comm.size}"
            expect.equal(vector, np.arange(1003) + 10000 * root, subject)


# %%
ranks = launch.ranks_here(4)
four_chunks = partial(chain, count=4)
with check("25.4"):
    for p in (1, 3, 5):
        expect_two_levels(p, per_node=1, vectors=3, messages=3, rounds=3)
    for p in (2, 4, 16):
        expect_two_levels(p, per_node=2, vectors=4, messages=4, rounds=4)
    for p in (4, 8, 12):
        expect_two_levels(p, per_node=4, vectors=3, messages=3, rounds=5)
    two_nodes = partial(two_level, per_node=max(1, ranks // 2), inside=four_chunks)
    launch.run(expect_on_ranks, [scatter_allgather, four_chunks, two_nodes], ranks=ranks, timeout=10)

# %% [markdown]
# ### Measure
# On a machine with sourced numbers (`print(machine)`), k by your formula. NCCL has no handshake, but 8.4 µs
# per call (its tuning model, `src/graph/tuning.cc`). Guess: who wins to 128 ranks for 1 KiB, for 256 MiB?

# %%
machine = virtual.machine(where)
per_node = machine.ranks_per_node
hop = machine.inside.alpha + machine.handshake, machine.between.beta


def nccl_ring(comm, vector, root, count):
    comm.compute(nccl_start)
    chain(comm, vector, root, count)


def seconds(nbytes, ranks):
    """{way: virtual seconds to broadcast nbytes to so many ranks}."""
    vector = virtual.vector(np.zeros(1 << 14), stands_for=nbytes)
    over_all, in_node = (min(best_chunks(nbytes, p, *hop), most_chunks) for p in (ranks, per_node))
    ways = {
        "tree": tree_broadcast,
        "scatter + ring": scatter_allgather,
        "chain": partial(chain, count=over_all),
        "two-level": partial(two_level, per_node=per_node, inside=partial(chain, count=in_node)),
    }
    cluster = virtual.Cluster.of(ranks, per_node, machine)
    times = {name: cluster.run(way, vector, 0).time for name, way in ways.items()}
    nccl = partial(nccl_ring, count=min(ceil(nbytes / 2**18), most_chunks))  # chunks of 256 KiB
    cluster = virtual.Cluster.of(ranks, per_node, machine.but(eager=inf))
    times["with NCCL"] = cluster.run(two_level, vector, 0, per_node, nccl).time
    return times


# %%
table = {}
for doubled in range((many // per_node).bit_length()):
    p = per_node * 2**doubled
    for n in sizes:
        for way, time in seconds(n, p).items():
            table.setdefault(way, {})[n, p] = time
plots.crossover(table, title=f"The fastest broadcast on {where}")
curves = {way: {n: row[n, many] for n in sizes} for way, row in table.items()}
plots.bandwidth(curves, title=f"Broadcast to {many} ranks of {where}, on the virtual cluster")
for p in (per_node, many):
    ratio = max(table["with NCCL"][n, p] / min(row[n, p] for row in table.values()) for n in sizes)
    print(f"{p} ranks: with NCCL up to {ratio:.1f} times as long as the best.")

# %%
step = {layer: seconds(nbytes, many) for layer, nbytes in layers.items()}
big = layers.idxmax()
total = {way: 1e3 * sum(row[way] for row in step.values()) for way in step[big]}
parts = {way: {big: 1e3 * step[big][way], "the rest": ms - 1e3 * step[big][way]} for way, ms in total.items()}
plots.bars(parts, ylabel="ms a step", title=f"{net} to {many} ranks of {where}: which layer decides?")
saved = total["with NCCL"] - 1e3 * sum(min(row.values()) for row in step.values())
print(f"The best per layer saves {saved:.1f} ms against NCCL: 7 %, were a step {saved / 0.07:.0f} ms long.")

# %% [markdown]
# On k80_fdr, 16 ranks a node, short messages go by tree: few hops, no start. Long ones by chain: two levels
# send the whole vector lg(nodes) times between nodes, the flat tree 16 at once through a node's two network
# cards. Between these, and inside one node, mostly NCCL's ring wins, which has no handshakes here.
# The authors **measured**, on dense GPU nodes against their design with NCCL, up to 14X inside a node, 16.6X
# between nodes, 7 % of VGG's training by CNTK on 128 GPUs (abstract of arXiv 1707.09414). Ours is a
# **model**: no computing, no NCCL 1 (theirs), no GPUs that share PCI Express, no wait of MPI for a GPU. It
# keeps the reason: starts and hops decide short messages, bytes long ones; most bytes are in long ones.
#
# ### Real ranks
# The same here, beside MPI's own `Bcast`. Shared memory and cores leave little to overlap.


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


real = launch.run(compare, ranks=ranks)[0]
curves = {way: {n: row[way] for n, row in real.items()} for way in real[sizes_here[0]]}
plots.bandwidth(curves, title=f"Broadcast on {ranks} real ranks: does cutting pay here?")
for way, row in curves.items():
    for n, time in row.items():
        record.add("broadcast", way=way, ranks=ranks, bytes=n, seconds=time, **record.BY_MPI)

# %% [markdown]
# ### What you take away
# - No broadcast beats nβ. Tree: lg p times that. Scatter-allgather: twice. Pipelined chain: nearly once.
# - Chunks cost messages, (p - 2 + k)α. The best k is sqrt((p - 2)nβ/α); a factor of two costs little.
# - A few µs for a start or a hop decide short messages. A net has short and long ones: choose by size.
# - Next: lab 26 gives allreduce two levels; lab 32 hides messages behind computing.
