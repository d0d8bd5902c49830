# %% [markdown]
# <!-- Generated from solutions/33_gossip_topologies.py by `make labs`. Learners work on a copy in work/. -->
# # 33 Gossip topologies
#
# Must all ranks agree in every step? Here each averages with its neighbours only: on a ring, a
# wheel, a random graph. You find how fast agreement spreads, and what it costs.
#
# **You will be able to** (1) write the mixing matrix of any topology, and a gossip step that uses
# it, (2) say from an eigenvalue how many steps agreement takes, (3) say when gossip is cheaper than
# an allreduce.
#
# Needs: mpi · Ranks: 4 · Minutes: 45 · Level: intermediate · Before: 20, 23, 24, 30

# %%
import numpy as np
import virtual
from labkit import check, hint, lab, plots, predict, record
from labkit.collectives import ring_allreduce
from support import lab33

lab.start("33_gossip_topologies")

# %% tags=["parameters"]
ranks_virtual = 32  # ranks on the virtual cluster in the measurement
patience = 30  # seconds after which a check calls the ranks stuck

# %% [markdown]
# *Centralised* and *decentralised* are used in two ways, so mind who speaks:
#
# | | a server adds up ([lab 31](31_parameter_server_or_allreduce.ipynb)) | all add up, all agree ([lab 30](30_average_gradients.ipynb)) | neighbours mix, nobody agrees (here) |
# |---|---|---|---|
# | courses such as SURF's | centralised | decentralised | decentralised |
# | papers on gossip | centralised | centralised | decentralised |
#
# A course asks who adds up, a centre or everybody. A paper on gossip asks whether all have the same
# parameters after a step. In this lab *decentralised* has the narrower meaning, the last column
# alone.
#
# A **topology** says who talks to whom. Here it is a list: `neighbours[r]` are the ranks that rank
# r talks to. There are three in this lab:
#
# - In a **ring** each rank has two neighbours.
# - A **wheel** is a ring around a hub, rank 0, that talks to all.
# - **Random** here is two rings through all ranks, each in an order drawn by lot. So a rank has up
#   to four neighbours, wherever they are.

# %%
names = ("ring", "wheel", "random")
lab33.draw_topologies({name: lab33.topology(name, 12) for name in names})


# %% [markdown]
# ### Exercise 33.1 · The mixing matrix
# In a gossip step rank i's vector becomes a weighted mean: the sum of `W[i, j] * x[j]` over its
# neighbours j and itself. So each row of W sums to 1.
#
# The columns must sum to 1, too. A vector `x[j]` goes into the new vectors with the weights of
# column j, all ranks together. If they sum to less than 1, a part of it is lost: the average of all
# ranks drifts, and they agree on a wrong one.
#
# **Metropolis-Hastings** weights do both on any topology. Let d[i] be the number of i's neighbours.
# The weight of a link is `1 / (1 + max(d[i], d[j]))`. `W[i, i]` is what is left of 1 in row i. For
# three ranks in a line, 0 - 1 - 2, d is 1, 2, 1, and W is
#
# | | 0 | 1 | 2 |
# |---|---|---|---|
# | 0 | 2/3 | 1/3 | 0 |
# | 1 | 1/3 | 1/3 | 1/3 |
# | 2 | 0 | 1/3 | 2/3 |
#
# Write `mixing(neighbours)`. 4 lines. *(beginner)*
#
# <details><summary>Hint 1: two loops</summary>
#
# `for i, others in enumerate(neighbours):` and in it `for j in others:`. How many neighbours has
# rank j?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))`; after the inner loop
# `W[i, i] = 1 - W[i].sum()`.
# </details>

# %%
def mixing(neighbours):
    """The matrix W of Metropolis-Hastings weights, shape (p, p)."""
    W = np.zeros((len(neighbours), len(neighbours)))
    raise NotImplementedError("exercise 33.1: The mixing matrix")
    return W


# %%
# Asked: On many topologies W has no weight without a link, rows and columns
# that sum to 1, and the right weights.
check("33.1", mixing)


