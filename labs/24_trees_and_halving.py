# %% [markdown]
# <!-- Generated from solutions/24_trees_and_halving.py by `make labs`. Learners work on a copy in work/. -->
# # 24 Trees and halving
#
# A training program [allreduces](../labs/GLOSSARY.md#allreduce) vectors of very different lengths: the [loss](../labs/GLOSSARY.md#loss) is a single number, the
# [gradient](../labs/GLOSSARY.md#gradient) of one layer can have a few kilobytes, and all gradients together have a hundred
# megabytes or more.
#
# In [lab 23](23_ring_allreduce.ipynb) the tree was the faster algorithm for short vectors and the ring for long ones. Both
# waste something, however. In a tree of many [ranks](../labs/GLOSSARY.md#rank) most are idle most of the time, and the ring
# sends so many messages that on 64 ranks it takes several times as long as necessary for vectors of
# medium length.
#
# In this lab we build two more of the allreduces that [MPI](../labs/GLOSSARY.md#MPI) libraries use, recursive doubling and
# Rabenseifner's algorithm, and choose between four algorithms by size. First we write both for 2,
# 4, 8, … ranks (a power of two), and an adapter extends them to any number of ranks. Then we map
# which algorithm is fastest on a modeled cluster, explain why by a cost formula, and measure a
# tuning table for this machine.
#
# **After this lab you can** (1) write an allreduce by recursive doubling and by Rabenseifner's
# halving, for any number of ranks, (2) predict from the cost of a message, of a byte and of an
# addition which algorithm is fastest at which size, and (3) measure a tuning table on your own
# machine and choose the algorithm by it.
#
# ![The steps of four allreduces on eight ranks: the tree takes six steps of whole vectors, the ring fourteen of an eighth, recursive doubling three of whole vectors, and Rabenseifner's algorithm six of a half to an eighth](../notebooks/figures/24_steps.svg)
#
# *Four allreduces on eight ranks. Each bar is a step, and its height is the length of the messages
# in this step. For short vectors the number of bars determines the time, and for long vectors their
# total height. This lab builds the two dark ones.*
#
# Needs: mpi · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 21, 22, 23

# %%
from bisect import bisect_left
from functools import lru_cache, partial

import numpy as np
import virtual
from labkit import check, hint, lab, launch, plots, predict, record, scaling, timing, world
from labkit.collectives import doublings, ring_allreduce, tree_allreduce
from support import lab24

lab.start("24_trees_and_halving")

# %% tags=["parameters"]
cluster = "k80_edr"  # the cluster of the map, one of virtual.machines()
map_ranks = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # numbers of nodes in the map
# Bytes per vector in the map.
map_sizes = (64, 512, 4096, 16384, 65536, 262144, 1048576, 4194304, 33554432)
# Numbers of real ranks in your tuning table, as far as there are cores for them.
table_ranks = (2, 3, 4)
sizes = (8, 128, 2048, 16384, 131072, 1048576, 16777216)  # bytes per vector in the measurements
moment = 1.0  # seconds for all ways together at one size of vector; each has its turn 5 to 50 times
patience = 20  # seconds after which a check calls a program on real ranks stuck

# %% [markdown]
# ## Recursive doubling
# In a *step* of an algorithm a rank sends at most one message and receives at most one. The tree
# from [lab 21](21_collectives.ipynb) sends whole vectors up to the root and down again, so in the step that reaches the
# root only two ranks have anything to do. The ring from [lab 23](23_ring_allreduce.ipynb) keeps all ranks busy, but with p
# ranks it needs 2(p − 1) steps. We now look for an algorithm with few steps in which no rank is
# idle.
#
# In recursive doubling *all* ranks exchange their vectors with a partner in every step, and add
# what they receive. After the first step each vector contains the sum of 2 ranks, after the second
# of 4, and after the third of 8. It therefore takes log₂ p steps, where log₂ is the logarithm to
# base 2.
#
# The table follows four ranks whose vectors have one value each. Each rank has its own decimal
# digit, so a sum shows which ranks have contributed to it.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 | 10 | 100 | 1000 |
# | distance 1: 0 and 1 exchange, 2 and 3 exchange | 11 | 11 | 1100 | 1100 |
# | distance 2: 0 and 2 exchange, 1 and 3 exchange | 1111 | 1111 | 1111 | 1111 |
#
# At a distance of 1, 2, 4, … the partner of a rank is `rank ^ distance`. For a power of two, `^`
# flips one bit of a number. For example, 2 is 10 in binary, so `2 ^ 1` is 11, which is 3, and
# `3 ^ 1` is 2 again. Ranks 2 and 3 are therefore each other's partner at distance 1.
#
# The next cell draws all messages for eight ranks, with a color for each step.

