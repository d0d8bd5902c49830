# %% [markdown]
# # 33 Gossip topologies
#
# Must all ranks agree in every step? Here each averages with its neighbours only: on a ring, a wheel, a
# random graph. You find how fast agreement spreads, what it costs, and what that does to training.
#
# **You will be able to** (1) write the mixing matrix of any topology, and a gossip step that uses it, (2) say
# from an eigenvalue how many steps agreement takes, (3) train by decentralised SGD, and judge it.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 45 · Before: 30, 31

# %%
import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, data, expect, hint, lab, launch, nets, plots, predict, record, virtual
from labkit.collectives import ring_allreduce
from labkit.plots import COLORS, new_figure
from torch.nn.utils import parameters_to_vector, vector_to_parameters

lab.start("33_gossip_topologies")

# %% tags=["parameters"]
batch = 128  # images per step, over all ranks together
epochs = 8  # passes over the 1,536 training images
learning_rate = 0.2  # plain SGD
ranks_virtual = 32  # ranks on the virtual cluster in the measurement
patience = 30  # seconds after which a check calls the ranks stuck


# %% [markdown]
# A topology is a list: `neighbours[r]` are the ranks that rank r talks to. In a **ring** these are two. A
# **wheel** is a ring around a hub, rank 0, that talks to all. **Random** here: two rings through all ranks,
# each in an order drawn by lot.

# %%
def topology(name, p):
    """The neighbours of each of p ranks, those on its right first."""
    if name == "ring":
        orders = [range(p)]
    elif name == "wheel":
        orders = [range(1, p)]
    else:
        orders = [np.random.default_rng(seed).permutation(p).tolist() for seed in (0, 1)]
    near = [set() for _ in range(p)]
    for order in orders:
        for i, rank in enumerate(order):
            near[rank].add(order[i - 1])
            near[order[i - 1]].add(rank)
    if name == "wheel":
        near[0] = set(range(p))
        for others in near:
            others.add(0)
    for rank, others in enumerate(near):
        others.discard(rank)
    return [sorted(others, key=lambda other: (other - rank) % p) for rank, others in enumerate(near)]


# %%
names = ("ring", "wheel", "random")
figure = new_figure(10, 3.4)
for axes, name in zip(figure.subplots(1, 3), names, strict=True):
    hub = int(name == "wheel")  # drawn in the middle
    angle = 2 * np.pi * (np.arange(12) - hub) / (12 - hub)
    places = np.stack([np.sin(angle), np.cos(angle)]) * (np.arange(12) >= hub)
    for rank, others in enumerate(topology(name, 12)):
        for other in others:
            axes.plot(*places[:, [rank, other]], color=COLORS[0], linewidth=1)
    axes.plot(*places, "o", color=COLORS[1], markersize=9)
    axes.set(title=name, aspect="equal")
    axes.axis("off")
plots.show(figure, "topologies")


# %% [markdown]
# ### Exercise 33.1 · The mixing matrix
# In a gossip step rank i's vector becomes a weighted mean: the sum of `W[i, j] * x[j]` over its neighbours j
# and itself. So the rows of W sum to 1. The columns must, too, or the average of all ranks drifts, and they
# agree on a wrong one. **Metropolis-Hastings** weights do both on any topology. With d[i] the number of i's
# neighbours, a link's weight is `1 / (1 + max(d[i], d[j]))`; `W[i, i]` is what is left of 1. 4 lines.
#
# <details><summary>Hint 1: two loops</summary>
#
# `for i, others in enumerate(neighbours):` and in it `for j in others:`. How many neighbours has rank j?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `W[i, j] = 1 / (1 + max(len(others), len(neighbours[j])))`; after the inner loop `W[i, i] = 1 - W[i].sum()`.
# </details>

# %%
def mixing(neighbours):
    """The matrix W of Metropolis-Hastings weights, shape (p, p)."""
    W = np.zeros((len(neighbours), len(neighbours)))
    raise NotImplementedError("exercise 33.1: The mixing matrix")
    return W


