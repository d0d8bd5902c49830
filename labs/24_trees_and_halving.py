# %% [markdown]
# # 24 Trees and halving
#
# No allreduce is best for one number and for a hundred megabytes: build the two that are missing, and choose.
#
# **You will be able to** (1) write an allreduce by recursive doubling and by Rabenseifner's halving, for any
# number of ranks, (2) say from the price of a message, a byte and an addition which of them leads at which
# size, (3) measure a tuning table on your own machine and hold it against what your MPI picks.
#
# Needs: mpi · Ranks: 4 · Minutes: 50 · Before: 21, 23

# %%
from functools import lru_cache, partial

import numpy as np
from labkit import check, expect, hint, lab, launch, plots, predict, record, timing, virtual, world
from labkit.collectives import doublings, ring_allreduce, tree_allreduce
from labkit.counting import expect_sum

lab.start("24_trees_and_halving")

# %% tags=["parameters"]
cluster = "k80_edr"  # the cluster of the map in 24.3, one of virtual.machines()
map_ranks = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # numbers of nodes in the map
map_sizes = (64, 512, 4096, 16384, 65536, 262144, 1048576, 4194304, 33554432)  # bytes per vector in the map
table_ranks = (2, 3, 4)  # numbers of real ranks in your tuning table
sizes = (8, 128, 2048, 16384, 131072, 1048576, 16777216)  # bytes per vector in the measurements
moment = 1.0  # seconds for all ways together at one size of vector; each has its turn 5 to 50 times
patience = 20  # seconds after which a check calls a program on real ranks stuck


# %% [markdown]
# Lab 21's tree sends whole vectors, up and down; the nearer to its root, the more ranks idle.
# Lab 23's ring sends little, but needs 2(p - 1) rounds. `labkit.collectives` has both. Is there better?
#
# ### Exercise 24.1 · Recursive doubling
# Let *all* ranks swap vectors with a partner and add, in every round: a vector then holds 2 ranks' values,
# then 4, then 8. *First*, in `doubling`, for a power of two of ranks: `seats[i]` is the rank in seat i. At
# distance 1, 2, 4, … seat `me` swaps with seat `me ^ distance`: `^` flips one bit, so each is the other's
# partner. 3 lines. *Then*, in `for_any`, any p, MPICH's way: `seats_of(p)` seats the largest power of two of
# ranks; of 6 it seats 1, 3, 4 and 5. A rank without a seat, here 0 and 2, `Send`s its vector to the rank on
# its right, which adds it, calls `among` (now `doubling`, later another), sends the sum back. About 10 lines.
#
# <details><summary>Hint 1: doubling, and who is without a seat</summary>
#
# One `comm.Sendrecv` of `vector` with `partner = seats[me ^ distance]`, into `box`; then add. No seat:
# `comm.rank not in seats`. A seated rank works for two if `comm.rank > 0 and comm.rank - 1 not in seats`.
# </details>
# <details><summary>Hint 2: any p, nearly the answer</summary>
#
# No seat: send to, then receive from `comm.rank + 1`, `return`. For two: receive from `comm.rank - 1` into a
# box, add; at the end send `vector` there. In a seat: `among(comm, vector, seats, seats.index(comm.rank))`.
# </details>

# %%
def seats_of(size):
    """The ranks that take part, by seat: as many as the largest power of two up to `size`."""
    power = 2 ** (size.bit_length() - 1)
    extra = size - power
    return [2 * seat + 1 if seat < extra else seat + extra for seat in range(power)]


# %%
def doubling(comm, vector, seats, me):
    """Sum the vectors of the ranks in `seats` (1, 2, 4, 8, … of them), in place. me: this rank's seat."""
    box = np.empty_like(vector)
    for distance in doublings(len(seats)):  # for 8 seats 1, 2, 4
        raise NotImplementedError("exercise 24.1: Recursive doubling")


# %%
def for_any(comm, vector, among):
    """Run among(comm, vector, seats, seat) on the seated ranks; the others hand in theirs and get the sum."""
    seats = seats_of(comm.size)
    raise NotImplementedError("exercise 24.1: Recursive doubling")