# %%
# Drawing: eight ranks.
arrows = []
for step, distance in enumerate(doublings(8)):
    for rank in range(8):
        arrows.append((rank, rank ^ distance, step))
plots.messages(arrows, 8, title="Recursive doubling: every rank exchanges in every step")


# %% [markdown]
# ### Seats
# Later in this lab only some of the ranks take part, for example ranks 1, 3, 4 and 5 of six. So
# that `^` still finds the partner, we number these ranks 0, 1, 2, … without gaps. This number is
# the rank's *seat* (papers say *virtual* or *compacted rank*).
#
# The rank with seat `s` is `seats[s]`, and `me` is the seat of this rank. With
# `seats = [1, 3, 4, 5]`, for example, rank 4 has seat 2. At distance 1 its partner has seat
# `2 ^ 1`, which is 3, so the partner is rank 5.
#
# ### Exercise 24.1 · Recursive doubling
# Write recursive doubling for a number of ranks that is a power of two. In each step find the rank
# of the partner by its seat. Exchange the whole vectors with one `comm.Sendrecv` that sends
# `vector` and receives into `box`, and add `box` to `vector`. This takes 3 lines. *(beginner)*
#
# <details><summary>Hint 1: with whom?</summary>
#
# The partner has seat `me ^ distance`, so its rank is `seats[me ^ distance]`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Call `comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)`, and then add with
# `vector += box`.
# </details>

# %%
def doubling(comm, vector, seats, me):
    """Sum the vectors of the ranks in `seats` (1, 2, 4, 8, … of them), in place. me: this rank's
    seat."""
    box = np.empty_like(vector)
    for distance in doublings(len(seats)):  # for 8 seats 1, 2, 4
        raise NotImplementedError("exercise 24.1: Recursive doubling")


# %%
# Asked: The sum is right on 1 to 16 ranks after log₂ p steps, with log₂ p
# vectors sent by each, and partners are found by seats, not by ranks.
check("24.1", doubling)


# %% [markdown]
# ### Any number of ranks
# With 6 ranks some ranks have no partner. [MPICH](https://www.mpich.org) solves this problem by giving a seat only
# to a power of two of ranks, here 4. The other 2 ranks let a neighbor work for them, so the first
# 2 · 2 ranks form the pairs (0, 1) and (2, 3). The left rank of each pair *hands in* its vector to
# the right rank and waits. At the end the right rank hands the sum back.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 | rank 4 | rank 5 |
# |---|---|---|---|---|---|---|
# | before | 1 | 10 | 100 | 1 000 | 10 000 | 100 000 |
# | hand in: 0 to 1, 2 to 3 | waits | 11 | waits | 1 100 | 10 000 | 100 000 |
# | seat | none | 0 | none | 1 | 2 | 3 |
# | distance 1: seats 0 and 1, 2 and 3 | | 1 111 | | 1 111 | 110 000 | 110 000 |
# | distance 2: seats 0 and 2, 1 and 3 | | 111 111 | | 111 111 | 111 111 | 111 111 |
# | hand back: 1 to 0, 3 to 2 | 111 111 | 111 111 | 111 111 | 111 111 | 111 111 | 111 111 |
#
# The functions in the next cell do this around your `doubling`. The dictionary `WAYS` collects the
# allreduces that we have so far, by name. (In the code of this lab, an allreduce algorithm is a
# *way*.)

# %%
def seats_of(size):
    """The ranks that take part, by seat: as many as the largest power of two up to `size`."""
    power = 2 ** (size.bit_length() - 1)
    extra = size - power
    return [2 * seat + 1 if seat < extra else seat + extra for seat in range(power)]


def for_any(comm, vector, among):
    """Run among(comm, vector, seats, seat) on the seated ranks; the others hand in theirs and get
    the sum."""
    seats = seats_of(comm.size)
    if comm.rank not in seats:
        # Across ranks: one too many for a power of two, so the right neighbor works for both.
        comm.Send(vector, dest=comm.rank + 1)
        comm.Recv(vector, source=comm.rank + 1)
        return
    for_two = comm.rank > 0 and comm.rank - 1 not in seats
    if for_two:
        box = np.empty_like(vector)
        comm.Recv(box, source=comm.rank - 1)
        vector += box
    among(comm, vector, seats, seats.index(comm.rank))
    if for_two:
        comm.Send(vector, dest=comm.rank - 1)


# The allreduces so far, by name:
WAYS = {
    "tree": tree_allreduce,
    "ring": ring_allreduce,
    "doubling": partial(for_any, among=doubling),
}

