"""The checks of lab 23, and the runs on the virtual cluster that its measurements make too."""

from __future__ import annotations

import numpy as np
import virtual
from labkit import check, counting, expect, launch, predict
from labkit.collectives import tree_allreduce

TABLE = virtual.by_rank([10**rank * np.arange(1, 5, dtype=np.float32) for rank in range(4)])
A_RING = "a ring of unpadded chunks in the vector's type"


@check.exercise("23.1")
def ring_reduce_scatter(reduce_scatter):
    """The finished chunks of the table. Then the right sums on 1 to 16 ranks and for any length,
    with messages only to right neighbors and without a byte too many."""

    def own_chunk(comm, vector):
        reduce_scatter(comm, vector)
        return np.array_split(vector, comm.size)[(comm.rank + 1) % comm.size]

    def finished_chunks(vectors):
        chunks = np.array_split(sum(vectors), len(vectors))
        return chunks[1:] + chunks[:1]  # rank 0 has chunk 1, …, the last rank has chunk 0

    with check.case("the table's vectors"):
        run = virtual.Cluster(nodes=4).run(own_chunk, TABLE)
        subject = "in `vector`, chunk rank + 1 is wrong (each digit shows which rank took part)"
        got = [int(chunk[0]) for chunk in run.results]
        place = "it is as it was before the call, so no sum was written into this array"
        expect.equal(got, [2222, 3333, 4444, 1111], subject, slips={place: [2, 30, 400, 1000]})
        run.expect_sent(exactly=12, named=A_RING)
    travels_as_a_ring(own_chunk, finished_chunks, "the chunk", rounds=1)


@check.exercise("23.2")
def whole_ring(ring_allreduce, patience):
    """The sum on 1 to 16 virtual ranks, with as many bytes and steps as a ring needs, and then the
    sum on real ranks."""

    def in_place(comm, vector):
        ring_allreduce(comm, vector)
        return vector

    with check.case("the table's vectors"):
        run = virtual.Cluster(nodes=4).run(in_place, TABLE)
        run.expect_results(1111 * np.arange(1.0, 5.0), "the sum in `vector`")
        run.expect_sent(exactly=24, named=A_RING)
    travels_as_a_ring(in_place, sum, "the sum", rounds=2)
    launch.run(counting.expect_sum, ring_allreduce, ranks=launch.ranks_here(4), timeout=patience)
    eight = virtual.Cluster(nodes=8).run(ring_allreduce, np.ones(8))  # 8 values of 8 bytes
    predict.right("23.2", vectors_sent=eight.sent_bytes[0] / 64, steps=eight.steps[0])


def travels_as_a_ring(function, want, what, rounds):
    """function(comm, vector) on 1 to 16 ranks: the answer, the neighbors, so many times round the
    ring."""
    # Messages above 64 bytes wait for their receiver, as long ones do.
    strict = virtual.ideal().but(eager=64)
    for (p, length), run in virtual.trials(function, want, machine=strict, what=what).items():
        strays = [f"{source} to {dest}" for source, dest in run.links if dest != (source + 1) % p]
        expect(
            not strays,
            f"With {p} ranks, some messages do not go to the right neighbor: {strays[:3]}.",
        )
        # In each round of the ring, rank r sends all chunks but one: first chunk r + 1, then r + 2.
        lengths = [len(chunk) for chunk in np.array_split(np.empty(length), p)]
        kept = [sum(lengths[(rank + 1 + i) % p] for i in range(rounds)) for rank in range(p)]
        sent = [8.0 * (rounds * length - values) for values in kept]
        run.expect_sent(exactly=sent, named=A_RING)
        run.expect_steps(exactly=rounds * (p - 1), named="a ring")


@check.exercise("23.3")
def cost_on_paper(ring_cost, ring_allreduce):
    """Your three numbers agree with a run of your ring on the virtual cluster."""
    for p, n, alpha, beta in [(1, 8e3, 1e-6, 1e-9), (5, 1e8, 1e-6, 2e-9), (30, 1e3, 3e-7, 1e-8)]:
        with check.case(f"p = {p}, n = {n:g} bytes, α = {alpha:g} s, β = {beta:g} s/byte"):
            run = run_ideal(ring_allreduce, p, n, alpha, beta)
            cost = ring_cost(p, n, alpha, beta)
            expect.equal(
                np.size(cost), 3, "how many numbers `ring_cost` returns (steps, bytes, seconds)"
            )
            steps, nbytes, seconds = cost
            expect.equal(steps, run.steps[0], "steps")
            expect.close(nbytes, run.sent_bytes[0], "bytes sent by a rank", rtol=1e-3)
            expect.close(seconds, run.time, "seconds", rtol=1e-3)


@check.exercise("23.4")
def where_the_ring_wins(ring_wins_from, ring_allreduce):
    """With 2 % fewer bytes than you return, a run of the tree is faster; with 2 % more, a run of
    the ring is faster."""
    for p, alpha, beta in [(4, 1e-6, 1e-9), (8, 3e-5, 8e-10), (64, 5e-6, 1e-10)]:
        with check.case(f"p = {p}, α = {alpha:g} s, β = {beta:g} s/byte"):
            n = ring_wins_from(p, alpha, beta)
            expect.between(n, 1, 1e12, "bytes (not kB) from which the ring is faster")
            for part, tree_leads, fault in ((0.98, True, "many"), (1.02, False, "few")):
                ring = run_ideal(ring_allreduce, p, part * n, alpha, beta).time
                tree = run_ideal(tree_allreduce, p, part * n, alpha, beta).time
                took = f"the ring takes {1e6 * ring:.2f} µs and the tree {1e6 * tree:.2f} µs"
                sentence = f"{n:.0f} bytes are too {fault}. With {part:.0%} of them {took}."
                expect((tree < ring) == tree_leads, sentence)
    # Of the last case, the one that the lab asks about.
    predict.right("23.4", ring_wins_from_kB=n / 1e3)


def run_ideal(function, p, n, alpha=1e-6, beta=1e-9):
    """Run function on p virtual ranks, one a node, with vectors that stand for n bytes."""
    cluster = virtual.Cluster(nodes=p, machine=virtual.ideal(alpha=alpha, bandwidth=1 / beta))
    return cluster.run(function, virtual.vector(np.ones(p), stands_for=n))
