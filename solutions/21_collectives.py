# %% [markdown]
# # 21 Collectives
#
# Five operations in which all ranks take part carry all data-parallel training; you build them from messages.
#
# **You will be able to** (1) say what broadcast, reduce, allreduce, reduce-scatter and allgather leave on
# each rank, (2) count their rounds and bytes, (3) average a gradient with MPI's own, without the usual slips.
#
# Needs: mpi · Ranks: 4 · Minutes: 45 · Before: 20

# %%
from functools import partial
from inspect import signature

import numpy as np
from labkit import check, expect, hint, lab, launch, plots, predict, record, timing
from labkit.counting import count, on_every_size

lab.start("21_collectives")

# %% tags=["parameters"]
lengths = (8, 7, 3)  # values per vector in the checks: even, odd, and fewer than ranks
patience = 10  # seconds after which a check calls a program stuck
sizes = (1, 64, 4096, 65536, 1048576)  # values (float32, 4 bytes) per vector in the measurement

# %% [markdown]
# ### What each of them does
# Every rank calls a collective, and each gets its part. In these sums, every digit shows who took part:
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
# Training broadcasts once, for equal weights, and needs an **allreduce** of the gradients in every step.
#
# ### Predict
# In a simple broadcast the root sends to one after another. A rank sends or receives one message at a time,
# so 8 ranks need 7 *rounds*. In a *tree*, all who have the vector pass it on: how many rounds and messages?

# %%
predict("21.1", rounds=3, messages=7)

# %% [markdown]
# ### Exercise 21.1 · Broadcast by a tree
# With `Send` and `Recv`. `me` is this rank's number counted from the root; `reach` is how many ranks have the
# vector before a round. Each of them sends it `reach` further on, if a rank is there. 5 lines.
#
# <details><summary>Hint 1: who does what in a round?</summary>
#
# `me < reach` sends to `me + reach`, if that is below `comm.size`; `reach <= me < 2 * reach` receives.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# To a rank again: `dest=(me + reach + root) % comm.size`. After `elif me < 2 * reach:` receive, from
# `source=(me - reach + root) % comm.size`.
# </details>


# %%
def doublings(size):
    """[1, 2, 4, …] below size: how many ranks have the vector before each round of a tree."""
    return [2**step for step in range((size - 1).bit_length())]


def broadcast(comm, vector, root):
    """Copy root's `vector` into every rank's `vector`."""
    me = (comm.rank - root) % comm.size
    for reach in doublings(comm.size):
        ### BEGIN SOLUTION
        # Across ranks: who has the vector sends, who is next receives, the others wait for their round.
        if me < reach:
            if me + reach < comm.size:
                comm.Send(vector, dest=(me + reach + root) % comm.size)
        elif me < 2 * reach:
            comm.Recv(vector, source=(me - reach + root) % comm.size)
        ### END SOLUTION
    return vector


# %%
def expect_results(comm, function, want):
    """function(comm, vector[, root]) must return want(vectors, root)[rank]. Returns {root: what it cost}."""
    rooted = "root" in signature(function).parameters
    costs = {}
    for root in range(comm.size if rooted else 1):
        options = [root] if rooted else []
        for length in lengths:
            vectors = np.random.default_rng(root).integers(1, 100, (comm.size, length)).astype(np.float32)
            right = want(vectors, root)[comm.rank]
            got = function(comm.Dup(), vectors[comm.rank].copy(), *options)
            case = f"{function.__name__}, {comm.size} ranks, root {root}, {length} values"
            if right is not None:
                expect.close(got, right, f"{case}: on rank {comm.rank}")
            cost = count(comm, function, vectors[comm.rank].copy(), *options)
            costs.setdefault(root, cost)  # of the first length
    return costs


# %%
def tree_rounds(size):
    return len(doublings(size))


def expect_collective(function, want, rounds=tree_rounds, times=1):
    """The right values everywhere, in times * rounds(p), with times * (p - 1) vectors sent by all p ranks."""
    test = partial(expect_results, function=function, want=want)
    by_size = launch.run(on_every_size, test, ranks=launch.ranks_here(5), timeout=patience)[0]
    for size, costs in by_size.items():
        for root, cost in costs.items():
            subject = f"{function.__name__} is right. But with {size} ranks and root {root}, the number of"
            expect.equal(cost.values / lengths[0], times * (size - 1), f"{subject} vectors sent")
            expect.equal(cost.rounds, times * rounds(size), f"{subject} rounds")
    return by_size