# %% [markdown]
# ## Halving, then doubling
# Recursive doubling sends the *whole* vector in each of its log₂ p steps. Rabenseifner (2004) found
# an algorithm that sends less. It has two phases:
#
# - In the first phase, which is a [reduce-scatter](../labs/GLOSSARY.md#reduce-scatter), partners exchange *halves* of their vectors. Each
#   rank gives away one half and keeps the other one, so each half is added by only one of the two
#   partners. In the next step each rank does the same with the part that it has kept, and at the
#   end it has one p-th of the sum.
# - In the second phase, which is an [allgather](../labs/GLOSSARY.md#allgather), the same partners exchange their finished parts in
#   the opposite order, without adding.
#
# In the table, a dot marks a value that the rank has given away and not received back.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 3 4 | 10 20 30 40 | 100 200 300 400 | 1000 2000 3000 4000 |
# | distance 1 | 11 22 · · | · · 33 44 | 1100 2200 · · | · · 3300 4400 |
# | distance 2 | 1111 · · · | · · 3333 · | · 2222 · · | · · · 4444 |
# | allgather, distance 2 | 1111 2222 · · | · · 3333 4444 | 1111 2222 · · | · · 3333 4444 |
# | allgather, distance 1 | 1111 2222 3333 4444 | the same | the same | the same |
#
# The seat number decides which half a rank keeps. At each distance, the partner whose seat lacks
# the bit `distance` keeps the lower half of its part, and the other partner keeps the upper half.
# Here seats and ranks agree. Let us follow rank 2, which is 10 in binary:
#
# - At distance 1 the bit is missing, so rank 2 keeps values 0:2 and gives 2:4 to rank 3.
# - At distance 2 the bit is set, so of 0:2 it keeps the upper half 1:2 and gives 0:1 to rank 0.
# - In the allgather it sends the part that it has and receives the part that it gave away, first
#   0:1 and then 2:4.
#
# ### Predict
# For four ranks the table gives 4 steps and 1.5 vectors sent by each rank, which is 1/2 + 1/4 in
# each of the two phases.
#
# - With 16 ranks, how many steps are there in both phases together, and how many vectors' worth of
#   bytes does each rank send?
# - With 17 ranks, 16 have seats, and one hands in its vector. How many vectors does the rank that
#   works for it send, including the sum that it hands back?

# %%
predict("24.2", steps=..., vectors_sent=..., sent_for_two=...)


# %% [markdown]
# ### Exercise 24.2 · Halving
# Write Rabenseifner's algorithm, again with seats. At any time a rank is responsible for
# `vector[low:high]`, which at first is the whole vector. The loop is given, with the partner and
# with the `middle` of that part. A part can be stored as a `slice`. With `part = slice(2, 5)`, for
# example, `vector[part]` is `vector[2:5]`, `part.start` is 2, and `part.stop` is 5.
#
# Write one step:
#
# 1. Make a slice for the half that you `keep`, and one for the half that you `give`. You keep the
#    lower half if `me & distance` is 0, which means that `me` lacks that bit.
# 2. Exchange the halves. The values that arrive fit into `box[keep]`, because `box` is as long as
#    `vector`. Add them only to the half that you keep.
# 3. Be responsible for that half from now on, and append `(partner, keep, give)` to `trail`.
#
# The allgather reads `trail` from its end, and you have to write one `Sendrecv` for it. In total
# this takes about 9 lines. *(advanced)*
#
# <details><summary>Hint 1: the halves</summary>
#
# Begin with `keep = slice(low, middle)` and `give = slice(middle, high)`, and exchange the two
# `if me & distance`. At the end of the step, `low, high = keep.start, keep.stop`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Call `comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)`, and then
# `vector[keep] += box[keep]`. In the allgather, send `vector[keep]` and receive with
# `recvbuf=vector[give]`.
# </details>

# %%
def halving(comm, vector, seats, me):
    """Sum the vectors of the ranks in `seats` (1, 2, 4, 8, … of them), in place. me: this rank's
    seat."""
    box = np.empty_like(vector)
    low, high = 0, len(vector)
    trail = []  # (partner, keep, give) of each step
    for distance in doublings(len(seats)):
        partner = seats[me ^ distance]
        middle = (low + high) // 2  # the same on both partners, for any length
        raise NotImplementedError("exercise 24.2: Halving")
    for partner, keep, give in reversed(trail):
        raise NotImplementedError("exercise 24.2: Halving")


# %%
# Asked: The sum is right on any number of ranks, after 2 log₂ p steps with 2 (p
# - 1)/p vectors sent by each (for other p two steps and a vector more), and no
# rank adds more than it keeps.
check("24.2", halving)

