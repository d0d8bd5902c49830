# %% [markdown]
# <!-- Generated from solutions/24_trees_and_halving.py by `make labs`. Learners work on a copy in work/. -->
# # 24 Trees and halving
#
# No allreduce is best for one number and for a hundred megabytes: build the two that are missing,
# and choose.
#
# **You will be able to** (1) write an allreduce by recursive doubling and by Rabenseifner's
# halving, for any number of ranks, (2) say from the price of a message, a byte and an addition
# which of them leads at which size, (3) measure a tuning table on your own machine and choose by
# it.
#
# Needs: mpi · Ranks: 4 · Minutes: 60 · Level: intermediate · Before: 21, 22, 23

# %%
from functools import lru_cache, partial

import numpy as np
import virtual
from labkit import check, hint, lab, launch, nets, plots, predict, record, timing, world
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
# Two allreduces are there already, in `labkit.collectives`. [Lab 21](21_collectives.ipynb)'s tree sends whole vectors up to
# the root and down again; in the round next to the root only two ranks have anything to do. [Lab 23](23_ring_allreduce.ipynb)'s ring sends few bytes, but needs 2(p - 1) rounds. Is there a way with few rounds in which
# nobody idles?
#
# ### Recursive doubling
# Let *all* ranks swap their vectors with a partner, in every round, and add what comes. After the
# first round a vector holds the sum of 2 ranks, then of 4, then of 8. Each digit shows who is in a
# sum:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 | 10 | 100 | 1000 |
# | distance 1: 0 and 1 swap, 2 and 3 swap | 11 | 11 | 1100 | 1100 |
# | distance 2: 0 and 2 swap, 1 and 3 swap | 1111 | 1111 | 1111 | 1111 |
#
# The partner of `me` at a distance of 1, 2, 4, … is `me ^ distance`. The operator `^` flips one bit
# of a number: 2 is 10 in binary, so `2 ^ 1` is 11, which is 3, and `3 ^ 1` is 2 again. So each is
# the other's partner.

# %%
# Drawing: eight ranks.
arrows = []
for step, distance in enumerate(doublings(8)):
    for rank in range(8):
        arrows.append((rank, rank ^ distance, "", step))
plots.messages(arrows, 8, title="Recursive doubling: every rank swaps in every round")


# %% [markdown]
# ### Exercise 24.1 · Recursive doubling
# Write it for a power of two of ranks. They sit in *seats*: `seats[i]` is the rank in seat i, and
# `me` is this rank's seat. Soon only some ranks will have a seat, so a seat's number is not its
# rank: the `^` goes from seat to seat, and `seats` says which rank sits there. Swap by one
# `comm.Sendrecv` of the whole `vector` into `box`, and add `box` into `vector`. 3 lines.
# *(beginner)*
#
# <details><summary>Hint 1: with whom?</summary>
#
# The partner sits in seat `me ^ distance`: its rank is `seats[me ^ distance]`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)`, then `vector += box`.
# </details>

# %%
def doubling(comm, vector, seats, me):
    """Sum the vectors of the ranks in `seats` (1, 2, 4, 8, … of them), in place. me: this rank's
    seat."""
    box = np.empty_like(vector)
    for distance in doublings(len(seats)):  # for 8 seats 1, 2, 4
        raise NotImplementedError("exercise 24.1: Recursive doubling")


# %%
# Asked: The sum is right on 1 to 16 ranks after lg p rounds, with lg p vectors
# sent by each, and partners are found by seats, not by ranks.
check("24.1", doubling)