# %%
everywhere = [(f"{name} of {p}", p, topology(name, p)) for name in names for p in (4, 5, 8, 16, 3, 2, 1)]
with check("33.1"):
    for subject, p, neighbours in everywhere:
        W = mixing(neighbours)
        expect.equal(getattr(W, "shape", None), (p, p), f"{subject}: the shape of W, an array")
        linked = np.array([[j in others for j in range(p)] for others in neighbours])
        elsewhere = ~linked & ~np.eye(p, dtype=bool)
        expect((W[elsewhere] == 0).all(), f"{subject}: a weight where there is no link.")
        expect.close(W.sum(axis=1), np.ones(p), f"{subject}: the sums of the rows")
        low, high = W.sum(axis=0).min(), W.sum(axis=0).max()
        drift = f"{subject}: the columns sum to {low:.2f} up to {high:.2f}, not to 1"
        expect(np.allclose([low, high], 1), f"{drift}: the average over all ranks would drift.")
        degree = [len(others) for others in neighbours]
        want = linked / (1 + np.maximum.outer(degree, degree))
        expect.close(np.where(linked, W, 0), want, f"{subject}: the weights of the links")


# %% [markdown]
# ### Exercise 33.2 · A gossip step
# Every rank sends its vector to its neighbours, gets theirs, and mixes, in place. Mind two things: blocking
# sends may wait in a circle (lab 20), and what is mixed are everybody's *old* vectors. 8 lines, any topology,
# with the calls for arrays (capital letters). The vectors are float32. The check makes two steps.
#
# <details><summary>Hint 1: room for what comes</summary>
#
# `boxes = {other: np.empty_like(vector) for other in neighbours}`, and an `Irecv` into each.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `requests = [comm.Irecv(box, source=other) for other, box in boxes.items()]`; add the `Isend`s; wait for all
# of them. Then `vector *= weights[comm.rank]`, and for each box `vector += weights[other] * box`.
# </details>

# %%
def gossip(comm, vector, neighbours, weights):
    """Mix in place. neighbours: this rank's, a list. weights: this rank's row of W, one weight per rank."""
    raise NotImplementedError("exercise 33.2: A gossip step")


# %%
def repeat(comm, vector, neighbours, W, steps):
    """Gossip steps. Returns the vector before the first and after each."""
    history = [vector.copy()]
    for _ in range(steps):
        gossip(comm, vector, neighbours[comm.rank], W[comm.rank])
        history.append(vector.copy())
    return history


# %%
# As in a real MPI, the send of a long message (here: over 1,000 bytes) waits for its receive.
strict = virtual.ideal().but(eager=1000)


def expect_gossip(name, p, neighbours, length):
    """Two steps on p virtual ranks, against the product of matrices; two vectors sent to each neighbour."""
    W = mixing(neighbours)
    X = np.random.default_rng(p).integers(1, 100, (p, length)).astype("f4")
    cluster = virtual.Cluster(nodes=p, machine=strict)
    run = cluster.run(repeat, virtual.by_rank([*X]), neighbours, W, 2)
    slips = {"No rank's vector has changed. Mix in place, as with `vector *= …`": [*X]}
    for step, want in enumerate((X, W @ X, W @ W @ X)):
        got = [history[step] for history in run.results]
        subject = f"{name}, {length} values, {step} steps, against W @ X: rank"
        expect.close(got, [*want], subject, slips=slips)
    sent = [2 * len(others) for others in neighbours]
    run.expect_messages(exactly=sent)
    run.expect_sent(exactly=sent, unit=4 * length)


# %%
def two_steps(comm, X, neighbours, W):
    return repeat(comm, X[comm.rank].copy(), neighbours, W, 2)[-1]


ranks = launch.ranks_here(4)
with check("33.2"):
    for name, p, neighbours in everywhere:
        for length in (16 * p, 1000 + p, 1):
            expect_gossip(name, p, neighbours, length)
    neighbours = topology("ring", ranks)
    W, X = mixing(neighbours), np.eye(ranks, 9000, dtype="f4")
    results = launch.run(two_steps, X, neighbours, W, ranks=ranks)
    expect.close(results, [*(W @ W @ X)], f"A ring of {ranks} real ranks, two steps, against W @ X: rank")