# %% [markdown]
# **Explain.** With 16 ranks each phase has log₂ 16 = 4 steps, so there are 8, and each rank sends
# 2 · 15/16 = 1.875 vectors, because 1/2 + 1/4 + 1/8 + 1/16 is 15/16. With 17 ranks, the rank that
# works for two hands back one more vector, so it sends 2.875.
#
# ### Measure: does the order of the seats matter?
# The first exchange is the largest, because it moves half a vector in each direction. The next cell
# counts the bytes that cross between four nodes of two ranks each. In the first run the partners of
# the first exchange share a node, and in the second run, the control, they are on two nodes.

# %%
WAYS["Rabenseifner"] = partial(for_any, among=halving)
near = [0, 1, 2, 3, 4, 5, 6, 7]  # 8 ranks, 2 a node: seats 0 and 1 on one node
far = [0, 4, 2, 6, 1, 5, 3, 7]  # seats 0 and 1 on two nodes
for where, seats in (("one node", near), ("two nodes", far)):
    crossed = lab24.vectors_between_nodes(halving, seats)
    print(f"Neighbors on {where}: {crossed:g} vectors cross between the nodes.")

# %% [markdown]
# **Explain.** In both runs each rank sends 1.75 vectors in the same number of steps, but in the
# control 12 instead of 6 vectors cross between the nodes. An implementation should therefore begin
# with the nearest neighbor, and MPICH does.
#
# ## What it costs
# To predict which algorithm is fastest, we need a cost formula for each, in these symbols:
#
# | symbol | meaning |
# |---|---|
# | α | seconds per message ([lab 22](22_latency_and_bandwidth.ipynb)) |
# | β | seconds per byte sent ([lab 22](22_latency_and_bandwidth.ipynb)) |
# | γ | seconds per byte added |
# | n | bytes in the vector of one rank |
#
# The next table gives the seconds for p = 2, 4, 8, 16, … ranks. (These are MPICH's formulas.)
#
# | | for messages | for bytes sent | for bytes added |
# |---|---|---|---|
# | tree | 2α log₂ p | 2nβ log₂ p | nγ log₂ p |
# | doubling | α log₂ p | nβ log₂ p | nγ log₂ p |
# | Rabenseifner | 2α log₂ p | 2(p − 1)/p nβ | (p − 1)/p nγ |
# | ring | 2(p − 1) α | 2(p − 1)/p nβ | (p − 1)/p nγ |
#
# On 8 ranks, for example, recursive doubling costs 3α + 3nβ + 3nγ.
#
# For other p, one whole vector is handed in, added, and handed back, so doubling and Rabenseifner
# cost 2(α + nβ) + nγ more. In their rows, p is then the number of seats. A ring does not need a
# power of two.
#
# ### Predict
# Take 16 nodes with α = 2 µs, 1/β = 10 GB/s and γ = 0. From how many kB (1,000 bytes) on is
# Rabenseifner faster than doubling? You can set their two rows equal and solve for n.

# %%
predict("24.2", size_kB=...)


# %% [markdown]
# ### Measure: which algorithm is fastest where?
# Your functions now run on the **virtual cluster**, the simulator that [lab 23](23_ring_allreduce.ipynb) introduced. The
# machine is a model of nodes with K80 GPUs and EDR (Enhanced Data Rate) InfiniBand, with one rank
# on each node.
#
# The cell first compares your prediction with a run, and then prints the numbers of the model. The
# map below them has a field for each vector size and number of ranks. The letter and the color of a
# field show the fastest algorithm, and `Ri=Ra` means that both take equally long. This takes about
# 10 s.

# %%
def seconds(way, p, nbytes, machine):
    """The way's time on p virtual nodes: 256 values stand for so many bytes."""
    vector = virtual.vector(np.ones(256), stands_for=nbytes)
    return virtual.Cluster(p, 1, machine).run(WAYS[way], vector).time


def halving_is_faster(nbytes):
    ideal = virtual.ideal(2e-6, 10e9)
    return seconds("Rabenseifner", 16, nbytes, ideal) < seconds("doubling", 16, nbytes, ideal)


# The shortest vector, by bisection:
crossing = bisect_left(range(1_000_000), True, lo=1, key=halving_is_faster)
predict.right("24.2", size_kB=crossing / 1000)
print(virtual.machine(cluster))
on_map = {}
for way in WAYS:
    places = [(n, p) for p in map_ranks for n in map_sizes]
    on_map[way] = {(n, p): seconds(way, p, n, cluster) for n, p in places}