# %% [markdown]
# ### Any number of ranks
# With 6 ranks there is no partner for everybody. MPICH's way: a power of two of ranks takes part,
# here 4, and the 2 that are too many get somebody who works for them. The first ranks form pairs,
# (0, 1) and (2, 3). The left one of a pair *hands in* its vector to the right one, and waits. So
# ranks 1, 3, 4 and 5 get a seat. Afterwards the sum is handed back. The function below does that,
# around your `doubling`.
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
        # Across ranks: one too many for a power of two, so the right neighbour works for both.
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
# ### Halving, then doubling
# Doubling sends the *whole* vector in each of its lg p rounds (lg: the logarithm to base 2).
# Rabenseifner (2004) sends less. Partners swap *halves*: each gives away one half and keeps the
# other. So each half is added by one of the two, not by both. In the next round they halve what
# they have kept. In the end each has one p-th of the sum:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | before | 1 2 3 4 | 10 20 30 40 | 100 200 300 400 | 1000 2000 3000 4000 |
# | distance 1 | 11 22 · · | · · 33 44 | 1100 2200 · · | · · 3300 4400 |
# | distance 2 | 1111 · · · | · · 3333 · | · 2222 · · | · · · 4444 |
# | back, distance 2 | 1111 2222 · · | · · 3333 4444 | 1111 2222 · · | · · 3333 4444 |
# | back, distance 1 | 1111 2222 3333 4444 | the same | the same | the same |
#
# Read the second line: rank 0 gave its upper half to rank 1 and got rank 1's lower half. At each
# distance the seat whose number lacks the bit `distance` (the left one of the two) keeps the lower
# half of what it has, its partner the upper. On the way back, in the opposite order, each sends
# what it has and receives the part that it had given away; nothing is added.
#
# ### Predict
# How many rounds do 16 ranks need, there and back? How many vectors does each of them send in all
# (1/2 + 1/4
# + …, twice)? And of 17 ranks, the one that works for two and hands the sum back?

# %%
predict("24.2", rounds=..., vectors_sent=..., sent_for_two=...)


# %% [markdown]
# ### Exercise 24.2 · Halving
# In the seats again. A rank is in charge of `vector[low:high]`, at first of all of it. The loop is
# there, with the partner and the `middle` of that part. Write one round:
#
# 1. Which half do you `keep`, which do you `give`? Make both slices: with `part = slice(2, 5)`,
#    `vector[part]` is `vector[2:5]`, and `part.start` is 2, `part.stop` 5. `me & distance` is 0
#    where `me` lacks that bit.
# 2. Swap: what comes fits into `box[keep]`, as `box` is as long as `vector`. Add only what you
#    keep.
# 3. Be in charge of that half from now on, and append `(partner, keep, give)` to `trail`.
#
# The way back reads `trail` from its end. There one `Sendrecv` is left to write. About 9 lines.
# *(advanced)*
#
# <details><summary>Hint 1: the halves</summary>
#
# `keep = slice(low, middle)`, `give = slice(middle, high)`, the other way round `if me & distance`.
# Then `low, high = keep.start, keep.stop`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)`, then
# `vector[keep] += box[keep]`. The way back sends `vector[keep]`, with `recvbuf=vector[give]`.
# </details>

# %%
def halving(comm, vector, seats, me):
    """Sum the vectors of the ranks in `seats` (1, 2, 4, 8, … of them), in place. me: this rank's
    seat."""
    box = np.empty_like(vector)
    low, high = 0, len(vector)
    trail = []  # (partner, keep, give) of each round
    for distance in doublings(len(seats)):
        partner = seats[me ^ distance]
        middle = (low + high) // 2  # the same on both partners, for any length
        raise NotImplementedError("exercise 24.2: Halving")
    for partner, keep, give in reversed(trail):
        raise NotImplementedError("exercise 24.2: Halving")


# %%
# Asked: The sum is right on any number of ranks, after 2 lg p rounds with 2 (p
# - 1)/p vectors sent by each (for other p two rounds and a vector more), and no
# rank adds more than it keeps.
check("24.2", halving)

# %%
WAYS["Rabenseifner"] = partial(for_any, among=halving)
near = [0, 1, 2, 3, 4, 5, 6, 7]  # 8 ranks, 2 a node: seats 0 and 1 on one node
far = [0, 4, 2, 6, 1, 5, 3, 7]  # seats 0 and 1 on two nodes
for where, seats in (("one node", near), ("two nodes", far)):
    crossed = lab24.vectors_between_nodes(halving, seats)
    print(f"Neighbours on {where}: {crossed:g} vectors cross between the nodes.")

