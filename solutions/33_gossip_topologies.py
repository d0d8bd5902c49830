# %% [markdown]
# # 33 Gossip topologies
#
# An allreduce makes all ranks agree in every step, so every rank has to wait until data from all
# other ranks has arrived, and a single slow rank or link delays everyone. On slow networks this can
# take longer than the computation. **Gossip** algorithms relax the requirement. In each step a rank
# averages its vector only with a few neighbors, and the ranks approach the common average over many
# steps. The question is how fast they approach it, because ranks that remain far apart would train
# different networks.
#
# In this lab we write a gossip step for any arrangement of ranks, and use it on a ring, a wheel and
# a random graph. We predict from an eigenvalue how many steps agreement takes, measure its cost on
# a virtual cluster, and compare gossip with the allreduce that it replaces. At the end we estimate,
# without training, how closely gossip keeps the ranks of a training job together.
#
# **After this lab you can** (1) write the mixing matrix of any topology, and a gossip step that
# uses it, (2) say from an eigenvalue how many steps agreement takes, and (3) say when gossip is
# cheaper than an allreduce.
#
# ![Values of nine ranks in a ring over four gossip steps. At first one rank has 9 and the others have 0, and after four steps the values lie between 0.1 and 2.1. An allreduce gives every rank the average, 1](33_gossip.svg)
#
# *Gossip in a ring of nine ranks, in which ranks 8 and 0 are neighbors, too. In each step every
# rank takes the mean of its own value and the values of its two neighbors. The average of all ranks
# remains 1, and the values approach it slowly, while an allreduce reaches it in one operation.*
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
# ## Topologies
# A **topology** determines which ranks communicate with each other. Here it is a list called
# `neighbours`, in which `neighbours[r]` contains the neighbors of rank r. We use three topologies:
#
# - In a **ring** each rank has two neighbors.
# - A **wheel** is a ring around a *hub*, rank 0, which is a neighbor of all other ranks.
# - The **random** graph consists of two rings through all ranks, each in a random order. A rank
#   therefore has up to four neighbors, which may be anywhere.
#
# The next cell draws them for 12 ranks.


# %%
names = ("ring", "wheel", "random")
lab33.draw_topologies({name: lab33.topology(name, 12) for name in names})

# %% [markdown]
# ## Mixing
# In a gossip step, rank i replaces its vector with a weighted mean of its own vector and those of
# its neighbors. If `x[j]` is the vector of rank j, the new vector of rank i is the sum of
# `W[i, j] * x[j]` over its neighbors j and i itself. The matrix W is called the **mixing matrix**.
# Each of its rows sums to 1, because the new vector is a mean.
#
# The columns must sum to 1 as well. Column j contains the weights with which the vector `x[j]`
# enters the new vectors of all ranks. If these weights sum to less than 1, a part of `x[j]` is
# lost in each step, so the average over all ranks drifts and the ranks agree on a wrong value.
#
# **Metropolis-Hastings** weights satisfy both conditions on any topology. Let d[i] be the number of
# neighbors of rank i. The weight of the link between i and j is `1 / (1 + max(d[i], d[j]))`, and
# `W[i, i]` is chosen so that row i sums to 1. A link has the same weight in both directions, so W
# is symmetric, and its columns have the same sums as its rows.
#
# As an example, take three ranks in a line, 0 – 1 – 2. The numbers of neighbors are 1, 2 and 1.
# Both links have the weight 1 / (1 + 2), and W is
#
# | | 0 | 1 | 2 |
# |---|---|---|---|
# | 0 | 2/3 | 1/3 | 0 |
# | 1 | 1/3 | 1/3 | 1/3 |
# | 2 | 0 | 1/3 | 2/3 |
#
# ### Exercise 33.1 · The mixing matrix
# Write `mixing(neighbours)`, which returns W for any topology. This takes about 4 lines.
# *(beginner)*
#
# <details><summary>Hint 1: two loops</summary>
#
# Use `for i, others in enumerate(neighbours):` and inside it `for j in others:`. How many neighbors
# does rank j have?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In the inner loop, set `W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))`. After the inner
# loop, set `W[i, i] = 1 - W[i].sum()`.
# </details>


# %%
def mixing(neighbours):
    """The matrix W of Metropolis-Hastings weights, shape (p, p)."""
    W = np.zeros((len(neighbours), len(neighbours)))
    ### BEGIN SOLUTION
    for i, others in enumerate(neighbours):
        for j in others:
            W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))
        W[i, i] = 1 - W[i].sum()
    ### END SOLUTION
    return W


# %%
check("33.1", mixing)

