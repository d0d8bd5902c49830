# %% [markdown]
# <!-- Generated from solutions/23_ring_allreduce.py by `make labs`. Learners work on a copy in work/. -->
# # 23 Ring allreduce
#
# You write the allreduce that made data-parallel training cheap, and find out where it is the wrong
# one.
#
# **You will be able to** (1) write a ring allreduce with `Sendrecv`, for any number of ranks and
# values, (2) say from p, n, α and β alone what it sends and how long it takes, (3) point at the
# message size below which a tree beats it, on a cluster on paper and on this machine.
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
# bytes of the gradient that is summed on the virtual cluster (ResNet-50 has about 102 MB)
gradient = 100e6
many = 64  # ranks of the virtual cluster in the plots
sizes = (1024, 16384, 262144, 4194304, 67108864)  # bytes per rank in the measurement on real ranks
patience = 20  # seconds after which a check calls a program on real ranks stuck

# %% [markdown]
# ### Why a ring?
# Sixteen workers hold a gradient of 100 MB each, and all need the sum. Let everyone send its
# gradient to rank 0, and rank 0 send the sum back. Its link then carries 1.5 GB in and 1.5 GB out.
# The fifteen others carry 0.1 GB each way and are idle most of the time. In a **ring** every rank
# talks to two neighbours only, and all links carry the same.
#
# The ring works in two halves. In the first, the **reduce-scatter**, the vector is cut into p
# chunks. In each step every rank sends one chunk to its right neighbour, and *adds* the chunk that
# comes from the left to its own. In this table each rank's values have a digit of their own, so the
# sums show who took part. What has just been added to is bold:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 3 4 | 10 20 30 40 | 100 200 300 400 | 1000 2000 3000 4000 |
# | step 0 | 1 2 3 **4004** | **11** 20 30 40 | 100 **220** 300 400 | 1000 2000 **3300** 4000 |
# | step 1 | 1 2 **3303** 4004 | 11 20 30 **4044** | **111** 220 300 400 | 1000 **2220** 3300 4000 |
# | step 2 | 1 **2222** 3303 4004 | 11 20 **3333** 4044 | 111 220 300 **4444** | **1111** 2220 3300 4000 |
#
# Now each rank has one finished chunk: rank r has chunk r + 1 (mod p). In the second half, the
# **allgather**, the finished chunks travel once more round the ring, and replace what they meet.
#
# <details><summary>Whose idea was it?</summary>
#
# Patarasuk and Yuan described the ring for clusters in 2009 (reference below). NVIDIA's NCCL was
# built of rings from its first published version, of November 2015. Baidu wrote about it for deep
# learning in February 2017 (research.baidu.com/bringing-hpc-techniques-deep-learning) and gave its
# code away. Horovod began in the same year with Baidu's code, and soon let NCCL do the work on
# GPUs.
# </details>

# %%
# The first step of the reduce-scatter, drawn.
plots.ring(4, label="chunk {rank}", title="Step 0")

# %% [markdown]
# Besides real ranks, this lab uses the **virtual cluster**: your function, unchanged, on ranks that
# only take turns in this process. Each rank has a clock. On that clock a message takes what it
# would take on a stated machine, by default α = 1 µs and 1 GB/s. So a run of 64 ranks takes a
# moment here, and its messages, bytes and rounds are counted exactly. In a **round** a rank sends
# at most one message and receives at most one. So each step of the ring is one round.
#
# `comm.Sendrecv(out, dest=right, recvbuf=box, source=left)` sends the array `out` and receives into
# the array `box`, both at the same time ([lab 20](20_ranks_and_messages.ipynb)).
#
# ### Predict
# A chunk is an eighth of the vector when p = 8. How many whole vectors' worth of bytes does each of
# 8 ranks send, in both halves together? In how many steps? Count in the table: it has the first
# half, for p = 4.

# %%
predict("23.2", vectors_sent=..., steps=...)


