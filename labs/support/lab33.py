"""The checks of lab 33, and runs that its measurements make too."""

from __future__ import annotations

import numpy as np
from labkit import check, expect, launch, virtual

NAMES = ("ring", "wheel", "random")
# As in a real MPI, the send of a long message (here: over 1,000 bytes) waits for its receive.
STRICT = virtual.ideal().but(eager=1000)


@check.exercise("33.1")
def metropolis_hastings(mixing, topology):
    """On many topologies W has no weight without a link, rows and columns that sum to 1, and the
    right weights.
    """
    for subject, p, neighbours in everywhere(topology):
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


@check.exercise("33.2")
def mixed_twice(gossip, mixing, topology):
    """Two steps on many topologies, and on real ranks, give what the product of matrices gives."""
    for subject, p, neighbours in everywhere(topology):
        W = mixing(neighbours)
        for length in (16 * p, 1000 + p, 1):
            expect_gossip(gossip, subject, neighbours, W, length)
    ranks = launch.ranks_here(4)
    neighbours = topology("ring", ranks)
    W = mixing(neighbours)
    X = np.eye(ranks, 9000, dtype="f4")
    results = launch.run(two_steps, X, neighbours, W, gossip, ranks=ranks)
    expect.close(results, [*(W @ W @ X)], f"A ring of {ranks} real ranks, two steps, against W @ X: rank")


@check.exercise("33.3")
def training_in_a_ring(
    decentralised, mixing, topology, start, schedule, gradient_at, learning_rate, patience
):
    """Every step of four real ranks in a ring gives what one process computes."""
    ranks = launch.ranks_here(4)
    neighbours = topology("ring", ranks)
    W = mixing(neighbours)
    results = launch.run(decentralised, neighbours, W, ranks=ranks, timeout=patience)
    for step, want in enumerate(in_one_process(W, start, schedule, gradient_at, learning_rate)):
        got = [history[step] for history in results]
        rule = "W @ X - learning_rate * (gradient at X)"
        subject = f"Ring of {ranks} ranks, against {rule}, {steps_text(step)}: rank"
        expect.close(got, [*want], subject, rtol=0.01, atol=1e-3)


def everywhere(topology):
    """(name, ranks, neighbours) of all topologies of 1 to 16 ranks."""
    return [(f"{name} of {p}", p, topology(name, p)) for name in NAMES for p in (4, 5, 8, 16, 3, 2, 1)]


def expect_gossip(gossip, subject, neighbours, W, length):
    """Two steps on virtual ranks, against the product of matrices; two vectors sent to each neighbour."""
    p = len(neighbours)
    X = np.random.default_rng(p).integers(1, 100, (p, length)).astype("f4")
    cluster = virtual.Cluster(nodes=p, machine=STRICT)
    run = cluster.run(repeat, virtual.by_rank([*X]), neighbours, W, 2, gossip)
    slips = {"No rank's vector has changed. Mix in place, as with `vector *= …`": [*X]}
    for step, want in enumerate((X, W @ X, W @ W @ X)):
        got = [history[step] for history in run.results]
        what = f"{subject}, {length} values, {steps_text(step)}, against W @ X: rank"
        expect.close(got, [*want], what, slips=slips)
    sent = [2 * len(others) for others in neighbours]
    run.expect_messages(exactly=sent)
    run.expect_sent(exactly=sent, unit=4 * length)


def repeat(comm, vector, neighbours, W, steps, gossip):
    """So many gossip steps. Returns the vector before the first and after each."""
    history = [vector.copy()]
    for _ in range(steps):
        gossip(comm, vector, neighbours[comm.rank], W[comm.rank])
        history.append(vector.copy())
    return history


def two_steps(comm, X, neighbours, W, gossip):
    return repeat(comm, X[comm.rank].copy(), neighbours, W, 2, gossip)[-1]


def in_one_process(W, start, schedule, gradient_at, learning_rate):
    """Decentralised SGD in one process: row r of X holds rank r's parameters. Returns [step][rank]."""
    history = [np.array([start] * len(W))]
    for rows in schedule:
        gradients = [gradient_at(x, rows[rank :: len(W)]) for rank, x in enumerate(history[-1])]
        history.append((W @ history[-1] - learning_rate * np.array(gradients)).astype(np.float32))
    return history


def steps_text(count):
    return f"{count} step" if count == 1 else f"{count} steps"
