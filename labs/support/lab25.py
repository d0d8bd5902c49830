"""The checks of lab 25, its first machine, and the broadcasts that it compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from math import ceil, inf, sqrt
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
VALUES = 1 << 14  # that a virtual vector has, whatever it stands for


@check.exercise("25.1")
def scatter_then_allgather(scatter_allgather):
    """The vector arrives for any root, number of ranks and length, with at most 2(p - 1)/p vectors
    sent by a rank, and in 2(p - 1) steps.
    """
    for p in NUMBERS:
        both = 2 * (p - 1)  # of a scatter and an allgather
        for _, run in expect_broadcast(
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
    """The vector arrives for any root, with one vector sent by a rank, in count messages and no
    more steps than p - 2 + count, and on real ranks, too.
    """
    for count in (1, 6):  # 6 is none of NUMBERS
        for p in NUMBERS:
            for length, run in expect_broadcast(
                chain, p, count, vectors=1, messages=count, steps=p - 2 + count
            ):
                if p > 1 and length >= count**2:  # slices of ⌈length/count⌉ are count of them, too
                    told = f"The vector is right {run.where}, but the messages for {count} chunks"
                    expect.equal(max(run.sent), count, told)
    took = times_n_beta(chain, 8, 64, values=127)  # 63 chunks of 2 and one of 1
    told = "127 values in 64 chunks of nearly equal length, to 8 ranks: nβ it took"
    expect.between(took, 1, 1.2, told)
    by_chain = times_n_beta(chain, 64, 64)
    ways = [scatter_allgather, partial(chain, count=4)]
    launch.run(expect_on_ranks, ways, ranks=launch.ranks_here(4), timeout=10)
    predict.right("25.2", chain=by_chain, tree=times_n_beta(tree_broadcast, 64))


@check.exercise("25.3")
def best_number_of_chunks(best_chunks, layers):
    """The answer is a whole number, at most one off the best of 1 to 5,000 by the formula, and 1
    where that is the best.
    """
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
            off = best > 1  # so much may be rounded
            right = isinstance(count, int | np.integer) and best - off <= count <= best + off
            expect(right, f"the best number of chunks is {best}, a whole number. Got {count!r}.")


@check.exercise("25.4")
def way_by_size(pick, sizes, best):
    """At a size of the table you pick its way, between two sizes the way of the nearer one by
    ratio, and beyond an end the end's.
    """
    before = dict(best)
    names = {size: f"entry {place}" for place, size in enumerate(sizes, start=1)}  # all differ
    cases = {sizes[0] / 8: sizes[0], sizes[-1] * 8: sizes[-1]}
    for small, large in zip(sizes, sizes[1:], strict=False):
        middle = sqrt(small * large)
        cases |= {small: small, 0.9 * middle: small, 1.1 * middle: large}
    try:
        for nbytes, size in cases.items():
            best.update(names)
            told = f"With the names 'entry 1', 'entry 2' … in `best`, pick({nbytes:,.0f})"
            expect.equal(pick(nbytes), names[size], told)
            expect(best == names, "pick changes the dictionary `best`, which it should only read.")
    finally:
        best.clear()
        best.update(before)


def expect_broadcast(way, p, *options, vectors, messages, steps):
    """way(comm, vector, root, *options) on p ranks: right, for at most so much a rank. Returns
    (length, Run)s."""

    @wraps(way)
    def in_place(comm, vector, *args):
        whole = vector.astype(np.int64) + 2**60  # which floats cannot hold
        result = way(comm, whole, *args)
        new = isinstance(result, np.ndarray) and not np.may_share_memory(result, whole)
        expect(not new, "The result is in a new array: write it into `vector`.")
        return whole - 2**60

    runs = []
    for root in sorted({0, 1 % p, p - 1}):
        case = {"args": (root, *options), "what": f"the vector of root {root} (int64)"}
        trials = virtual.trials(in_place, itemgetter(root), ranks=[p], machine=STRICT, **case)
        for (_, length), run in trials.items():
            run.expect_sent(at_most=vectors, unit=8 * length, rounding=8 * p, named=way.__name__)
            run.expect_messages(at_most=messages, named=way.__name__)
            run.expect_steps(at_most=steps, named=way.__name__)
            runs.append((length, run))
    return runs


def expect_on_ranks(comm, ways):
    for way in ways:
        for root in range(comm.size):
            vector = np.arange(1003) + 10000 * comm.rank
            way(comm, vector, root)
            subject = f"On real ranks, the vector of root {root} on rank {comm.rank} of {comm.size}"
            expect.equal(vector, np.arange(1003) + 10000 * root, subject)


def times_n_beta(way, ranks, *options, values=None):
    """What a broadcast of n = 1 GB from rank 0 takes on so many ranks of STRICT, as a multiple of
    nβ."""
    vector = virtual.vector(np.zeros(values or 100 * ranks), stands_for=1e9)
    return virtual.Cluster(ranks, machine=STRICT).run(way, vector, 0, *options).time / (1e9 * BETA)


# -- the best number of chunks


def chain_by_chunks(chain, best_chunks, *, nbytes: float, ranks: int = 64) -> dict[str, dict]:
    """Milliseconds by number of chunks, around the best: by the formula, and of the chain on
    STRICT."""
    layer = nbytes, ranks, ALPHA, BETA
    best = best_chunks(*layer)
    tried = sorted({max(1, round(best * 2**step)) for step in (-5, -4, -3, -2, -1, 0, 1)})
    cluster = virtual.Cluster(ranks, machine=STRICT)
    vector = virtual.vector(np.zeros(VALUES), stands_for=nbytes)
    formula = {count: 1e3 * costs.chain_broadcast_time(*layer, count) for count in tried}
    runs = {count: 1e3 * cluster.run(chain, vector, 0, count).time for count in tried}
    return {"T(k)": formula, "your chain": runs}


# -- five broadcasts on a machine of nodes


def two_level(comm, vector, root: int, per_node: int, inside: Callable) -> None:
    """Copy root's `vector` into every rank's: by a tree between nodes, by `inside` in each."""
    node = comm.Split(comm.rank // per_node)
    across = comm.Split(comm.rank % per_node)
    # Across ranks: one rank of each node gets the vector over the network, and then tells its node.
    if comm.rank % per_node == root % per_node:
        tree_broadcast(across, vector, root // per_node)
    inside(node, vector, root % per_node)


class Ways:
    """Five broadcasts, made of a learner's: `seconds` times each of them on a virtual cluster.

    most_chunks: of a chain. nccl_start: seconds to start a call of NCCL.
    """

    def __init__(self, scatter_allgather, chain, best_chunks, most_chunks: int, nccl_start: float):
        self.scatter_allgather = scatter_allgather
        self.chain = chain
        self.best_chunks = best_chunks
        self.most_chunks = most_chunks
        self.nccl_start = nccl_start

    def seconds(self, nbytes, ranks: int, machine, start: float | None = None) -> dict[str, float]:
        """{way: virtual seconds to broadcast nbytes to so many ranks}. start: if not nccl_start."""
        vector = virtual.vector(np.zeros(VALUES), stands_for=nbytes)
        per_node = machine.ranks_per_node
        # Most links are inside nodes, and the slowest link limits a pipeline.
        hop = machine.inside.alpha + machine.handshake, machine.between.beta
        over_all = min(self.best_chunks(nbytes, ranks, *hop), self.most_chunks)
        in_node = min(self.best_chunks(nbytes, per_node, *hop), self.most_chunks)
        chain_inside = partial(self.chain, count=in_node)
        ways = {
            "tree": tree_broadcast,
            "scatter-allgather": self.scatter_allgather,
            "chain": partial(self.chain, count=over_all),
            "two-level": partial(two_level, per_node=per_node, inside=chain_inside),
        }
        cluster = virtual.Cluster.of(ranks, per_node, machine)
        times = {name: cluster.run(way, vector, 0).time for name, way in ways.items()}
        pieces = min(ceil(nbytes / 2**18), self.most_chunks)  # of 256 KiB
        start = self.nccl_start if start is None else start
        nccl = partial(self._nccl_ring, count=pieces, start=start)
        cluster = virtual.Cluster.of(ranks, per_node, machine.but(eager=inf))  # no message waits
        times["with NCCL"] = cluster.run(two_level, vector, 0, per_node, nccl).time
        return times

    def _nccl_ring(self, comm, vector, root: int, count: int, start: float) -> None:
        comm.compute(start)
        self.chain(comm, vector, root, count)

    def table(self, machine, sizes: Iterable[int], most: int) -> dict[str, dict]:
        """{way: {(bytes, ranks): seconds}} on 1, 2, 4, … nodes with fewer ranks than `most`, and on
        `most`."""
        per_node = machine.ranks_per_node
        table: dict[str, dict] = {}
        doubled = {per_node * 2**k for k in range((most // per_node).bit_length())}
        for ranks in sorted({*doubled, most}):
            for nbytes in sizes:
                for way, time in self.seconds(nbytes, ranks, machine).items():
                    table.setdefault(way, {})[nbytes, ranks] = time
        return table


def tree_time(machine, nbytes: float, ranks: int) -> float:
    """Virtual seconds that the tree takes to broadcast nbytes to so many ranks of a machine."""
    vector = virtual.vector(np.zeros(VALUES), stands_for=nbytes)
    cluster = virtual.Cluster.of(ranks, machine.ranks_per_node, machine)
    return cluster.run(tree_broadcast, vector, 0).time


def training_step(
    layers: Mapping[str, int], seconds: Callable, pick: Callable
) -> dict[str, dict[str, float]]:
    """{way: {longest layer: milliseconds, "the rest": milliseconds}}, and so for "picked".

    layers: name -> bytes. seconds(bytes) gives {way: seconds}, and pick(bytes) the name of a way.
    """
    by_size = {nbytes: seconds(nbytes) for nbytes in set(layers.values())}
    ways = list(next(iter(by_size.values())))
    choices = {way: dict.fromkeys(layers, way) for way in ways}
    choices["picked"] = {layer: pick(nbytes) for layer, nbytes in layers.items()}
    longest = max(layers, key=layers.get)
    parts = {}
    for name, choice in choices.items():
        times = {layer: 1e3 * by_size[layers[layer]][way] for layer, way in choice.items()}
        first = times.pop(longest)
        parts[name] = {longest: first, "the rest": sum(times.values())}
    return parts