with check("21.1"):
    by_tree = expect_collective(broadcast, lambda vectors, root: [vectors[root]] * len(vectors))
    predict.compare("21.1", rounds=tree_rounds(8), messages=8 - 1)
messages = by_tree[len(by_tree)][0].messages
arrows = [(message.source, message.dest, "", message.round - 1) for message in messages]
plots.messages(arrows, len(by_tree), layout="tree", title="Your broadcast")

# %% [markdown]
# ### Exercise 21.2 · Reduce by the same tree, and allreduce
# The tree backwards: the last round first, sums travel towards the root, receivers add. Allreduce is then two
# calls. After `reduce`, the other ranks' vectors may hold anything.
#
# <details><summary>Hint 1: what changes</summary>
#
# Where broadcast sends to `me + reach`, reduce receives from there into `box` and adds: `vector += box`.
# Where broadcast receives, reduce sends.
# </details>
# <details><summary>Hint 2: allreduce</summary>
#
# `reduce(comm, vector, root)`: now one rank has the sum. Which call brings it to all?
# </details>


# %%
def reduce(comm, vector, root):
    """Add all ranks' vectors up in root's `vector`."""
    me = (comm.rank - root) % comm.size
    box = np.empty_like(vector)
    for reach in reversed(doublings(comm.size)):
        ### BEGIN SOLUTION
        # Across ranks: of those who still take part, the upper half sends its sums to the lower half.
        if reach <= me < 2 * reach:
            comm.Send(vector, dest=(me - reach + root) % comm.size)
        elif me < reach and me + reach < comm.size:
            comm.Recv(box, source=(me + reach + root) % comm.size)
            vector += box
        ### END SOLUTION
    return vector


def allreduce_tree(comm, vector, root=0):
    """Add all ranks' vectors up in every rank's `vector`."""
    ### BEGIN SOLUTION
    reduce(comm, vector, root)
    broadcast(comm, vector, root)
    ### END SOLUTION
    return vector


# %%
def sum_on_root(vectors, root):
    return [sum(vectors) if rank == root else None for rank in range(len(vectors))]


def sum_on_all(vectors, root):
    return [sum(vectors)] * len(vectors)


with check("21.2"):
    expect_collective(reduce, sum_on_root)
    by_tree = expect_collective(allreduce_tree, sum_on_all, times=2)

# %% [markdown]
# ### Predict
# The tree sends whole vectors while most ranks wait. Now cut them into p chunks, rank r in charge of chunk r.
# How many vectors does the busiest of 4 ranks send: by tree, and by chunks (3 chunks, twice)?

# %%
predict("21.3", sent_by_tree=2.0, sent_by_chunks=1.5)

# %% [markdown]
# ### Exercise 21.3 · Reduce-scatter and allgather
# `chunks` are views: writing to one writes to `vector`. **Reduce-scatter**, p - 1 `Sendrecv`: in step i send
# the rank i further right its chunk, add what comes from the rank i further left to your own. **Allgather**,
# p - 1 `Sendrecv` in a ring: pass on what came last, beginning with your own chunk.
#
# <details><summary>Hint 1: reduce-scatter</summary>
#
# `to = (comm.rank + i) % comm.size` for i from 1: send `chunks[to]`, receive into `box` from
# `(comm.rank - i) % comm.size`, add `box` to `chunks[comm.rank]`.
# </details>
# <details><summary>Hint 2: allgather, nearly the answer</summary>
#
# In step i, from 0: `comm.Sendrecv(chunks[(comm.rank - i) % comm.size], dest=right, recvbuf=…, source=left)`,
# and what comes is the chunk before: `chunks[(comm.rank - i - 1) % comm.size]`.
# </details>


# %%
def reduce_scatter(comm, vector):
    """Returns the sum over all ranks of chunk comm.rank; the other chunks of `vector` may hold anything."""
    chunks = np.array_split(vector, comm.size)
    box = np.empty_like(chunks[comm.rank])
    ### BEGIN SOLUTION
    for i in range(1, comm.size):
        # Across ranks: in each step everybody sends one chunk and receives one.
        to, source = (comm.rank + i) % comm.size, (comm.rank - i) % comm.size
        comm.Sendrecv(chunks[to], dest=to, recvbuf=box, source=source)
        chunks[comm.rank] += box
    ### END SOLUTION
    return chunks[comm.rank]