# %% [markdown]
# **Explain.** Does it matter who sits in neighbouring seats? In both cases each rank sends 1.75
# vectors, in as many rounds. But the first swap is the largest: half a vector each way. With
# neighbours on one node it stays inside. With neighbours on two nodes, which is the control, twice
# as much goes over the network. So begin with the neighbour; MPICH does, too.
#
# ### What it costs
# Say α seconds for a message, β for a byte sent, γ for a byte added ([lab 22](22_latency_and_bandwidth.ipynb); the formulas are
# MPICH's, and those of `labkit.scaling`). n is the vector's size in bytes. Seconds for p = 2, 4, 8,
# 16, … ranks:
#
# | | of messages | of bytes sent | of bytes added |
# |---|---|---|---|
# | doubling | lg p α | lg p nβ | lg p nγ |
# | Rabenseifner | 2 lg p α | 2(p - 1)/p nβ | (p - 1)/p nγ |
# | ring | 2(p - 1) α | 2(p - 1)/p nβ | (p - 1)/p nγ |
#
# For any other p the first two need more: handing in and handing back are two messages of a *whole*
# vector, and one vector is added. That is 2(α + nβ) + nγ, on top of the row for as many ranks as
# have a seat. A ring needs no power of two.
#
# ### Predict
# 16 nodes, α = 2 µs, 1/β = 10 GB/s, γ = 0. From how many kB on does Rabenseifner lead doubling? Set
# the first two rows equal.

# %%
predict("24.2", size_kB=...)


# %% [markdown]
# ### Measure: who leads where?
# Now your functions on a virtual cluster: a model of nodes with K80 GPUs and EDR InfiniBand.
# Messages of up to `eager` bytes go at once; longer ones first wait for a *handshake* with the
# receiver ([lab 20](20_ranks_and_messages.ipynb)). The map shows who is fastest: a letter and a color for each algorithm, the same
# in all maps of this lab. `Ra=Ri` means that both take equally long. About 20 s.

# %%
def seconds(way, p, nbytes, machine):
    """The way's time on p virtual nodes: 256 values stand for so many bytes."""
    vector = virtual.vector(np.ones(256), stands_for=nbytes)
    return virtual.Cluster(p, 1, machine).run(WAYS[way], vector).time


lead = 1000  # bytes
ideal = virtual.ideal(2e-6, 10e9)
while seconds("doubling", 16, lead, ideal) < seconds("Rabenseifner", 16, lead, ideal):
    lead += 500
predict.right("24.2", size_kB=lead / 1000)
print(virtual.machine(cluster))
on_map = {}
for way in WAYS:
    places = [(n, p) for p in map_ranks for n in map_sizes]
    on_map[way] = {(n, p): seconds(way, p, n, cluster) for n, p in places}
plots.crossover(on_map, names=WAYS, title=f"Who leads on {cluster}, by virtual clock")

# %%
# A control: 16 KiB on 16 nodes, with that cluster's handshake and without one.
as_it_is = virtual.machine(cluster)
for label, model in (("with", as_it_is), ("without", as_it_is.but(eager=float("inf")))):
    took = {way: seconds(way, 16, 16384, model) * 1e6 for way in ("doubling", "Rabenseifner")}
    print(f"{label} a handshake:", ", ".join(f"{way} {us:.1f} µs" for way, us in took.items()))