# %% [markdown]
# ## One step, by hand
# Take the three ranks in a line again, and let their vectors be the single values 0, 3 and 6. After
# one gossip step rank 0 has 2/3 · 0 + 1/3 · 3 = 1, rank 1 has (0 + 3 + 6) / 3 = 3, and rank 2 has
# 1/3 · 3 + 2/3 · 6 = 5. The average was 3 and is still 3, while the largest difference from it has
# decreased from 3 to 2.
#
# All three results are computed from the *old* values. If rank 0 had changed its value before it
# sent it to rank 1, rank 1 would have received 1 instead of 0.
#
# ### Exercise 33.2 · A gossip step
# Write `gossip`, in which every rank sends its vector to its neighbors, receives their vectors, and
# mixes them in place. Here `neighbours` is the list of this rank's neighbors, and `weights` is this
# rank's row of W. A rank sends one message to each neighbor, and no others. Take care of three
# things:
#
# - Blocking sends may form a cycle in which every rank waits for another (lab 20), so use `Isend`
#   and `Irecv`.
# - All ranks mix the *old* vectors, so a rank may change its vector only after the old one has been
#   sent.
# - One neighbor may already send the vector of its next step before another neighbor has sent the
#   vector of this step, so name the source of each receive.
#
# This takes about 8 lines, for any topology. *(intermediate)*
#
# <details><summary>Hint 1: room for the vectors that arrive</summary>
#
# Create `boxes = {other: np.empty_like(vector) for other in neighbours}`, and launch an `Irecv`
# into each box.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Write `requests = [comm.Irecv(box, source=other) for other, box in boxes.items()]`, add the
# `Isend` calls to this list, and wait for them with
# `for request in requests: request.Wait()`. Then compute
# `vector *= weights[comm.rank]`, and for each box `vector += weights[other] * box`.
# </details>


# %%
def gossip(comm, vector, neighbours, weights):
    """Mix in place. neighbours: this rank's, a list. weights: this rank's row of W, one weight per
    rank."""
    ### BEGIN SOLUTION
    boxes = {other: np.empty_like(vector) for other in neighbours}
    # Across ranks: everybody sends to and receives from all its neighbours at once.
    requests = [comm.Irecv(box, source=other) for other, box in boxes.items()]
    requests += [comm.Isend(vector, dest=other) for other in neighbours]
    for request in requests:
        request.Wait()
    vector *= weights[comm.rank]
    for other, box in boxes.items():
        vector += weights[other] * box
    ### END SOLUTION


# %%
check("33.2", gossip)

# %% [markdown]
# ## How many steps does agreement take?
# A gossip step does not change the average over all ranks, because the columns of W sum to 1. One
# number says how far the ranks are from this average, another how fast they approach it:
#
# - The **distance** is the square root of the sum of all squared differences from the average, over
#   all ranks and values.
# - **λ2** is the second largest absolute value among the eigenvalues of W.
#
# The W of the three ranks in a line has the eigenvalues 1, 2/3 and 0, so λ2 is 2/3. In the example
# above, the differences from the average were −3, 0 and 3 before the step and −2, 0 and 2 after it,
# so the step multiplied the distance by 2/3, which is λ2.
#
# In general λ2 is a bound. Because W is symmetric, the differences of p ranks from the average can
# be divided into p − 1 parts, and each step multiplies a part by its eigenvalue. (The largest
# eigenvalue, 1, belongs to the average itself, which does not change.)
#
# The part that shrinks most slowly is multiplied by λ2 or −λ2. Each step therefore multiplies the
# distance by at most λ2. After many steps only this part is left, and each step multiplies the
# distance by λ2 itself.
#
# ### Predict
# For a ring of p ranks λ2 = (1 + 2 cos(2π / p)) / 3, which is about 1 − 13 / p². After how many
# steps is λ2 ** steps = 1 / 100, in a ring of 16 ranks, and in a ring of 32 ranks? Does it take
# twice as many steps for twice as many ranks? (Use logarithms to solve the equation for the number
# of steps.)

# %%
predict("33.2", ring_of_16=89, ring_of_32=358)

# %% [markdown]
# ### Measure: agreement
# We apply your gossip steps on 32 ranks of the virtual cluster that lab 23 introduced:
#
# | | |
# |---|---|
# | link of each rank | 10 Gb/s, with a latency of 30 µs |
# | vectors | 69 kB, like the parameters of lab 30; random values at the start |
# | number of steps | the steps after which the bound λ2 ** steps is 1 / 100 |
#
# We compare gossip with two allreduces, after which all ranks agree exactly. The *ring allreduce*
# is that of lab 23. The *best allreduce* is `comm.Allreduce`, for which the virtual cluster chooses
# its fastest algorithm. For vectors of this length this is Rabenseifner's (lab 24).
#
# Before you run the cells, guess which topology reduces the distance most per step, and which per
# millisecond.


