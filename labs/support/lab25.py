"""The checks of lab 25, and the machine of its first measurements."""

from __future__ import annotations

from functools import partial
from math import sqrt
from operator import itemgetter

import numpy as np
import virtual
from labkit import check, expect, launch, predict
from labkit.collectives import tree_broadcast
from labkit.errors import counted
from labkit.scaling import costs

ALPHA, BETA = 2e-6, 1e-10  # seconds per message, and per byte (10 GB/s)
# Every Send waits for its Recv, as long messages do.
STRICT = virtual.ideal(ALPHA, 1 / BETA).but(eager=0)
NUMBERS = (1, 2, 3, 4, 5, 8, 16)  # of ranks


@check.exercise("25.1")
def scatter_then_allgather(scatter_allgather):
    """The vector arrives for any root, number of ranks and length, with at most 2(p - 1)/p vectors
    sent by a rank.
    """
    for p in NUMBERS:
        both = 2 * (p - 1)  # of a scatter and an allgather
        for run in expect_broadcast(
            scatter_allgather, p, vectors=both / p, messages=both, steps=both
        ):
            fan = max(sum(source == rank for source, _ in run.links) for rank in range(p))
            told = (
                f"The vector is right {run.where}, but no rank scatters: the most ranks that one"
                " sends to"
            )
            expect.equal(fan, p - 1, told)
    took = times_n_beta(scatter_allgather, 8)
    expect.between(took, 1, 1.8, "To 8 ranks, which takes 1.75 nβ: nβ that yours took")


@check.exercise("25.2")
def pipelined_chain(chain, scatter_allgather):
    """The vector arrives for any root, with one vector sent by a rank, in no more steps than p - 2
    + count, and on real ranks, too.
    """
    for count in (1, 4, 23):
        for p in NUMBERS:
            expect_broadcast(chain, p, count, vectors=1, messages=count, steps=p - 2 + count)
    by_chain = times_n_beta(chain, 64, 64)
    expect.between(by_chain, 1, 2, "64 chunks to 64 ranks (1 chunk takes 63 nβ). nβ it took")
    ways = [scatter_allgather, partial(chain, count=4)]
    launch.run(expect_on_ranks, ways, ranks=launch.ranks_here(4), timeout=10)
    predict.right("25.2", chain=by_chain, tree=times_n_beta(tree_broadcast, 64))


@check.exercise("25.3")
def best_number_of_chunks(best_chunks, layers):
    """The answer is a whole number, at most one off the best of 1 to 5,000 by the formula."""
    middle = float(sorted(layers)[len(layers) // 2])
    cases = [(middle, 64, ALPHA, BETA), (4e8, 99, 5e-6, BETA), (1e5, 3, 1e-6, 1e-9)]
    cases += [(8, 1, 1, BETA), (8, 2, 1, BETA), (8, 9, 1, BETA)]
    for nbytes, p, alpha, beta in cases:
        best = 1
        if p > 2:
            tried = np.arange(1, 5000)
            best = int(tried[np.argmin(costs.chain_broadcast_time(nbytes, p, alpha, beta, tried))])
        with check.case(f"{nbytes:g} bytes, {counted(p, 'rank')}, α = {alpha:g} s, β = {beta:g} s"):
            count = best_chunks(nbytes, p, alpha, beta)
            right = isinstance(count, int | np.integer) and count in range(
                max(1, best - 1), best + 2
            )
            expect(right, f"the best number of chunks is {best}, a whole number. Got {count!r}.")


@check.exercise("25.4")
def way_by_size(pick, sizes, best):
    """At a size of the table you pick its way, between two sizes the way of the nearer one by
    ratio, and beyond an end the end's.
    """
    ends = {sizes[0] / 8: best[sizes[0]], sizes[-1] * 8: best[sizes[-1]]}
    for small, large in zip(sizes, sizes[1:], strict=False):
        middle = sqrt(small * large)
        ends |= {small: best[small], 0.9 * middle: best[small], 1.1 * middle: best[large]}
    for nbytes, way in ends.items():
        expect.equal(pick(nbytes), way, f"The way for {nbytes:,.0f} bytes, by `best`")


def expect_broadcast(way, p, *options, vectors, messages, steps):
    """way(comm, vector, root, *options) on p ranks: right, for at most so much a rank. Returns
    Runs."""
    runs = []
    for root in sorted({0, 1 % p, p - 1}):
        case = {"args": (root, *options), "what": f"the vector of root {root}"}
        trials = virtual.trials(way, itemgetter(root), ranks=[p], machine=STRICT, **case)
        for (_, length), run in trials.items():
            run.expect_sent(at_most=vectors, unit=8 * length, rounding=8 * p, named=way.__name__)
            run.expect_messages(at_most=messages, named=way.__name__)
            run.expect_steps(at_most=steps, named=way.__name__)
            runs.append(run)
    return runs


def expect_on_ranks(comm, ways):
    for way in ways:
        for root in range(comm.size):
            vector = np.arange(1003) + 10000 * comm.rank
            way(comm, vector, root)
            subject = f"On real ranks, the vector of root {root} on rank {comm.rank} of {comm.size}"
            expect.equal(vector, np.arange(1003) + 10000 * root, subject)


def times_n_beta(way, ranks, *options):
    """What a broadcast of n = 1 GB from rank 0 takes on so many ranks of STRICT, as a multiple of
    nβ."""
    vector = virtual.vector(np.zeros(100 * ranks), stands_for=1e9)
    return virtual.Cluster(ranks, machine=STRICT).run(way, vector, 0, *options).time / (1e9 * BETA)