plots.crossover(on_map, names=WAYS, title=f"The fastest allreduce on {cluster}, virtual time")

# %% [markdown]
# **Explain.** With 16 ranks the two rows are equal if 4α + 4nβ = 8α + 1.875nβ, so n is
# 4α/(2.125β) = 37.6 kB.
#
# Read the map's rows from left to right. You should see:
#
# - On 4, 8, 16, … ranks mostly doubling is fastest for short vectors and Rabenseifner for long
#   ones.
# - On 2 ranks the ring and Rabenseifner send the same messages, so wherever they are fastest the
#   field shows both.
# - The tree is fastest in no field, because doubling takes fewer steps with the same vectors.
# - On 3, 6, 12, 24 and 48 ranks the ring is fastest for long vectors.
#
# <details><summary>Why is the ring faster than Rabenseifner on 3, 6, 12, … ranks?</summary>
#
# With these numbers of ranks Rabenseifner pays for handing in and handing back, which costs two
# whole vectors, and the ring pays nothing extra.
# </details>
#
# One column is an exception. On 4, 8, 12, 16 and 24 ranks Rabenseifner is fastest at 16 KiB, but
# not in the next column. We suspect the handshake, because the cost formulas do not contain one. In
# this model a message of up to `eager` bytes is sent at once, while a longer one first waits for a
# *handshake* with the receiver (the [rendezvous](../labs/GLOSSARY.md#rendezvous) of [lab 20](20_ranks_and_messages.ipynb)).
#
# The next cell is the control, which runs 16 KiB on 16 ranks with the model's handshake, and then
# in a model without one.

# %%
# Without a handshake: a model in which messages of any size are sent at once.
as_it_is = virtual.machine(cluster)
for label, model in (("with", as_it_is), ("without", as_it_is.but(eager=float("inf")))):
    took = {way: seconds(way, 16, 16384, model) * 1e6 for way in ("doubling", "Rabenseifner")}
    print(f"{label} a handshake:", ", ".join(f"{way} {us:.1f} µs" for way, us in took.items()))


# %% [markdown]
# **Explain.** With the handshake, doubling takes 66.8 µs and Rabenseifner 43.0 µs. Without it,
# doubling takes only 26.8 µs, so it is faster, as the formulas say.
#
# In this model `eager` is 12 KiB. At 16 KiB doubling's whole vectors wait for a handshake, while
# Rabenseifner's halves of 8 KiB do not. In the next column, at 64 KiB, even the first halves, of
# 32 KiB, are longer than `eager`. No formula of this lab shows such a jump, which is one reason to
# measure.
#
# The next cell draws the formulas themselves, for any link. Move the sliders: which of them move
# the crossing of doubling and Rabenseifner to the right?

# %%
def draw_costs(ranks, latency_us, gigabytes_per_s):
    formulas = {
        "doubling": scaling.costs.recursive_doubling_allreduce_time,
        "Rabenseifner": scaling.costs.rabenseifner_allreduce_time,
        "ring": scaling.costs.ring_allreduce_time,
    }
    link = {"alpha": latency_us * 1e-6, "beta": 1e-9 / gigabytes_per_s}
    bytes_of_vector = [4**k for k in range(3, 14)]
    plots.lines(
        {
            way: {n: 1e6 * cost(n, ranks, **link) for n in bytes_of_vector}
            for way, cost in formulas.items()
        },
        xlabel="bytes of the vector",
        ylabel="time (µs)",
        title=f"{ranks} ranks, {latency_us} µs, {gigabytes_per_s} GB/s",
        logx=True,
        logy=True,
        name="costs",
    )


plots.slider(
    draw_costs, ranks=(4, 8, 16, 24, 64), latency_us=(1, 2, 5, 20), gigabytes_per_s=(1, 3, 10)
)