# %%
def expect_allreduce(function, named, rounds, sent):
    """The sum, at the price of the closed forms. rounds, sent (vectors): of a power of two of ranks."""
    strict = virtual.ideal().but(eager=64)  # messages above 64 bytes wait for their receiver, as long ones do
    numbers = (1, 2, 4, 8, 16, 3, 5, 6, 7, 12)
    runs = virtual.trials(function, sum, ranks=numbers, machine=strict, what="the sum")
    for (p, length), run in runs.items():
        power = len(seats_of(p))  # and so many values more or less may be sent where parts are uneven
        extra = int(p > power)  # who works for two sends a vector more; there are two rounds more
        run.expect_sent(at_most=sent(power) + extra, unit=8 * length, named=named, rounding=8 * power)
        run.expect_messages(at_most=rounds(power) + extra, named=named)
        run.expect_steps(exactly=rounds(power) + 2 * extra, named=named)
    launch.run(expect_sum, function, ranks=launch.ranks_here(5), timeout=patience)


def doubling_alone(comm, vector):
    doubling(comm, vector, range(comm.size), comm.rank)


def nothing(*positional, **named):
    """An `among` that does nothing."""


def handed_in(vectors):
    """What is left on 3 ranks by such an `among`: rank 1 works for rank 0 too, rank 2 for itself."""
    both = vectors[0] + vectors[1]
    return [both, both, vectors[2]]


# %%
WAYS = {"tree": tree_allreduce, "ring": ring_allreduce, "doubling": partial(for_any, among=doubling)}
with check("24.1"):
    virtual.trials(doubling_alone, sum, ranks=(1, 2, 4, 8))
    expect_allreduce(WAYS["doubling"], "recursive doubling", rounds=np.log2, sent=np.log2)
    what = "what `for_any` leaves, if its `among` does nothing,"
    virtual.trials(partial(for_any, among=nothing), handed_in, ranks=[3], what=what)

# %% [markdown]
# ### Predict
# Doubling sends the *whole* vector lg p times (lg: logarithm to base 2). Rabenseifner (2004): swap *halves*
# with the seat p/2 away, each adds the half that it keeps; then quarters with the seat p/4 away, until each
# has 1/p of the sum. Then all the way back: parts double, nothing is added. How many rounds do 16 ranks need,
# how many vectors does each send? And, of 17 ranks, the one that works for two?

# %%
predict("24.2", rounds=..., vectors_sent=..., sent_for_two=...)


# %% [markdown]
# ### Exercise 24.2 · Halving, then doubling
# In the seats again. A rank is in charge of `vector[low:high]`, at first of all. For each distance, largest
# first, cut that in the middle: the seat without the bit `distance` keeps the lower half, its partner the
# upper. Note in `trail` what was swapped with whom. The way back reads the trail from its end: send what you
# kept, receive what you gave. Any length, about 12 lines.
#
# <details><summary>Hint 1: the halves</summary>
#
# `middle = (low + high) // 2` is the same on both: so far they kept the same. `keep = slice(low, middle)`,
# `give = slice(middle, high)`, the other way round `if me & distance`; `low, high = keep.start, keep.stop`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)`, add `box[keep]`, append
# `(partner, keep, give)` to `trail`. The way back sends `vector[keep]`, with `recvbuf=vector[give]`.
# </details>

# %%
def halving(comm, vector, seats, me):
    """Sum the vectors of the ranks in `seats` (1, 2, 4, 8, … of them), in place. me: this rank's seat."""
    box = np.empty_like(vector)
    low, high = 0, len(vector)
    trail = []  # (partner, keep, give) of each round
    raise NotImplementedError("exercise 24.2: Halving, then doubling")


# %%
def halving_rounds(p):
    return 2 * np.log2(p)


def halving_sent(p):
    return 2 * (p - 1) / p


WAYS["Rabenseifner"] = partial(for_any, among=halving)
with check("24.2"):
    expect_allreduce(WAYS["Rabenseifner"], "Rabenseifner", halving_rounds, halving_sent)
predict.compare(
    "24.2", rounds=halving_rounds(16), vectors_sent=halving_sent(16), sent_for_two=halving_sent(16) + 1
)

# %% [markdown]
# With α seconds a message, β a byte sent, γ a byte added (MPICH's sources, and `labkit.scaling`):
#
# | | on p = 2^k ranks | any other p: as on the seated ranks, and |
# |---|---|---|
# | doubling | lg p (α + nβ + nγ) | 2(α + nβ) + nγ more |
# | Rabenseifner | 2 lg p α + 2n(p - 1)/p β + n(p - 1)/p γ | 2(α + nβ) + nγ more |
# | ring | 2(p - 1)α + 2n(p - 1)/p β + n(p - 1)/p γ | the same on any p |
#
# Handing in and giving back puts two *whole* vectors on the way. A ring needs no power of two.
#
# ### Predict
# 16 nodes, α = 2 µs, 10 GB/s, γ = 0: from how many kB on does Rabenseifner lead doubling?