# %% [markdown]
# **Explain.** From left to right in the rows of 4, 8, 16 …: doubling, then Rabenseifner. On p = 2
# ring and Rabenseifner are the same messages. On 3, 6, 12, 24, 48, the ring leads for long vectors.
# Why?
# <details><summary>Answer</summary> Rabenseifner pays two whole vectors there for handing in and back, the
# ring pays nothing.</details>
#
# At 16 KiB Rabenseifner leads, and on 4 to 16 nodes it loses the lead again in the next column.
# Why? (`eager` is 12 KiB here.)
# <details><summary>Answer</summary> `eager` is 12 KiB. At 16 KiB doubling's whole vectors wait for a
# handshake, the halves of 8 KiB do not. The control says so: without the handshake doubling leads.
# At 64 KiB even the first halves, of 32 KiB, are above `eager`. The closed forms know of no
# handshake. So measure.</details>
#
# ### Exercise 24.3 · Your tuning table
# `times[ranks][nbytes][way]` are measured seconds. `choose` takes the fastest way at the
# **nearest** place of the table: first the nearest ranks, then there the nearest bytes. Near means
# *by ratio*: 1000 is nearer to 2048 (2 times) than to 400 (2.5 times), so compare logarithms. A
# vector may have 0 bytes.
#
# Then `allreduce_tuned` asks `pick(bytes, ranks)` for a name and runs that way. (`pick` will be
# your `choose` with a table filled in.) **All ranks must choose alike**, or they wait for each
# other for ever, or get wrong sums: only bytes, ranks and a table that is the same everywhere may
# decide. 4 lines. *(intermediate)*
#
# <details><summary>Hint 1: nearest and fastest</summary>
#
# `min(times, key=lambda p: abs(np.log2(p / ranks)))` are the nearest ranks. For 0 bytes take
# `max(nbytes, 1)`. `min(row, key=row.get)` is the way with the least seconds in `row`.
# </details>
# <details><summary>Hint 2: use it</summary>
#
# `way = pick(…, …)`; then call `WAYS[way]` with `comm` and `vector`. `len(vector)` are values,
# `vector.nbytes` bytes.
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
# ### Measure
# All ways take turns, so noise hits all alike. There are no more ranks than cores: others would
# wait for a core, not for a message, and the table would measure the scheduler. About 15 s for each
# number of ranks.

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


raced = {}
for p in table_ranks:
    if p <= max(2, world.cores()) or world.launcher():
        raced[launch.ranks_here(p)] = launch.run(race, ranks=p)[0]

# %%
times = {
    p: {n: {way: row[way][n].median for way in WAYS} for n in sizes} for p, row in raced.items()
}
table = {(n, p): choose(times, n, p) for p in times for n in sizes}
record.add("tuning table", fastest=[[*place, way] for place, way in table.items()], seconds=times)
measured = {way: {(n, p): row[way][n] for p, row in raced.items() for n in sizes} for way in WAYS}
plots.crossover(measured, names=WAYS, title="Who leads on real ranks of this machine")
most = max(raced)
curves = {way: raced[most][way] for way in [*WAYS, "MPI's own"]}
plots.bandwidth(curves, title=f"Allreduce on {most} real ranks of this machine")


# %% [markdown]
# **Explain.** A field with `=` has no winner: the middle halves of the runs overlap. On 2 ranks,
# ring and Rabenseifner send the very same messages. So where one of the two seems to lead there,
# you see how large noise and Python's own time are. Trust only leads that are larger.
#
# You should see: the ways with few messages lead at the left, those with few bytes at the right.
# You may see instead: few fields with one letter only. Then the machine is busy, or has few cores.
# On a cluster, run this lab as a job: `make submit LAB=24`.
#
# ### What you take away
# - Recursive doubling: lg p rounds, for short vectors. Rabenseifner: 2 lg p rounds and the fewest
#   bytes.
# - Ranks beyond a power of two cost two whole vectors in MPICH's way; a ring, of any size, does not
#   pay for them.
# - All ranks go by one table, and a table holds for the machine on which it was measured.
#
# ### For those who have time: a formula, and what your MPI picks
# What follows is not in the 60 minutes of this lab. It takes about 25 more.
#
# ### Where the lead changes
# From which size on does Rabenseifner lead doubling, for any α, β, γ and p = 4, 8, 16, …? Set the
# first two rows of the costs equal and solve for n. Doubling saves lg p messages. For that each
# byte costs it (lg p - 2(p - 1)/p) β + (lg p - (p - 1)/p) γ more.