# %%
# The machine: 10 Gb/s and 30 µs for each rank. The vectors have 100
# values that count as 69 kB, lab 30's parameters.
slow = virtual.ideal().but(between=virtual.Link(latency=28e-6, bandwidth=10e9 / 8, overhead=1e-6))
cluster = virtual.Cluster(nodes=ranks_virtual, machine=slow)
nbytes = 69e3


def agree(name, steps):
    """Gossip steps from random vectors. Returns the distances, as shares of the first, and ms of a
    step."""
    neighbours = lab33.topology(name, ranks_virtual)
    drawn = np.random.default_rng(0).standard_normal((ranks_virtual, 100)).astype(np.float32)
    vectors = virtual.by_rank([virtual.vector(x, nbytes) for x in drawn])
    run = cluster.run(lab33.repeat, vectors, neighbours, mixing(neighbours), steps, gossip)
    record.add(
        "agreement", topology=name, ranks=ranks_virtual, steps=steps, unit="s", time=run.time
    )
    apart = lab33.distances(run.results)
    return apart / apart[0], 1e3 * run.time / steps


def best_allreduce(comm, vector):
    """The virtual cluster's own: it chooses by length, for long vectors Rabenseifner's."""
    comm.Allreduce(vector, np.empty_like(vector))


# %% [markdown]
# The next cell prints a line for each topology, with λ2, the factor by which a step multiplies the
# distance (its mean over the second half of the steps), and the time of a step in milliseconds. It
# takes about 15 s.