# %% [markdown]
# **Explain.** Two curves cross where the messages that one algorithm saves cost as much as the
# bytes that the other one saves. On 4 ranks and without additions, 2α + 2nβ = 4α + 1.5nβ gives n =
# 4 α/β. The crossing is thus proportional to α/β, so a larger [latency](../labs/GLOSSARY.md#latency) and a larger [bandwidth](../labs/GLOSSARY.md#bandwidth) both
# move it to the right.
#
# More ranks move the crossing to the left. On 64 ranks doubling saves 6 messages and sends 6
# vectors instead of 1.97, so n = 6/(6 − 1.97) α/β = 1.5 α/β.
#
# With 24 ranks there are 16 seats. The two vectors that are handed in and back cost the same with
# both algorithms, so the crossing is that of 16 ranks.
#
# ## Choosing by a table
# The map holds for one modeled machine. For a real machine, a library stores the measured times of
# a few sizes and numbers of ranks in a *tuning table*, and for any other size it uses the nearest
# entry.
#
# Because sizes range from bytes to megabytes, we judge by the ratio which entry is nearest. For
# example, suppose that the table has entries for 400 and 2048 bytes and we need 1000. Judged by the
# difference, 400 would be nearer. However, 2048 is 2 times as large as 1000, and 1000 is 2.5 times
# as large as 400, so 2048 is the nearer entry by ratio.
#
# **All ranks have to choose the same algorithm.** Otherwise they wait for each other forever or
# compute wrong sums. For this reason the choice may depend only on bytes, ranks, and a table that
# is the same on all ranks.
#
# ### Exercise 24.3 · Your tuning table
# `times[ranks][nbytes][way]` contains measured seconds. The function `min` with a `key` finds the
# nearest entry. For example, `min([400, 2048], key=lambda n: abs(n - 1000))` is 400, the nearer
# entry by difference. Write two functions:
#
# 1. `choose` returns the name of the fastest way at the **nearest** entry of the table. First take
#    the nearest number of ranks, and for this number the nearest number of bytes, both *by ratio*,
#    so compare logarithms. A vector can have 0 bytes, which counts as 1 byte. This takes about 3
#    lines.
# 2. `allreduce_tuned` calls its argument `pick(bytes, ranks)`, which returns a name, and runs the
#    algorithm of that name in `WAYS`. For a vector of 6 float64 values on 3 ranks, for example, it
#    calls `pick(48, 3)`. (Later, `pick` will be your `choose` with a measured table.) This takes 1
#    line. *(intermediate)*
#
# <details><summary>Hint 1: nearest and fastest</summary>
#
# `min(times, key=lambda p: abs(np.log2(p / ranks)))` is the nearest number of ranks. To avoid the
# logarithm of 0 bytes, use `max(nbytes, 1)`. `min(row, key=row.get)` is the way with the fewest
# seconds in `row`.
# </details>
# <details><summary>Hint 2: use it</summary>
#
# Get the name with `way = pick(…, …)`, and call `WAYS[way]` with `comm` and `vector`. `len(vector)`
# counts values, while `vector.nbytes` counts bytes.
# </details>

# %%
def choose(times, nbytes, ranks):
    """The fastest way in `times` at the nearest ranks, and there at the nearest bytes."""
    raise NotImplementedError("exercise 24.3: Your tuning table")


def allreduce_tuned(comm, vector, pick):
    """Sum by the way that pick(bytes, ranks) names."""
    raise NotImplementedError("exercise 24.3: Your tuning table")


# %%
# Asked: `choose` names the fastest way of each case, `pick` gets bytes and
# ranks, and the way that it names is the one that runs.
check("24.3", choose, allreduce_tuned)


# %% [markdown]
# ### Measure: a tuning table for this machine
# The next cell measures all algorithms on real ranks. They take turns, so that interference from
# other programs affects all of them. The cell starts no more ranks than there are cores (but at
# least two), because additional ranks would wait for a core and not for a message. A batch job also
# measures on all of its ranks. This takes about 10 s for each number of ranks.