# %% [markdown]
# ### Exercise 23.1 · Reduce-scatter round a ring
# `chunks` are views: what you write *into* one (`+=`, `[:] =`) is in `vector`; `a = a + b` makes a
# new array. In step i, counted from 0, rank r sends chunk r - i (mod p) to the right. Which one
# comes from the left? Receive it, and add it to your own. That is p - 1 times `Sendrecv`, 5 lines.
# *(intermediate)*
#
# Chunks may differ by one value in length: 10 values on 4 ranks make chunks of 3, 3, 2 and 2.
# `incoming` is as long as the longest. So receive into the part of it that is as long as the chunk
# to which you will add.
#
# <details><summary>Hint 1: which chunk comes?</summary>
#
# The left neighbour is rank r - 1 and does what you do: in step i it sends chunk (r - 1) - i. In
# the table, rank 0 gets chunk 3 in step 0, then 2, then 1.
# </details>
# <details><summary>Hint 2: chunks of unequal length</summary>
#
# Where `own` is the chunk to which you will add, that part is `incoming[: len(own)]`.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# `own = chunks[(comm.rank - step - 1) % comm.size]`, `box = incoming[: len(own)]`, then
# `comm.Sendrecv(chunks[…], dest=right, recvbuf=box, source=left)` and `own += box`.
# </details>

# %%
def reduce_scatter(comm, vector):
    """Chunk rank + 1 of `vector` (of any length) becomes the sum over all ranks, the others
    anything."""
    chunks = np.array_split(vector, comm.size)
    incoming = np.empty_like(chunks[0])  # the longest chunk comes first
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    raise NotImplementedError("exercise 23.1: Reduce-scatter round a ring")


# %%
# Asked: The table's chunks; then 1 to 16 ranks and any length, only right
# neighbours, no byte too many.
check("23.1", reduce_scatter)


# %% [markdown]
# ### Exercise 23.2 · The whole ring
# After `reduce_scatter`, rank r has the finished chunk r + 1. In the first step it sends that one
# to the right. In each later step it passes on what has just come from the left. What comes is
# finished, too: receive it straight into its place. 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: which chunks?</summary>
#
# In step i rank r sends chunk r + 1 - i, and its left neighbour (r - 1) + 1 - i.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(chunks[(comm.rank + 1 - step) % comm.size], dest=right, recvbuf=chunks[…], source=left)`
# for each `step in range(comm.size - 1)`; no box, no sum.
# </details>

# %%
def ring_allreduce(comm, vector):
    """Sum `vector` over all ranks, in place. vector: 1-D array of any length, equal on all
    ranks."""
    reduce_scatter(comm, vector)
    chunks = np.array_split(vector, comm.size)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    raise NotImplementedError("exercise 23.2: The whole ring")


# %%
# Asked: The sum on 1 to 16 virtual ranks, with a ring's bytes and rounds; and
# on real ranks.
check("23.2", ring_allreduce)

# %% [markdown]
# ### Measure: who does what when?
# Your ring on four virtual ranks, with a vector that stands for 100 MB. Each row is a rank, and
# time runs to the right. Adding takes time here, too: 4 GB/s. As a control, the same run where
# adding takes none.

# %%
long_vector = virtual.vector(np.ones(16), stands_for=gradient)
four = virtual.Cluster(nodes=4, machine=virtual.ideal(reduce=4e9))
run = four.run(ring_allreduce, long_vector, trace=True)
plots.timeline(run, title="A ring of four: all links work, then all rest")
free = virtual.Cluster(nodes=4).run(ring_allreduce, long_vector)
print(f"{run.time:.4f} s; where adding takes no time, {free.time:.4f} s")


# %% [markdown]
# **Explain.** You should see six rounds in which all ranks send. After each of the first three all
# links rest at once. What for? Why not in the second half?
#
# <details><summary>Answer</summary>
#
# In the reduce-scatter a rank must add a chunk before it can pass it on: the marks after the first
# rounds. In the allgather there is nothing to add. A rank passes on what came as it is. The control
# is shorter by just three additions of 25 MB at 4 GB/s, 0.0188 s.
# </details>
#
# ### Exercise 23.3 · What it costs, on paper
# A message of m bytes takes α + mβ seconds: α is its latency, β the time of a byte (lab 22). A ring
# of p ranks with n bytes each takes how many steps, with messages of how many bytes? From that
# follow the bytes that a rank sends, and the seconds. Adding is free here. 3 lines. *(beginner)*
#
# <details><summary>Hint 1: one step</summary>
#
# All ranks do the same at the same time, so one step takes as long as one message: a chunk of n / p
# bytes.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `steps = 2 * (p - 1)`, and every step sends one chunk and costs one `alpha + n / p * beta`.
# </details>

# %%
def ring_cost(p, n, alpha, beta):
    """Steps, bytes that each rank sends, and seconds. n: bytes. alpha: seconds. beta: seconds per
    byte."""
    raise NotImplementedError("exercise 23.3: What it costs, on paper")


# %%
# Asked: Your three numbers are those of a run of your ring on the virtual
# cluster.
check("23.3", ring_cost)