# %%
by_step = {}
by_time = {}
for name in names:
    shrink = lab33.rate(mixing(lab33.topology(name, ranks_virtual)))  # λ2
    steps = int(np.ceil(np.log(100) / -np.log(shrink)))
    apart, ms = agree(name, steps)
    by_step[name] = apart
    by_time[name] = ms * np.arange(1, steps + 1), apart[1:]
    slope = (apart[-1] / apart[steps // 2]) ** (1 / (steps - steps // 2))
    predicted = f"λ2 is {shrink:.3f}, and λ2 ** {steps} is {shrink**steps:.4f}"
    print(
        f"{name}: {predicted}; a step multiplies the distance by {slope:.3f} and takes {ms:.2f} ms"
    )
for way, allreduce in {"ring allreduce": ring_allreduce, "best allreduce": best_allreduce}.items():
    run = cluster.run(allreduce, virtual.vector(np.zeros(1024), nbytes))
    by_time[way] = [1e3 * run.time] * 2, [1, 0.001]
    print(f"{way}: {1e3 * run.time:.2f} ms, and all agree")
    record.add("allreduce", way=way, ranks=ranks_virtual, unit="s", time=run.time)

# %% [markdown]
# In the second half of the steps, the slowest part of the differences is nearly the only one left,
# and the measured factors are close to λ2.
#
# The time of a step is that of the busiest link. This link sends two vectors in the ring, up to
# four in the random graph, and 31 at the hub of the wheel.
#
# The next plot shows 1 − λ2 for other numbers of ranks. The larger 1 − λ2 is, the more one step
# mixes.

# %%
gaps = {}
for name in names:
    gaps[name] = {p: 1 - lab33.rate(mixing(lab33.topology(name, p))) for p in (4, 8, 16, 32, 64)}
title = "With more ranks, a random graph mixes most per step"
plots.lines(gaps, xlabel="ranks", ylabel="1 - λ2", title=title, logx=True, logy=True)
rings = {p: lab33.steps_taken(mixing(lab33.topology("ring", p))) for p in (16, 32)}
predict.right("33.2", ring_of_16=rings[16], ring_of_32=rings[32])

# %% [markdown]
# **Explain.** The number of steps in your prediction is log(100) / −log(λ2). If λ2 is close to 1,
# this is about log(100) / (1 − λ2). How fast 1 − λ2 decreases with the number of ranks p depends on
# the topology:
#
# - For the ring it decreases as 1 / p², so twice as many ranks need about four times as many steps.
# - For the wheel it decreases more slowly, eventually as 1 / p, the weight of the hub's links.
# - For the random graph, from 8 ranks on, it decreases far less than for the other two.

# %%
distance = {"ylabel": "distance (share of the first)", "logy": True, "markers": False}
title = f"{ranks_virtual} ranks: a random graph agrees in the fewest steps"
plots.lines(by_step, xlabel="steps", name="by step", title=title, **distance)

# %% [markdown]
# With 32 ranks the curves reach a hundredth earlier than λ2 predicts:
#
# | | steps predicted from λ2 | steps measured |
# |---|---|---|
# | random graph | 28 | 18 |
# | ring | 358 | 253 |
#
# Random vectors contain all 31 parts, and most of them shrink much faster than the slowest.
# Afterwards the slowest part is left, and each step multiplies the distance by λ2.
#
# The next plot shows the same distances over time. The two allreduces are vertical lines, because
# each takes the ranks to exact agreement at one time.

# %%
title = f"{ranks_virtual} ranks, {nbytes / 1e3:.0f} kB: the best allreduce agrees first"
plots.lines(by_time, xlabel="time (ms)", name="by time", title=title, logx=True, **distance)

# %% [markdown]
# The wheel needs fewer steps than the ring, but more time, because its hub sends 31 vectors in each
# step. Of the three topologies the random graph needs the fewest steps and the least time.
#
# Does gossip pay off if all ranks have to *agree*?
#
# <details><summary>Answer</summary>
#
# It does not pay off here. The best allreduce leads to exact agreement in less time than two gossip
# steps on the random graph. (The best allreduce is also much faster than the ring allreduce, which
# has 62 steps with a latency of 30 µs each.)
#
# However, a *single* gossip step on the ring or the random graph is faster than both allreduces,
# and a rank waits only for its neighbors. The question is therefore whether training needs
# agreement in every step.
# </details>
#
# Is a single gossip step cheaper for longer vectors, too? In a gossip step, a rank sends the whole
# vector to each neighbor, and waits for one latency. In Rabenseifner's allreduce, a rank sends less
# than two vectors, in 10 steps with a latency each. Gossip thus saves latency, but not bytes. With
# vectors of 690 kB on this cluster, these times result:
#
# | a gossip step on the ring | a gossip step on the random graph | the best allreduce |
# |---|---|---|
# | 1.1 ms | 2.2 ms | 1.4 ms |
#
# (To see this, set `nbytes` to `690e3` and run the cells again.)
#
# These times come from a model in which all links are equally fast and no rank is delayed, while
# the numbers of steps depend only on W and the vectors at the start.
#
# ## What does gossip do to training?
# In **D-PSGD** (decentralized parallel stochastic gradient descent, 2017) every rank has its own
# parameters. A step has three parts:
#
# - The rank computes the gradient at its own parameters, on its own images.
# - It mixes its parameters with those of its neighbors in one gossip step, which can run while
#   the gradient is computed, because the gradient does not depend on the mixing.
# - It subtracts the learning rate times its gradient.
#
# The ranks begin with equal parameters, and never have to agree exactly afterwards. After training,
# one keeps the average of the parameters over all ranks.
#
# How far apart can the ranks get? Suppose that the updates of one step, which differ from rank to
# rank, move the ranks apart by at most δ. The next gossip step leaves at most λ2 δ of this
# distance, and the next updates add at most δ again. The distance therefore stays below δ + λ2 δ +
# λ2² δ + …, which is δ / (1 − λ2).
#
# With one gossip step per training step, the distance thus has a limit, which depends on 1 − λ2.
# For the random graph of 32 ranks this limit is 6.5 δ, and for the ring it is 78 δ.
#
# We have not trained here. The authors of D-PSGD trained residual networks on the CIFAR-10 images,
# and found it up to ten times as fast as centralized SGD on networks with a low bandwidth or a high
# latency.
#
# <details><summary>What does "centralized" mean?</summary>
#
# In papers on gossip, a method is centralized if it leaves all ranks with the same parameters. In
# courses such as those of SURF, the Dutch national computing center, a method is centralized if the
# gradients are added in a central place:
#
# | | a server adds up (lab 31) | all ranks add up and all agree (lab 30) | neighbors average, and ranks do not agree (this lab) |
# |---|---|---|---|
# | papers on gossip | centralized | centralized | decentralized |
# | courses such as those of SURF | centralized | decentralized | decentralized |
# </details>
#
# ### What you take away
# - A symmetric W whose rows sum to 1 preserves the average. Metropolis-Hastings weights give such a
#   matrix for any topology.
# - Reducing the distance by a given factor takes at most log(factor) / −log(λ2) steps. For a factor
#   of 100 this is about p² / 3 steps in a ring, and 28 in our random graph of 32 ranks. In a wheel
#   the number eventually grows in proportion to p, and the hub sends to all other ranks.
# - For exact agreement, the best allreduce is faster. A single gossip step between few neighbors
#   saves nearly all latencies of an allreduce, but no bytes, so it is cheaper mainly for short
#   vectors.
# - D-PSGD trains without agreement in each step. One gossip step per training step limits the
#   distance between the ranks, to δ / (1 − λ2) if each step adds at most δ.
# - Lab 34 asks how large a batch may be, and lab 35 how small a message may be.
#
# ### Further reading
# - [@lian2017] The paper on D-PSGD, with its proof of convergence and its measurements on slow
#   networks.
# - [@xiao2004] How to choose the weights of a mixing matrix so that agreement is as fast as
#   possible.
# - [@assran2019] Stochastic gradient push, which works with links in one direction only.
# - [@daily2018] GossipGraD, in which the partners of a rank change from step to step.
