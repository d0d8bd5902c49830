"""The checks of lab 33, its topologies, and what their mixing matrices say."""

from __future__ import annotations

import numpy as np
import virtual
from labkit import check, expect, launch, plots
from labkit.errors import counted
from labkit.plots import COLORS, new_figure

NAMES = ("ring", "wheel", "random")
# As in a real MPI, the send of a long message (here: over 1,000 bytes) waits for its receive.
STRICT = virtual.ideal().but(eager=1000)


@check.exercise("33.1")
def metropolis_hastings(mixing):
    """On many topologies W has no weight without a link, rows and columns that sum to 1, and the
    right weights.
    """
    for subject, p, neighbours in everywhere():
        given = [[*others] for others in neighbours]
        W = mixing(given)
        expect.unchanged(neighbours, given, f"{subject}: `neighbours`")
        shape = None if W is None else getattr(W, "shape", type(W).__name__)
        expect.equal(shape, (p, p), f"{subject}: the shape of W, an array")
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


@check.exercise("33.2")
def mixed_twice(gossip, mixing, patience):
    """Two steps on many topologies, and on real ranks, give what the product of matrices gives."""
    for subject, p, neighbours in everywhere():
        W = mixing(neighbours)
        expect_gossip(gossip, subject, neighbours, W, np.float32, length=300 + p)
        expect_gossip(gossip, subject, neighbours, W, np.float64, length=1, late=1e-3)
    ranks = launch.ranks_here(4)
    neighbours = topology("ring", ranks)
    W = mixing(neighbours)
    X = np.eye(ranks, 9000, dtype="f4")
    results = launch.run(two_steps, X, neighbours, W, gossip, ranks=ranks, timeout=patience)
    expect.close(
        results, [*(W @ W @ X)], f"A ring of {ranks} real ranks, two steps, against W @ X: rank"
    )


def everywhere():
    """(name, ranks, neighbours) of all topologies of 1 to 16 ranks."""
    return [
        (f"{name} of {p}", p, topology(name, p)) for name in NAMES for p in (4, 5, 8, 16, 3, 2, 1)
    ]


def expect_gossip(gossip, subject, neighbours, W, dtype, length, late=0.0):
    """Two steps on virtual ranks, against the product of matrices; two vectors sent to each
    neighbour. late: seconds that rank 1 begins after the others."""
    p = len(neighbours)
    X = np.random.default_rng(p).integers(1, 100, (p, length)).astype(dtype)
    cluster = virtual.Cluster(nodes=p, machine=STRICT)
    run = cluster.run(tried, virtual.by_rank([*X]), neighbours, W, gossip, late)
    histories, others, weights = zip(*run.results, strict=True)
    expect.unchanged(neighbours, [*others], f"{subject}: a rank's `neighbours`")
    expect.unchanged([*W], [*weights], f"{subject}: a rank's `weights`")
    slips = {"No rank's vector has changed. Mix in place, as with `vector *= …`": [*X]}
    if late:
        subject += ", rank 1 late, so that steps overlap (does each receive name its source?)"
    for step, want in enumerate((X, W @ X, W @ W @ X)):
        got = [history[step] for history in histories]
        what = (
            f"{subject}, {counted(length, 'value')}, {counted(step, 'step')}, against W @ X: rank"
        )
        expect.close(got, [*want], what, slips=slips)
    sent = [2 * len(ranks) for ranks in neighbours]
    run.expect_messages(exactly=sent)
    run.expect_sent(exactly=sent, unit=X[0].nbytes)


def tried(comm, vector, neighbours, W, gossip, late):
    """Two steps. Returns what `repeat` does, and the rank's neighbours and weights afterwards."""
    if comm.rank == 1:
        comm.compute(late)
    return repeat(comm, vector, neighbours, W, 2, gossip), neighbours[comm.rank], W[comm.rank]


def repeat(comm, vector, neighbours, W, steps, gossip):
    """So many gossip steps. Returns the vector before the first and after each."""
    history = [vector.copy()]
    for _ in range(steps):
        gossip(comm, vector, neighbours[comm.rank], W[comm.rank])
        history.append(vector.copy())
    return history


def two_steps(comm, X, neighbours, W, gossip):
    return repeat(comm, X[comm.rank].copy(), neighbours, W, 2, gossip)[-1]


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
    return [
        sorted(others, key=lambda other: (other - rank) % p) for rank, others in enumerate(near)
    ]


def draw_topologies(topologies):
    """Ranks on a circle, a wheel's hub in the middle, with a line for each link. topologies: by
    name."""
    figure = new_figure(10, 3.4)
    for axes, (name, neighbours) in zip(
        figure.subplots(1, len(topologies)), topologies.items(), strict=True
    ):
        hub = int(name == "wheel")
        numbers = np.arange(len(neighbours))
        angle = 2 * np.pi * (numbers - hub) / (len(neighbours) - hub)
        places = np.stack([np.sin(angle), np.cos(angle)]) * (numbers >= hub)
        for rank, others in enumerate(neighbours):
            for other in others:
                axes.plot(*places[:, [rank, other]], color=COLORS[0], linewidth=1)
        axes.plot(*places, "o", color=COLORS[1], markersize=9)
        axes.set(title=name, aspect="equal")
        axes.axis("off")
    plots.show(figure, "topologies")


def rate(W):
    """λ2: what a step shrinks the distance by, in the long run."""
    return np.sort(abs(np.linalg.eigvalsh(W)))[-2]


def distances(history):
    """Distance to the average over all ranks, after each step. history: [rank][step], vectors."""
    vectors = np.array(history)
    return np.linalg.norm(vectors - vectors.mean(axis=0), axis=(0, 2))


def steps_taken(W):
    """Steps by which the slowest part of the distance has shrunk to a hundredth, counted."""
    values, vectors = np.linalg.eigh(W)
    slowest = vectors[:, np.argsort(abs(values))[-2]]
    x = slowest.copy()
    steps = 0
    while np.linalg.norm(x - x.mean()) > 0.01 * np.linalg.norm(slowest):
        x = W @ x
        steps += 1
    return steps