# %% [markdown]
# Where only ranks add, no allreduce lets the busiest rank send less: 2n(p - 1)/p is a lower bound
# (Patarasuk and Yuan, Journal of Parallel and Distributed Computing 69(2), 2009).
#
# <details><summary>And where the switch adds?</summary>
#
# Some switches can add: NVIDIA's SHARP on InfiniBand, and NVLS on NVLink since 2022. Then a rank
# sends its vector up once and gets the sum back once, so about n bytes instead of 2n. The bound
# does not hold there. That is why nccl-tests may show a "bus bandwidth" above that of the links on
# such machines.
# </details>
#
# ### Measure: what do more ranks cost?
# 100 MB at 1 GB/s, on 2 to 256 ranks. Points are runs of your ring on the virtual cluster, as far
# as they take moments. The second line is your formula. The third is the formula of one server, to
# which all send, and which sends to all.

# %%
ranks = [2, 4, 8, 16, 32, 64, 128, 256]
seconds = {
    "ring, run": {p: lab23.run_ideal(ring_allreduce, p, gradient).time for p in ranks if p <= many},
    "ring, your formula": {p: ring_cost(p, gradient, 1e-6, 1e-9)[2] for p in ranks},
    "one server, formula": {p: costs.parameter_server_time(gradient, p, 1e-6, 1e-9) for p in ranks},
}
title = "A ring stays below 0.2 s, one server does not"
plots.lines(seconds, xlabel="ranks", ylabel="time (s)", title=title, logx=True, logy=True)

# %% [markdown]
# **Explain.** You should see the runs on the line of your formula. The ring goes from 0.1 s on 2
# ranks towards 2nβ = 0.2 s, as 2n(p - 1)/p does; from 8 ranks on it grows by a seventh only. The
# server's time doubles with the ranks, because its one link carries every vector.
#
# ### Predict
# In short vectors nothing counts but α, and the ring pays it 2(p - 1) times. Lab 21's other way is
# to reduce and then to broadcast, each by a tree. It takes 2L(α + nβ), where L = ⌈log₂ p⌉, in
# Python `(p - 1).bit_length()`. That is few messages, but of whole vectors. Take 64 ranks, α = 5 µs
# and 10 GB/s, so β = 0.1 ns. Below how many kB (1 kB = 1,000 bytes) is the tree faster: about 5, 50
# or 500? Guess; the next exercise computes it.

# %%
predict("23.4", ring_wins_from_kB=...)


# %% [markdown]
# ### Exercise 23.4 · Where the ring is wrong
# For p = 4, 8, 16, … ranks: set the two times, ring and tree, equal and solve for n. 1 to 5 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: sort by α and β</summary>
#
# 2L(α + nβ) = 2(p - 1)(α + n/p β). On one side: how many α has the ring too many? On the other: how
# many nβ has the tree too many?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The ring has 2(p - 1) - 2L messages more, the tree sends 2L - 2(p - 1)/p vectors more. n is the
# first times α, over the second times β.
# </details>

# %%
def ring_wins_from(p, alpha, beta):
    """Bytes n from which the ring is faster than the tree on p = 4, 8, 16, … ranks. Units as
    above."""
    raise NotImplementedError("exercise 23.4: Where the ring is wrong")


# %%
# Asked: With 2 % fewer bytes than you say, a run of the tree is faster; with 2
# % more, one of the ring.
check("23.4", ring_wins_from)

# %% [markdown]
# ### Measure: a machine with K80 GPUs
# Both ways again, now on 64 nodes of a machine with 11 GB/s between them. The plot shows **bus
# bandwidth**: the bytes that a ring must send, 2n(p - 1)/p, over the time. So the ring's line can
# come up to the link's 11 GB/s, and higher is faster.
#
# On this machine a message above 12 KiB waits until its receiver is ready (rendezvous, lab 20),
# which costs two latencies more. As a control, both ways also run where no message waits.

# %%
ways = {"ring": ring_allreduce, "tree": tree_allreduce}
machine = virtual.machine("k80_edr")
lengths = np.geomspace(1e2, 1e8, 13)
modelled = {}
for label, model in (("", machine), (", no waiting", machine.but(eager=float("inf")))):
    cluster = virtual.Cluster(nodes=many, ranks_per_node=1, machine=model)
    for name, way in ways.items():
        vectors = {n: virtual.vector(np.ones(many), stands_for=n) for n in lengths}
        modelled[name + label] = {n: cluster.run(way, vector).time for n, vector in vectors.items()}