# %%
predict("24.3", size_kB=...)


# %% [markdown]
# ### Exercise 24.3 · Where the lead changes
# Now for any α, β, γ and p = 4, 8, 16, …: set the two lines equal and solve for n. 1 to 4 lines.
#
# <details><summary>Hint 1: what doubling saves</summary>
#
# lg p messages: lg p α. For that each byte costs it more, in β and in γ.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# (lg p - 2(p - 1)/p) β + (lg p - (p - 1)/p) γ more. n is lg p α over that; `np.log2` is lg.
# </details>

# %%
def crossover(p, alpha, beta, gamma):
    """Bytes from which Rabenseifner leads doubling. Seconds per message, per byte sent, per byte added."""
    raise NotImplementedError("exercise 24.3: Where the lead changes")


# %%
def seconds(way, p, nbytes, machine):
    """The way's time on p virtual nodes: 256 values stand for so many bytes."""
    vector = virtual.vector(np.ones(256), stands_for=nbytes)
    return virtual.Cluster(p, 1, machine).run(WAYS[way], vector).time


with check("24.3"):
    for p, alpha, rate, adding in ((4, 1e-6, 1e9, 4e9), (8, 5e-5, 1e9, 1e12), (16, 2e-6, 1e10, 2e10)):
        n = crossover(p, alpha, 1 / rate, 1 / adding)
        ideal = virtual.ideal(alpha, rate, adding)
        expect.between(n, 1, 1e9, f"Your bytes for p = {p}, α = {alpha:g} s, β = 1 / {rate:g} s")
        case = f"p = {p}, α = {alpha:g} s, {rate:g} bytes/s, adding {adding:g}: you say {n:.4g} bytes"
        for part, faster, fault in ((0.98, "doubling", "many"), (1.02, "Rabenseifner", "few")):
            took = {way: seconds(way, p, part * n, ideal) for way in ("doubling", "Rabenseifner")}
            sentence = f"{case}, too {fault}. At {part:.0%} of it, the faster"
            expect.equal(min(took, key=took.get), faster, sentence)
predict.compare("24.3", size_kB=crossover(16, 2e-6, 1 / 10e9, 0) / 1000)
on_map = {way: {(n, p): seconds(way, p, n, cluster) for p in map_ranks for n in map_sizes} for way in WAYS}
plots.crossover(on_map, title=f"Who leads on {cluster}, by virtual clock")


# %% [markdown]
# ### Exercise 24.4 · Your tuning table
# In the map: on which p does the ring lead, which column breaks the pattern? (On k80_edr 16 KiB wait for a
# handshake, halves of it do not.) So measure: `times[ranks][nbytes][way]` in seconds. Take the fastest at the
# **nearest by ratio**: of ranks, then of bytes (1000 is nearer to 2048 than to 400). **All ranks must choose
# alike**, or they wait for ever: bytes, ranks and one table decide, never a rank's own clock. 4 lines.
#
# <details><summary>Hint 1: nearest and fastest</summary>
#
# `min(times, key=lambda p: abs(np.log2(p / ranks)))` are the nearest ranks. A vector may have 0 bytes: use
# `max(nbytes, 1)`. `min(row, key=row.get)` is the way with the least seconds in `row`.
# </details>
# <details><summary>Hint 2: use it</summary>
#
# `way = pick(…, …)`; then call `WAYS[way]` with `comm` and `vector`. `len(vector)` are values, not bytes.
# </details>

# %%
def choose(times, nbytes, ranks):
    """The fastest way in `times` at the nearest ranks, and there at the nearest bytes."""
    raise NotImplementedError("exercise 24.4: Your tuning table")


def allreduce_tuned(comm, vector, pick):
    """Sum by the way that pick(bytes, ranks) names."""
    raise NotImplementedError("exercise 24.4: Your tuning table")