# %% [markdown]
# ### Predict
# The average stays; the distance to it shrinks, in the long run by λ2 a step: the second largest |eigenvalue|
# of W (the largest, 1, is the average's). For a ring λ2 = (1 + 2 cos(2π / p)) / 3, about 1 - 13 / p². After
# how many steps is the distance a hundredth, λ2 ** steps = 1 / 100, in a ring of 16? In one of 32? (Twice as
# many? Solve for the steps with logarithms.) Then find in the plots: what mixes most in a step, what in a ms?

# %%
predict("33.2", ring_of_16=..., ring_of_32=...)


# %%
def rate(W):
    """λ2: what a step shrinks the distance by, in the long run."""
    return np.sort(abs(np.linalg.eigvalsh(W)))[-2]


def distances(history):
    """Distance to the average over all ranks, after each step. history: [rank][step], vectors."""
    vectors = np.array(history)
    return np.linalg.norm(vectors - vectors.mean(axis=0), axis=(0, 2))


def steps_until(name, p, factor):
    return int(np.ceil(np.log(factor) / -np.log(rate(mixing(topology(name, p))))))


# %%
# The machine: 10 Gb/s and 30 µs for each rank. The vectors: as long as lab 30's parameters, 69 kB.
slow = virtual.ideal().but(between=virtual.Link(latency=28e-6, bandwidth=10e9 / 8, overhead=1e-6))
cluster = virtual.Cluster(nodes=ranks_virtual, machine=slow)


def agree(name, steps):
    """Gossip steps from random vectors. Returns the distances, as shares of the first, and ms of a step."""
    neighbours = topology(name, ranks_virtual)
    drawn = np.random.default_rng(0).standard_normal((ranks_virtual, 100))
    vectors = virtual.by_rank([virtual.vector(x, 69e3) for x in drawn])
    run = cluster.run(repeat, vectors, neighbours, mixing(neighbours), steps)
    record.add("agreement", topology=name, ranks=ranks_virtual, steps=steps, unit="s", time=run.time)
    apart = distances(run.results)
    return apart / apart[0], 1e3 * run.time / steps