# %%
def crossover(p, alpha, beta, gamma):
    """Bytes from which Rabenseifner leads doubling. Seconds per message, per byte sent, per byte
    added."""
    more_per_byte = (np.log2(p) - 2 * (p - 1) / p) * beta + (np.log2(p) - (p - 1) / p) * gamma
    return np.log2(p) * alpha / more_per_byte


# The formula beside the map: α without the handshake, and with it.
link = as_it_is.between
for p in (4, 16, 64):
    for label, alpha in (("without", link.alpha), ("with", link.alpha + as_it_is.handshake)):
        n = crossover(p, alpha, link.beta, as_it_is.gamma)
        print(f"{p} nodes, α {label} the handshake: Rabenseifner leads from {n / 1024:.0f} KiB")

# %% [markdown]
# **Explain.** Look at the map again. On 4 nodes the lead changes between 256 KiB and 1 MiB. That is
# where the formula says if α holds the handshake: at these sizes every message waits. On 64 nodes
# it changes earlier: most of Rabenseifner's pieces are shorter than `eager` there, and do not wait.
# The formula has one α for all messages.
#
# ### Aluminum: short sums behind the backward pass
# Who sums short vectors? A trainer that begins to sum each layer's gradient as soon as it is there
# ([lab 32](32_buckets_and_overlap.ipynb)). **Aluminum**, a library of Lawrence Livermore National Laboratory, is made for that
# (Dryden and others, MLHPC 2018). Its authors found that then latency, not bandwidth, costs most of
# the time. So Aluminum takes two kinds of algorithm, by size. On CPUs, up to version 1.0, it was
# recursive doubling up to 512 values and Rabenseifner above (its `include/aluminum/mpi_impl.hpp`):
# your two functions.
#
# ### Predict
# ResNet-50 has 107 layers with parameters, together 102 MB. On 64 nodes of the map's cluster, where
# α is 5 µs: how many milliseconds of latency have 107 sums by the *ring*, one after another?

# %%
predict("24.3", ring_latency_ms=...)

# %%
# Each layer's sum on the virtual cluster, alone. About 5 s.
nodes = max(map_ranks)
layers = 4 * nets.layer_table("resnet50").query("parameters > 0").parameters  # bytes of each
short = 65536  # bytes
names = ("ring", "doubling", "Rabenseifner")
alone = {(way, n): seconds(way, nodes, n, as_it_is) for way in names for n in sorted(set(layers))}


def of_layers(choose_way):
    """Milliseconds of the sums of all layers, {"short": …, "long": …}. choose_way(bytes): a
    name."""
    parts = {"short": 0.0, "long": 0.0}
    for n in layers:
        parts["short" if n <= short else "long"] += 1e3 * alone[choose_way(n), n]
    return parts


# %%
border = crossover(nodes, link.alpha, link.beta, as_it_is.gamma)
totals = {way: of_layers(lambda n, way=way: way) for way in names}
totals["yours"] = of_layers(lambda n: "doubling" if n < border else "Rabenseifner")
totals["Aluminum's"] = of_layers(lambda n: "doubling" if n <= 4 * 512 else "Rabenseifner")
plots.bars(
    totals,
    ylabel="ms",
    title=f"{len(layers)} sums on {nodes} nodes: short ones count",
    name="layers",
)
for name, parts in totals.items():
    print(
        f"{name:>12}: {sum(parts.values()):6.1f} ms, of these {parts['short']:5.1f} ms for short"
        " ones"
    )
one_sum = 1e3 * seconds("Rabenseifner", nodes, sum(layers), as_it_is)
print(f"Rabenseifner, all layers in one vector: {one_sum:.1f} ms")
predict.compare("24.3", ring_latency_ms=1e3 * len(layers) * seconds("ring", nodes, 8, as_it_is))