# %%
def race(comm, times=None):
    """way -> bytes -> Measurement; with `times`, of your choice too."""
    # None: in place.
    ways = {**WAYS, "MPI's own": lambda comm, vector: comm.Allreduce(None, vector)}
    if times:
        remembered = lru_cache(partial(choose, times))  # looks a size up once
        ways["your choice"] = partial(allreduce_tuned, pick=remembered)
    rows = {}
    for n in sizes:
        calls = {
            way: partial(function, comm, np.zeros(n // 4, np.float32))
            for way, function in ways.items()
        }
        batch = 1 if n > 16384 else 10
        # Across ranks: comm= starts all together and counts the slowest, so all ranks get the same
        # times.
        rows[n] = timing.in_turns(calls, comm=comm, repeat=50, seconds=moment, batch=batch)
    return {way: {n: row[way] for n, row in rows.items()} for way in ways}


most = launch.ranks_here(max(2, world.cores()))
tried = {p for p in table_ranks if p <= most}
if world.launcher():
    tried.add(most)
raced = {p: launch.run(race, ranks=p)[0] for p in sorted(tried)}

# %% [markdown]
# From these times your `choose` makes the table, which the next cell draws as a map. The curves
# below it belong to the largest number of ranks, and MPI's own allreduce is among them.

# %%
times = {
    p: {n: {way: row[way][n].median for way in WAYS} for n in sizes} for p, row in raced.items()
}
table = {(n, p): choose(times, n, p) for p in times for n in sizes}
record.add("tuning table", fastest=[[*place, way] for place, way in table.items()], seconds=times)
measured = {way: {(n, p): row[way][n] for p, row in raced.items() for n in sizes} for way in WAYS}
plots.crossover(measured, names=WAYS, title="The fastest on real ranks")
most = max(raced)
curves = {way: raced[most][way] for way in [*WAYS, "MPI's own"]}
plots.bandwidth(curves, title=f"Allreduce on {most} real ranks")

# %% [markdown]
# **Explain.** A field with `=` has no single fastest algorithm, because the [interquartile ranges](../labs/GLOSSARY.md#interquartile-range) of
# the measurements overlap. If only few fields have a single letter, the machine is busy or has few
# cores.
#
# With a free core for each rank, you should see that the algorithms with few messages are fastest
# for short vectors, and those with few bytes for long vectors.
#
# On 2 ranks, however, doubling, ring and Rabenseifner send equally many bytes, so for long vectors
# only the additions differ. Ring and Rabenseifner even send messages of equal number and length. If
# one of them seems to be faster there, the difference shows how large the noise and Python's own
# time are, and you should trust only larger differences.
#
# To measure on a cluster, use `make submit LAB=24`.
#
# ### What you take away
# - Recursive doubling takes log₂ p steps and is for short vectors. Rabenseifner's algorithm takes 2
#   log₂ p steps, sends as few bytes as the ring, and is for long vectors.
# - If the number of ranks is not a power of two, MPICH's method costs two more messages of a whole
#   vector. A ring works with any number of ranks at no extra cost.
# - All ranks have to use the same table, and a table is valid for the machine on which it was
#   measured.
#
# ## Going further (optional): what do real libraries choose?
# The time stated for this lab does not include the following three parts, which take about 15
# minutes more.
#
# ### What does your MPI choose?
# MPICH 5, which [mpi4py](https://mpi4py.readthedocs.io) uses here, follows a fixed rule. It chooses doubling for vectors
# of up to 8 bytes or with fewer values than seats, and otherwise Rabenseifner (see its
# `maint/tuning/coll/mpir/generic.json`). Is this a good choice for your machine?
#
# We can find out, because the environment variable `MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM` makes
# MPICH use another algorithm. (Other MPI libraries ignore it.) The next plot has a curve for each
# setting, which shows MPI's time divided by the time of your choice. Values above 1 mean that your
# choice is faster, and values below 1 mean that MPI is. This takes about 40 s.

# %%
ranks = max(2, min(4, world.cores()))
algorithms = {"MPI's choice": "auto"}
if world.launcher() is None:  # only here can the variable still be set for the ranks
    algorithms["doubling"] = "recursive_doubling"
    algorithms["Rabenseifner"] = "reduce_scatter_allgather"
    algorithms["ring"] = "ring"
compared = {}
for label, name in algorithms.items():
    row = launch.run(race, times, ranks=ranks, env={"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": name})[0]
    pairs = {n: (row["MPI's own"][n], row["your choice"][n]) for n in sizes}
    compared[label] = {n: theirs.samples / yours.median for n, (theirs, yours) in pairs.items()}
plots.lines(
    compared,
    logx=True,
    logy=True,
    xbytes=True,
    xlabel="size of the vector",
    ylabel="MPI's time / your choice's",
    title=f"MPI on {ranks} ranks: above 1 your choice is faster",
)
print(
    f"Your choice on {ranks} ranks:",
    ", ".join(f"{n} bytes: {choose(times, n, ranks)}" for n in sizes),
)

# %% [markdown]
# **Explain.** With a free core for each rank, you should see MPI with *doubling* below 1 for short
# vectors. Where you chose doubling as well, this compares the same algorithm in C and in Python.
# From 128 bytes on, the curve of *MPI's choice* is higher than that of *doubling*, because MPI uses
# Rabenseifner there, which has twice as many messages.
#
# Where a selected algorithm lies below *MPI's choice* by more than the bars, the variable is worth
# setting on this machine. MPICH's rule cannot know this, because the fastest algorithm depends on
# α, β and γ of your machine. If the bars overlap, the plot does not show a difference.
#
# ### Aluminum: where short vectors occur
# A training program that allreduces the gradient of each layer as soon as it has been computed
# ([lab 32](32_buckets_and_overlap.ipynb)) has many short vectors. ResNet-50, for example, has 107 layers with parameters. The table
# shows what these layers pay for latency alone on 64 nodes of the map's cluster, where α is 5 µs:
#
# | | messages one after another, per layer | latency of all 107 layers |
# |---|---|---|
# | ring | 126 | 107 · 126 · 5 µs = 67 ms |
# | doubling | 6 | 107 · 6 · 5 µs = 3.2 ms |
#
# Doubling sends six whole vectors, however, and is slow for the long layers.
#
# **Aluminum**, a library of Lawrence Livermore National Laboratory, therefore selects the algorithm
# according to the size (Dryden et al., 2018). On CPUs, up to version 1.0, it used recursive
# doubling up to 512 values and Rabenseifner's algorithm above (see its
# `include/aluminum/mpi_impl.hpp`), which are the two functions that you have written.
#
# A single vector with all layers would pay for latency only once, but its allreduce can start only
# when the last gradient has been computed. [Lab 32](32_buckets_and_overlap.ipynb) compares the two costs.
#
# ### NCCL's two trees
# [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html) (NVIDIA [Collective](../labs/GLOSSARY.md#collective) Communications Library) selects a ring or **two trees** according
# to the size. It has had the trees since version 2.4, and each tree handles half of the vector.
#
# The GPUs of a node form a chain, and the first GPUs of all nodes form a tree. Partial sums go up
# the chain and the tree, and the result comes down again. For 8 nodes the first tree looks like
# this, with node 0 as its root:
#
#              0
#              |
#              4
#            /   \
#           2     6
#          / \   / \
#         1   3 5   7
#
# In a single tree nodes 2, 4 and 6 would do most of the work. [NCCL](../labs/GLOSSARY.md#NCCL) therefore builds a second tree
# in which these nodes are leaves (see its `src/graph/trees.cc`). In each tree, a node sends half a
# vector to its parent and to each of its children, which makes three halves at most, or one half as
# a leaf. As a result no node sends more than two vectors, however many nodes there are. In a single
# binomial tree of 64 nodes the root sends six.
#
# The trees also have few messages that wait for one another. The table compares three algorithms on
# 16 nodes of 4 GPUs each. Its sums add the messages inside a node and those between nodes, and [NIC](../labs/GLOSSARY.md#NIC)
# stands for the network interface card of a node:
#
# | | messages one after another | vectors sent through a node's NIC |
# |---|---|---|
# | two trees | 2 · 3 + 2 · 4 = 14 | at most 2 |
# | two dimensions: inside the nodes, then between them ([lab 26](26_hierarchical_allreduce.ipynb)) | 2 · 3 + 2 · 15 = 36 | 1.875 |
# | ring of all GPUs | 126 | 1.97 |
#
# For this reason the trees are good for short vectors and can also be fast for long ones. (A
# [Horovod](https://horovod.readthedocs.io) that was built for NCCL uses the two dimensions with
# `HOROVOD_TORUS_ALLREDUCE=1`.)
#
# NCCL prints what it has chosen (since version 2.20, with `NCCL_DEBUG_SUBSYS=TUNING`). On three
# hosts with 8 H100s each it chose the tree up to 256 KiB. From 512 KiB on it chose a tree in which
# the NVLink switch adds inside the node ([NCCL issue 1453](https://github.com/NVIDIA/nccl/issues/1453)).
#
# ### Further reading
# - R. Thakur, R. Rabenseifner and W. Gropp, *[Optimization of Collective Communication Operations in MPICH](https://doi.org/10.1177/1094342005051521)*, International Journal of High Performance Computing Applications 19(1), 2005. How MPICH chooses its collective algorithms by size, with the cost formulas of
#   this lab.
# - R. Rabenseifner, *[Optimization of Collective Reduction Operations](https://doi.org/10.1007/978-3-540-24685-5_1)*, ICCS, 2004. The halving algorithm, also for numbers of ranks that are not powers of two.
# - E. Chan, M. Heimlich, A. Purkayastha and R. van de Geijn, *[Collective communication: theory, practice, and experience](https://doi.org/10.1002/cpe.1206)*, Concurrency and Computation 19(13), 2007. Derives these algorithms and their lower bounds in one framework.
# - N. Dryden et al., *[Aluminum: An Asynchronous, GPU-Aware Communication Library Optimized for Large-Scale Training of Deep Neural Networks on HPC Systems](https://doi.org/10.1109/MLHPC.2018.8638639)*, MLHPC, 2018. Why latency matters when each layer is allreduced separately.
# - P. Sanders, J. Speck and J. Träff, *[Two-tree algorithms for full bandwidth broadcast, reduction and scan](https://doi.org/10.1016/j.parco.2009.09.001)*, Parallel Computing 35(12), 2009. The idea behind NCCL's two trees.
# - [Massively Scale Your Deep Learning Training with NCCL 2.4](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/). How NCCL 2.4 introduced them.