# %%
gaps, by_step, by_time = {}, {}, {}
for name in names:
    gaps[name] = {p: 1 - rate(mixing(topology(name, p))) for p in (4, 8, 16, 32, 64)}
    steps = steps_until(name, ranks_virtual, 100)
    apart, ms = agree(name, steps)
    by_step[name] = apart
    by_time[name] = ms * np.arange(1, steps + 1), apart[1:]
    slope = (apart[-1] / apart[steps // 2]) ** (1 / (steps - steps // 2))
    shrinks = f"shrinks the distance by {slope:.3f}, λ2 is {1 - gaps[name][ranks_virtual]:.3f}"
    print(f"{name}: a step takes {ms:.2f} ms and {shrinks}; {steps} steps to 1 / 100")
run = cluster.run(ring_allreduce, virtual.vector(np.zeros(1000), 69e3))
by_time["ring allreduce"] = [1e3 * run.time] * 2, [1, 0.01]
print(f"ring allreduce: {1e3 * run.time:.2f} ms, and all agree")

# %%
plots.lines(gaps, xlabel="ranks", ylabel="1 - λ2", title="How much a step mixes", logx=True, logy=True)
labels = {"ylabel": "distance to the average", "title": f"{ranks_virtual} ranks, 69 kB"}
plots.lines(by_step, xlabel="steps", name="by step", **labels, logy=True, markers=False)
plots.lines(by_time, xlabel="time (ms)", name="by time", **labels, logx=True, logy=True, markers=False)
predict.compare("33.2", **{f"ring_of_{p}": steps_until("ring", p, 100) for p in (16, 32)})

# %% [markdown]
# A ring's gap 1 - λ2 falls as 1 / p², a wheel's as 1 / p, and its hub sends p - 1 vectors in a step; a random
# graph mixes in few steps at any size, but there messages to the same rank wait for each other. To agree
# *exactly*, an allreduce is fastest. But a ring's single step is much faster where latency counts, and waits
# for nobody but the neighbours.
#
# ### Exercise 33.3 · Train with it
# Does training need more than one step? In **D-PSGD** (decentralised parallel SGD, Lian et al., NeurIPS 2017)
# every rank has parameters of its own. In a step it takes the gradient at these, on its images; mixes its
# parameters with its neighbours'; and subtracts the learning rate times its gradient. (So mixing can run
# while the gradient is computed.) 3 lines.
#
# <details><summary>Hint 1: which gradient?</summary>
#
# `gradient_at(parameters, share)`, of the parameters *before* they are mixed.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Then `gossip(comm, parameters, neighbours[comm.rank], W[comm.rank])`, then `parameters -= …`.
# </details>

# %%
torch.set_num_threads(1)  # so small a net gains nothing from more
images, labels, test_images, test_labels = (torch.tensor(part) for part in data.digits())
net = nets.torch_digits()
start = parameters_to_vector(net.parameters()).detach().numpy()
schedule = [rows for epoch in range(epochs) for rows in data.batches(len(images), batch, epoch)]


def gradient_at(parameters, rows):
    """The gradient of lab 30's net with these flat parameters, on these images."""
    vector_to_parameters(torch.tensor(parameters), net.parameters())
    loss = F.cross_entropy(net(images[rows]), labels[rows])
    return parameters_to_vector(torch.autograd.grad(loss, list(net.parameters()))).numpy()


# %%
def decentralised(comm, neighbours, W):
    """D-PSGD. Returns this rank's parameters, before the first step and after each."""
    parameters, history = start.copy(), [start.copy()]
    for rows in schedule:
        share = rows[comm.rank :: comm.size]
        raise NotImplementedError("exercise 33.3: Train with it")
        history.append(parameters.copy())
    return history


# %%
def reference(W):
    """The same in one process: row r of X holds rank r's parameters. Returns [step][rank]."""
    history = [np.array([start] * len(W))]
    for rows in schedule:
        gradients = [gradient_at(x, rows[rank :: len(W)]) for rank, x in enumerate(history[-1])]
        history.append((W @ history[-1] - learning_rate * np.array(gradients)).astype(np.float32))
    return history


with check("33.3"):
    neighbours, W = topology("ring", ranks), mixing(topology("ring", ranks))
    results = launch.run(decentralised, neighbours, W, ranks=ranks, timeout=patience)
    for step, want in enumerate(reference(W)):
        got = [history[step] for history in results]
        subject = (
            f"Ring of {ranks} ranks, against W @ X - learning_rate * (gradient at X), {step} steps: rank"
        )
        expect.close(got, [*want], subject, rtol=0.01, atol=1e-3)


# %% [markdown]
# Now 16 ranks train, on every topology. Look at two things: does the distance to the average grow or settle,
# and would you rather use the parameters of one rank or their average?

# %%
def accuracy(parameters):
    """Percent of the test images that the net recognises."""
    vector_to_parameters(torch.tensor(parameters), net.parameters())
    return 100 * (net(test_images).argmax(1) == test_labels).float().mean().item()


apart = {}
alone = accuracy(reference(np.ones((1, 1)))[-1][0])
print(f"One process with all {batch} images, or allreduce (lab 30): {alone:.1f} % of test images right")
for name in names:  # 16 virtual ranks with 8 images each
    neighbours = topology(name, 16)
    history = virtual.Cluster(nodes=16).run(decentralised, neighbours, mixing(neighbours)).results
    apart[name] = distances(history)
    last = np.array([of_rank[-1] for of_rank in history])
    own = [accuracy(parameters) for parameters in last]
    mean = accuracy(last.mean(axis=0))
    print(f"{name}: {min(own):.1f} to {max(own):.1f} % on each rank, {mean:.1f} % with their average")
    record.add("accuracy", unit="%", topology=name, ranks=16, average=mean, worst=min(own), allreduce=alone)
title = "16 ranks in training"
plots.lines(apart, xlabel="step", ylabel="distance to the average", title=title, markers=False)

# %% [markdown]
# ### What you take away
# - A symmetric W with rows that sum to 1 keeps the average; Metropolis-Hastings finds one for any topology.
# - Agreement: log(factor) / -log(λ2) steps. Ring: about p²; random: a handful; the wheel's hub is a hot spot.
# - Training needs no agreement in each step: the ranks' average, not each alone, nearly equals allreduce.
# - Lian et al. found D-PSGD up to ten times as fast as centralised SGD on slow networks.
# - Next: how large may a batch be (lab 34), and how small a message (lab 35)?