# %% [markdown]
# **Explain.** *Yours* takes doubling below your `crossover`, and Rabenseifner above; *Aluminum's*
# is its own rule. You should see that the ring takes about four times as long as either. More than
# half of its latency goes to the 61 short layers, of up to 64 KiB, which have 0.6 % of the bytes.
# Doubling is good at these and bad at the rest. Rabenseifner alone is nearly as good as both rules:
# here it is the ring that one must not take for short vectors. On GPUs that was the choice at that
# time: NCCL had only rings until 2.4.
#
# One vector of all layers takes still less, as it pays for latency once. Why does not everybody do
# that?
# <details><summary>Answer</summary> It can begin only when the last gradient is there, and then nothing is
# left to hide it behind. [Lab 32](32_buckets_and_overlap.ipynb) weighs one against the other.</details>
#
# ### And what does your MPI pick?
# MPICH 5, which mpi4py uses here, takes doubling up to 8 bytes or for fewer values than seats, else
# Rabenseifner. The variable `MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM` makes it take another. (Another
# MPI does not know this variable; then all four curves show the same.) Below, MPI's time divided by
# that of your choice, which took turns with it: above 1 you lead, below 1 MPI does. About 60 s.

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
    title=f"MPI on {ranks} ranks: above 1 your choice leads",
)
print(
    f"Your choice on {ranks} ranks:",
    ", ".join(f"{n} bytes: {choose(times, n, ranks)}" for n in sizes),
)

# %% [markdown]
# **Explain.** You should see at short vectors: MPI with *doubling* forced lies below 1. Where your
# choice was doubling, too, that is the same algorithm, in C instead of Python. *MPI's choice* lies
# higher from 128 bytes on: there it takes Rabenseifner, which has twice as many messages. Where it
# lies above 1, you lead because of the algorithm: with doubling forced, MPI is ahead again.
#
# For long vectors the curves of one algorithm should come near 1. Where a forced curve lies below
# *MPI's choice* by more than the bars, the variable is worth setting on this machine. You may see
# instead bars that overlap: they say nothing, and the machine is busy.
#
# Why does MPICH not choose better by itself? <details><summary>Answer</summary> Its rule is the
# same on all machines. Which way leads depends on α, β, γ, and these on yours.</details>
#
# ### NCCL's two trees
# NCCL sums over *m* nodes by a ring, or by **two trees**, each for half of the vector. A node's
# GPUs are a chain, and the first GPUs of all nodes are a tree: sums go up the chain and the tree,
# and the result comes down again. For 8 nodes the first tree is drawn here, with node 0 as its
# root:
#
#              0
#              |
#              4
#            /   \
#           2     6
#          / \   / \
#         1   3 5   7
#
# In a single tree nodes 2, 4 and 6 would have most to do. So NCCL builds a second one, in which
# they are leaves (its `src/graph/trees.cc`). A node sends half a vector to its parent and to each
# of its children, in both trees. So none sends more than two vectors, however many nodes there are:
# hardly more than in a ring. In a single binomial tree of 64 nodes the root sends six. And few
# messages wait for one another: on 16 nodes of 4 GPUs 2 · 3 + 2 · 4 = 14 in a row, where a ring of
# all GPUs has 126. That is why NCCL's tree, since 2.4, is good at short vectors, and need not be
# slow for long ones. An allreduce in two dimensions, first within the nodes and then between them
# ([lab 26](26_hierarchical_allreduce.ipynb); `HOROVOD_TORUS_ALLREDUCE=1` in a Horovod built for NCCL), has 2 · 3 + 2 · 15 = 36 in a
# row, and sends 1.875 vectors over a node's card, where the ring sends 1.97.
#
# NCCL tells what it chose (since 2.20, with `NCCL_DEBUG_SUBSYS=TUNING`). On three hosts of 8 H100
# it took the tree up to 256 KiB; from 512 KiB on it took a tree in which the NVLink switch adds
# within the node ([NCCL issue 1453](https://github.com/NVIDIA/nccl/issues/1453)).