# %% [markdown]
# ### Exercise 33.2 · A gossip step
# Every rank sends its vector to its neighbours, gets theirs, and mixes, in place. Mind two things.
# Blocking sends may wait in a circle ([lab 20](20_ranks_and_messages.ipynb)), so use `Isend` and `Irecv`. And what is mixed are
# everybody's *old* vectors, so a vector may change only when it has left. 8 lines, for any
# topology. The vectors are float32. *(intermediate)*
#
# <details><summary>Hint 1: room for what comes</summary>
#
# `boxes = {other: np.empty_like(vector) for other in neighbours}`, and an `Irecv` into each.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `requests = [comm.Irecv(box, source=other) for other, box in boxes.items()]`; add the `Isend`s;
# wait for all of them. Then `vector *= weights[comm.rank]`, and for each box
# `vector += weights[other] * box`.
# </details>

# %%
def gossip(comm, vector, neighbours, weights):
    """Mix in place. neighbours: this rank's, a list. weights: this rank's row of W, one weight per
    rank."""
    raise NotImplementedError("exercise 33.2: A gossip step")


# %%
# Asked: Two steps on many topologies, and on real ranks, give what the product
# of matrices gives.
check("33.2", gossip)

# %% [markdown]
# ### Predict
# The average of all ranks stays. The distance to it shrinks, in the long run by the factor λ2 a
# step. λ2 is the second largest |eigenvalue| of W; the largest, 1, is the average's. For a ring λ2
# = (1 + 2 cos(2π / p)) / 3, which is about 1 - 13 / p². After how many steps is the distance a
# hundredth, λ2 ** steps = 1 / 100, in a ring of 16? In one of 32? (Twice as many? Solve for the
# steps with logarithms.)

# %%
predict("33.2", ring_of_16=..., ring_of_32=...)

# %% [markdown]
# ### Measure: agreement
# Your gossip steps on 32 virtual ranks, from random vectors, until the distance should be a
# hundredth. Each rank has a link of 10 Gb/s with 30 µs. The vectors are as long as [lab 30](30_average_gradients.ipynb)'s
# parameters, 69 kB. Which topology mixes most in a step? Which in a millisecond?
#
# The rivals are two allreduces, after which all agree exactly: the ring of [lab 23](23_ring_allreduce.ipynb), and the best
# that the virtual cluster has at this length. For 69 kB that is `comm.Allreduce`, Rabenseifner's
# way ([lab 24](24_trees_and_halving.ipynb)). About 20 s.

# %%
# The machine: 10 Gb/s and 30 µs for each rank. The vectors have 100
# values that count as 69 kB, lab 30's parameters.
slow = virtual.ideal().but(between=virtual.Link(latency=28e-6, bandwidth=10e9 / 8, overhead=1e-6))
cluster = virtual.Cluster(nodes=ranks_virtual, machine=slow)


def agree(name, steps):
    """Gossip steps from random vectors. Returns the distances, as shares of the first, and ms of a
    step."""
    neighbours = lab33.topology(name, ranks_virtual)
    drawn = np.random.default_rng(0).standard_normal((ranks_virtual, 100)).astype(np.float32)
    vectors = virtual.by_rank([virtual.vector(x, 69e3) for x in drawn])
    run = cluster.run(lab33.repeat, vectors, neighbours, mixing(neighbours), steps, gossip)
    record.add(
        "agreement", topology=name, ranks=ranks_virtual, steps=steps, unit="s", time=run.time
    )
    apart = lab33.distances(run.results)
    return apart / apart[0], 1e3 * run.time / steps


def best_allreduce(comm, vector):
    """The virtual cluster's own: it chooses by length, for long vectors Rabenseifner's."""
    comm.Allreduce(vector, np.empty_like(vector))