# %%
made_up = {  # seconds: ranks -> bytes -> way
    4: {400: {"ring": 2, "tree": 1}, 2048: {"tree": 8, "doubling": 7}, 1 << 20: {"tree": 9, "ring": 8}},
    16: {400: {"tree": 3, "doubling": 2}, 1 << 20: {"tree": 6, "Rabenseifner": 5}},
}
cases = [(0, 4, "tree"), (1000, 4, "doubling"), (8_000_000, 4, "ring"), (400, 9, "doubling")]
cases += [(600_000, 9, "Rabenseifner"), (600_000, 3, "ring")]  # bytes, ranks, and the fastest way
asked = set()  # what `pick` was given


def bytes_sent(function, p, length):
    return virtual.trials(function, sum, ranks=[p], lengths=[length])[p, length].sent_bytes


def note_and_pick_tree(nbytes, ranks):
    asked.add((nbytes, ranks))
    return "tree"


# %%
with check("24.4"):
    for nbytes, p, way in cases:
        expect.equal(choose(made_up, nbytes, p), way, f"By `made_up`, for {nbytes} bytes on {p} ranks")
        tuned = partial(allreduce_tuned, pick=partial(choose, made_up))
        got, want = (bytes_sent(function, p, nbytes // 8) for function in (tuned, WAYS[way]))
        expect.equal(
            got, want, f"{nbytes} bytes on {p} ranks, where {way} is fastest: bytes that [rank] sent"
        )
    asked.clear()
    virtual.Cluster(3).run(allreduce_tuned, np.ones(5, np.float32), note_and_pick_tree)
    expect.equal(asked, {(20, 3)}, "3 ranks, 5 values of 4 bytes: (bytes, ranks) that `pick` was given")


# %% [markdown]
# ### Measure
# All ways take turns, so noise hits all alike. Who leads here, and where does it differ from the map?

# %%
def race(comm, times=None):
    """way -> bytes -> Measurement; with `times`, of your choice too."""
    ways = {**WAYS, "MPI's own": lambda comm, vector: comm.Allreduce(None, vector)}  # None: in place
    if times:  # looks a size up once, and then remembers
        ways["your choice"] = partial(allreduce_tuned, pick=lru_cache(partial(choose, times)))
    rows = {}
    for n in sizes:
        calls = {way: partial(function, comm, np.zeros(n // 4, np.float32)) for way, function in ways.items()}
        batch = 1 if n > 16384 else 10
        # Across ranks: comm= starts all together and counts the slowest, so all ranks get the same times.
        rows[n] = timing.in_turns(calls, comm=comm, repeat=50, seconds=moment, batch=batch)
    return {way: {n: row[way] for n, row in rows.items()} for way in ways}


raced = {min(p, launch.ranks_here(p)): launch.run(race, ranks=p)[0] for p in table_ranks}
times = {p: {n: {way: row[way][n].median for way in WAYS} for n in sizes} for p, row in raced.items()}
table = {(n, p): choose(times, n, p) for p in times for n in sizes}
record.add("tuning table", fastest=[[*place, way] for place, way in table.items()], seconds=times)
plots.crossover(table, title="Who leads on real ranks here")
plots.bandwidth(raced[max(raced)], title=f"Allreduce on {max(raced)} ranks here")

# %% [markdown]
# MPICH 5, started by mpi4py, takes doubling up to 8 bytes or for fewer values than seats, else Rabenseifner.
# The variable below makes it take another. All beside your choice, which took turns with it: 1 in the plot.
# Below 1 MPI beats your choice. Where? With its own way, or with one that you forced?

# %%
ranks = max(2, min(4, world.cores()))  # more ranks would wait for a core, not for a message
algorithms = {"MPI's choice": "auto"}
if world.launcher() is None:  # only here can the variable still be set for the ranks
    algorithms |= {
        "doubling": "recursive_doubling",
        "Rabenseifner": "reduce_scatter_allgather",
        "ring": "ring",
    }
compared = {}
for label, name in algorithms.items():
    row = launch.run(race, times, ranks=ranks, env={"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": name})[0]
    compared[label] = sizes, [row["MPI's own"][n].median / row["your choice"][n].median for n in sizes]
plots.lines(
    compared, logx=True, logy=True, xlabel="bytes", ylabel="time / yours", title=f"MPI on {ranks} ranks"
)

# %% [markdown]
# ### What you take away
# - Recursive doubling: lg p rounds, for short vectors. Rabenseifner: 2 lg p rounds and the fewest bytes.
# - Ranks beyond a power of two cost two whole vectors; a ring, of any size, does not pay for them.
# - All ranks go by one table. MPI's was measured elsewhere: look, measure, set its variables.