def allgather(comm, vector):
    """Rank r's chunk r of `vector` goes to all ranks. Returns `vector`, then equal everywhere."""
    chunks = np.array_split(vector, comm.size)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ### BEGIN SOLUTION
    for i in range(comm.size - 1):
        # Across ranks: what came from the left in the last step goes to the right in this one.
        old, new = (comm.rank - i) % comm.size, (comm.rank - i - 1) % comm.size
        comm.Sendrecv(chunks[old], dest=right, recvbuf=chunks[new], source=left)
    ### END SOLUTION
    return vector


# %%
def chunks_of_sum(vectors, root):
    return np.array_split(sum(vectors), len(vectors))


def chunks_joined(vectors, root):
    chunks = [np.array_split(vector, len(vectors))[owner] for owner, vector in enumerate(vectors)]
    return [np.concatenate(chunks)] * len(vectors)


def ring_rounds(size):
    return size - 1


def allreduce_chunks(comm, vector):
    reduce_scatter(comm, vector)
    return allgather(comm, vector)


# %%
with check("21.3"):
    expect_collective(reduce_scatter, chunks_of_sum, ring_rounds)
    expect_collective(allgather, chunks_joined, ring_rounds)
    by_chunks = expect_collective(allreduce_chunks, sum_on_all, ring_rounds, times=2)
    four = min(4, len(by_tree))  # ranks, or as many as there are
    sent = {
        "sent_by_tree": by_tree[four][0].busiest / lengths[0],
        "sent_by_chunks": by_chunks[four][0].busiest / lengths[0],
    }
    predict.compare("21.3", **sent)
plots.compare(predict.recall("21.3"), sent, unit="vectors sent by the busiest rank", title="Your guess")

# %% [markdown]
# ### Exercise 21.4 · Average with MPI's own
# Lab 30 stands on one line, `comm.Allreduce(array, result)`: the sum. MPI trusts you: same call, length and
# dtype on all ranks, and never one array as input and output. Return the **mean**; `gradient` stays.
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
    ### BEGIN SOLUTION
    mean = np.empty_like(gradient)
    # Across ranks: MPI adds, the division is ours.
    comm.Allreduce(gradient, mean)
    return mean / comm.size
    ### END SOLUTION


# %%
def expect_average(comm):
    gradient = np.full(7, comm.rank + 0.5, np.float32)
    before = gradient.copy()
    mean = average(comm, gradient)
    want = np.full(7, comm.size / 2)
    subject = f"{comm.size} ranks: on rank {comm.rank}"
    slips = {"This is the sum over the ranks, not the mean": comm.size * want}
    expect.close(mean, want, f"{subject}, the mean", slips=slips)
    expect.unchanged(before, gradient, f"{subject}, `gradient`")
    return mean.dtype.name


with check("21.4"):
    dtypes = launch.run(expect_average, ranks=launch.ranks_here(3), timeout=patience)
    expect.equal(set(dtypes), {"float32"}, "The mean's dtype")

# %% [markdown]
# ### Measure
# The tree needs few rounds, the chunks few bytes, MPI's own chooses by size. Who wins where, here?


# %%
def compare(comm):
    from mpi4py import MPI

    def own_of_mpi(comm, vector):
        comm.Allreduce(MPI.IN_PLACE, vector)

    ways = {"your tree": allreduce_tree, "your chunks": allreduce_chunks, "MPI's own": own_of_mpi}
    times = {name: {} for name in ways}
    for name, way in ways.items():
        for values in sizes:
            vector = np.zeros(values, np.float32)
            # Across ranks: the slowest counts. With fewer cores than ranks, so does waiting for a core.
            times[name][vector.nbytes] = timing.measure(partial(way, comm, vector), comm=comm)
    return times


times = launch.run(compare, ranks=4)[0]
plots.bandwidth(times, title="Allreduce on 4 ranks")
for name, row in times.items():
    medians = [time.median for time in row.values()]
    record.add("allreduce", way=name, bytes=list(row), seconds=medians, **record.BY_MPI)

# %% [markdown]
# ### What you take away
# - Broadcast makes equal; allreduce adds up and tells all. Data-parallel training needs little else.
# - Tree: few rounds, for short vectors. Chunks: few bytes, for long ones. MPI and NCCL choose (lab 24).
# - `Allreduce` adds; the mean is yours. Same call, root, length and dtype on every rank.
# - Next: lab 22 measures what a message costs, lab 30 trains with an allreduce.