# %%
gaps = {}
by_step = {}
by_time = {}
for name in names:
    gaps[name] = {p: 1 - lab33.rate(mixing(lab33.topology(name, p))) for p in (4, 8, 16, 32, 64)}
    shrink = lab33.rate(mixing(lab33.topology(name, ranks_virtual)))
    steps = int(np.ceil(np.log(100) / -np.log(shrink)))
    apart, ms = agree(name, steps)
    by_step[name] = apart
    by_time[name] = ms * np.arange(1, steps + 1), apart[1:]
    slope = (apart[-1] / apart[steps // 2]) ** (1 / (steps - steps // 2))
    shrinks = f"shrinks the distance by {slope:.3f}, λ2 is {shrink:.3f}"
    print(f"{name}: a step takes {ms:.2f} ms and {shrinks}; {steps} steps to 1 / 100")
for way, allreduce in {"ring allreduce": ring_allreduce, "best allreduce": best_allreduce}.items():
    run = cluster.run(allreduce, virtual.vector(np.zeros(1024), 69e3))
    by_time[way] = [1e3 * run.time] * 2, [1, 0.01]
    print(f"{way}: {1e3 * run.time:.2f} ms, and all agree")
    record.add("allreduce", way=way, ranks=ranks_virtual, unit="s", time=run.time)

# %%
title = "How much a step mixes: a random graph's falls least"
plots.lines(gaps, xlabel="ranks", ylabel="1 - λ2", title=title, logx=True, logy=True)
labels = {"ylabel": "distance to the average", "title": f"{ranks_virtual} ranks, 69 kB"}
plots.lines(by_step, xlabel="steps", name="by step", **labels, logy=True, markers=False)
plots.lines(
    by_time, xlabel="time (ms)", name="by time", **labels, logx=True, logy=True, markers=False
)
rings = {p: lab33.steps_taken(mixing(lab33.topology("ring", p))) for p in (16, 32)}
predict.compare("33.2", ring_of_16=rings[16], ring_of_32=rings[32])

# %% [markdown]
# **Explain.** First plot, how much one step mixes: a ring's gap 1 - λ2 falls as 1 / p². A wheel's
# falls more slowly, in the end as 1 / p. The random graph's falls far less.
#
# Second plot, by steps: so with 32 ranks the random graph needs some thirty steps, the ring
# hundreds.
#
# Third plot, by time. A step costs what the busiest link carries: on the ring two vectors, on the
# random graph up to four, at the wheel's hub 31. So the wheel needs fewer steps than the ring, and
# yet more time. Does gossip pay, if all are to *agree*?
#
# <details><summary>Answer</summary>
#
# Not here. The best allreduce agrees exactly in less time than two steps on the random graph. (It
# is far ahead of the ring allreduce, too, which has 62 rounds of 30 µs.) But a *single* step on the
# ring or the random graph is faster than both allreduces, and it waits for nobody but the
# neighbours. So the question is whether training needs agreement in every step.
# </details>
#
# ### What does it do to training?
# In **D-PSGD** (decentralised parallel SGD, Lian et al., NeurIPS 2017) every rank has parameters of
# its own. A step has three parts: the rank takes the gradient at its own parameters, on its images;
# it mixes its parameters with its neighbours', by one gossip step; and it subtracts the learning
# rate times its gradient. So mixing can run while the gradient is computed, and no agreement is
# needed in any step: one gossip step keeps the ranks at a distance that settles instead of growing,
# and the average of their parameters is what one keeps. Lian and others trained large nets for
# long, and found D-PSGD up to ten times as fast as centralised SGD on slow networks.
#
# ### What you take away
# - A symmetric W with rows that sum to 1 keeps the average. Metropolis-Hastings finds one for any
#   topology.
# - Agreement takes log(factor) / -log(λ2) steps. To a hundredth that is about p² / 3 in a ring, and
#   few in a random graph. In a wheel it grows as p (109 with 32 ranks), and all messages meet at
#   the hub.
# - To agree exactly, the best allreduce is faster. A single gossip step between few neighbours is
#   cheaper.
# - Training needs no agreement in each step: one gossip step keeps the ranks near each other.
# - Next: how large may a batch be ([lab 34](34_large_batch.ipynb)), and how small a message ([lab 35](35_compress_gradients.ipynb))?