title = f"{many} nodes of k80_edr, a model: short vectors want a tree, long ones a ring"
plots.bandwidth(modelled, factor=2 * (many - 1) / many, what="busbw", title=title)


# %% [markdown]
# **Explain.** You should see ring and tree cross between 0.1 and 10 MB. Left of that the tree wins,
# right of it the ring. Each line leaves its control somewhere. Why, and why at different sizes?
#
# <details><summary>Answer</summary>
#
# There its messages begin to wait for their receivers. The tree sends whole vectors, so it gets
# there at 12 KiB. The ring sends chunks of 1/64, so it gets there at 64 times as many, 0.8 MB.
# </details>
#
# ### Measure: this machine
# Now real ranks, one per core if there are enough. MPI's own allreduce chooses its way by size. On
# a cluster, start this file by `srun`. About half a minute.

# %%
# Five sizes, three ways in turns.
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
        rows[nbytes] = timing.in_turns(calls, comm=comm, seconds=2)
    return rows


# %%
p = launch.ranks_here(max(2, min(4, world.cores())))
rows = launch.run(compare, ranks=p)[0]
times = {name: {nbytes: row[name] for nbytes, row in rows.items()} for name in rows[sizes[0]]}
title = f"{p} real ranks on {world.cores()} cores: which way is fastest at which size?"
plots.bandwidth(times, factor=2 * (p - 1) / p, what="busbw", title=title)
share = timing.Ratio(times["MPI's own"][sizes[-1]], times["ring"][sizes[-1]])
for name, row in times.items():
    for nbytes, seconds in row.items():
        record.add("allreduce", way=name, ranks=p, bytes=nbytes, seconds=seconds, **record.BY_MPI)
record.add("bandwidth, ring over MPI's own", ranks=p, bytes=sizes[-1], share=share, **record.BY_MPI)
leads = [n for n in sizes if times["ring"][n].q3 < times["tree"][n].q1]
print(f"Sizes at which the ring leads the tree by more than the spread: {leads} bytes")
print(f"At {sizes[-1]} bytes its bandwidth is {share.median:.2f} of MPI's own.")
shortest = times["ring"][sizes[0]].median * 1e6
longest = times["ring"][sizes[-1]].median * 1e6
print(f"The ring takes {shortest:.1f} µs at {sizes[0]} bytes, and {longest:.0f} µs at {sizes[-1]}.")

# %% [markdown]
# **Explain.** You should see the tree near the front at 1 KiB, and the ring near the front at the
# largest size. The printed list begins where the ring takes the lead on this machine. You may see
# instead that the lines run together, and that the list is empty. A likely cause: here all bytes go
# through one memory, and in all both ways move as many, 2(p - 1)n. At the short end a ring of four
# has two steps more than the tree, a few microseconds: that may be less than the spread. If there
# are more ranks than cores, they wait for each other most of the time. Then this plot ranks
# nothing, and the virtual cluster's is the one to learn from.
#
# Your Python ring may even beat MPI's own allreduce at the largest size. Is Python faster than C?
#
# <details><summary>Answer</summary>
#
# No. The last line above tells the ring's time at the smallest size, too, where there is next to
# nothing to add or to copy: about so much is Python and α. In the rest NumPy adds, and MPI copies.
# What may differ is the way, or how memory is taken and touched. This plot does not say which: one
# would profile both ([lab 12](12_find_the_bottleneck.ipynb)).
# </details>
#
# ### What you take away
# - A ring allreduce is a reduce-scatter and an allgather. Each rank sends 2(p - 1)/p vectors. Where
#   only ranks add, no way is cheaper for the busiest rank.
# - Its bytes hardly grow with p, but its messages do. It is right for long vectors and wrong for
#   short ones. So libraries choose by size (lab 24), and Horovod packs small gradients into one
#   long vector (lab 44).
# - If you have time, about 20 minutes: (a) cut each chunk in two, and add one half while the other
#   travels (`Isend`, `Irecv`). What does the picture look like then? (b) Send half of the vector
#   left, half right. Is that faster?
#
#   <details><summary>Answers</summary>
#
#   (a) The links should rest only for the last half chunk: adding hides behind sending. (b) Not
#   where both neighbours are reached through one port, as here: the two halves share it. It should
#   be twice as fast where each neighbour has a link of its own, as between GPUs with NVLink.
#   </details>
# - Next: with four GPUs behind one network card, whose link does the ring use? Lab 26.
