"""The checks of lab 24, and what its measurements on the virtual cluster share with them."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import virtual
from labkit import check, expect, launch, predict
from labkit.counting import expect_sum

# Messages above 64 bytes wait for their receiver, as long ones do.
STRICT = virtual.ideal().but(eager=64)
# A tuning table, made up: ranks -> bytes -> way -> seconds. Only 4 ranks have the size of 16384
# bytes.
TABLE = {
    4: {
        2048: {"tree": 8, "doubling": 7},
        400: {"ring": 2, "tree": 1},
        1 << 20: {"tree": 9, "ring": 8},
        16384: {"doubling": 8, "ring": 7},
    },
    16: {400: {"tree": 3, "doubling": 2}, 1 << 20: {"tree": 6, "Rabenseifner": 5}},
}
FASTEST = [  # bytes, ranks, and the fastest way by TABLE
    (0, 4, "tree"),
    (1000, 4, "doubling"),
    (8_000_000, 4, "ring"),
    (400, 9, "doubling"),
    (600_000, 9, "Rabenseifner"),
    (600_000, 3, "ring"),
    (16384, 9, "doubling"),  # first the nearest ranks, 16; there 400 bytes are nearest
]


@check.exercise("24.1")
def doubling_in_seats(doubling):
    """The sum is right on 1 to 16 ranks after log₂ p steps, with log₂ p vectors sent by each, and
    partners are found by seats, not by ranks.
    """
    in_order = seated(doubling, lambda comm: range(comm.size))
    expect_in_place(in_order)
    runs = virtual.trials(in_order, sum, ranks=(2, 4, 8, 16, 1), machine=STRICT, what="the sum")
    expect_price(runs, np.log2, np.log2, "recursive doubling")
    shifted = seated(doubling, lambda comm: [*range(1, comm.size), 0])
    what = "with seats 1, 2, … and rank 0 in the last, the sum"
    virtual.trials(shifted, sum, ranks=(2, 4, 8), what=what)
    outer, inner = [0, 1, 6, 7], [2, 3, 4, 5]
    in_groups = seated(doubling, lambda comm: outer if comm.rank in outer else inner)
    what = (
        "where ranks 0, 1, 6 and 7 have the seats of one group, and the others of another, the"
        " group's sum"
    )
    virtual.trials(in_groups, sums_of_groups, ranks=[8], what=what)


@check.exercise("24.2")
def halving_and_back(halving, for_any, patience):
    """The sum is right on any number of ranks, after 2 log₂ p steps with 2 (p - 1)/p vectors sent
    by each (for other p two steps and a vector more), and no rank adds more than it keeps.
    """
    allreduce = partial(for_any, among=halving)
    expect_in_place(allreduce)
    numbers = (1, 2, 4, 8, 16, 3, 5, 6, 7, 12)
    runs = virtual.trials(allreduce, sum, ranks=numbers, machine=STRICT, what="the sum")
    expect_price(runs, lambda p: 2 * np.log2(p), lambda p: 2 * (p - 1) / p, "Rabenseifner")
    launch.run(expect_sum, allreduce, ranks=launch.ranks_here(5), timeout=patience)
    added = vectors_added(allreduce, 8)
    expect(
        added < 0.88,
        f"The sum is right, but each of 8 ranks adds {added:.3g} vectors; 0.875 are enough.",
    )
    crossed = vectors_between_nodes(halving, range(8))
    expect(
        crossed == 6,
        f"The sum is right, but on 4 nodes of 2 ranks {crossed:g} vectors cross between nodes"
        " instead of 6: the first step, of half a vector, has to be that at distance 1.",
    )
    vector = np.ones(64)
    sixteen, seventeen = (virtual.Cluster(p).run(allreduce, vector) for p in (16, 17))
    predict.right(
        "24.2",
        steps=max(sixteen.steps),
        vectors_sent=sixteen.sent_bytes[0] / vector.nbytes,
        sent_for_two=max(seventeen.sent_bytes) / vector.nbytes,
    )


@check.exercise("24.3")
def choice_by_a_table(choose, allreduce_tuned, WAYS):
    """`choose` names the fastest way of each case, `pick` gets bytes and ranks, and the way that it
    names is the one that runs.
    """
    for nbytes, p, way in FASTEST:
        with check.case(f"`choose` for {nbytes} bytes on {p} ranks"):
            given = copy.deepcopy(TABLE)
            name = choose(given, nbytes, p)
        expect.equal(name, way, f"By `choose(lab24.TABLE, …)`, for {nbytes} bytes on {p} ranks")
        expect.unchanged(TABLE, given, "The table `times`")
    other = {2: {8: {"tree": 2, "ring": 1}, 100: {"tree": 1, "ring": 2}}}  # 100 is nearer to 29
    expect.equal(choose(other, 29, 16), "tree", f"By the table {other}, for 29 bytes on 16 ranks")
    asked = set()  # what `pick` was given

    def note_and_pick_tree(nbytes, ranks):
        asked.add((nbytes, ranks))
        return "tree"

    for kind in (np.float32, np.float64):
        asked.clear()
        vector = np.ones(5, kind)
        virtual.Cluster(3).run(allreduce_tuned, vector, note_and_pick_tree)
        case = f"3 ranks, 5 values of {vector.itemsize} bytes"
        given = f"{case}: (bytes, ranks) that `pick` was given"
        expect.equal(asked, {(vector.nbytes, 3)}, given)
    tuned = partial(allreduce_tuned, pick=partial(choose, TABLE))
    for nbytes, p, way in FASTEST:
        got, want = (bytes_sent(function, p, nbytes // 8) for function in (tuned, WAYS[way]))
        subject = f"{nbytes} bytes on {p} ranks, where {way} is fastest"
        expect.equal(got, want, f"{subject}: bytes that [rank] sent")


def seated(way, seats_of):
    """way(comm, vector, seats, seat) as a function of comm and vector, on the seats
    seats_of(comm)."""

    def program(comm, vector):
        seats = seats_of(comm)
        way(comm, vector, seats, seats.index(comm.rank))

    return program


def expect_in_place(function):
    def own_vector(comm, vector):
        function(comm, vector)
        return vector

    before = [np.array([1], np.float32), np.array([10], np.float32)]  # other cases: float64
    after = (
        virtual.Cluster(2)
        .run(own_vector, virtual.by_rank([vector.copy() for vector in before]))
        .results
    )
    untouched = all(np.array_equal(*vectors) for vectors in zip(before, after, strict=True))
    where = (
        "With 2 ranks and 1 value the sum is wrong on every rank: `vector` is as it was before the"
        " call"
    )
    expect(not untouched, f"{where}. The sum must lie in this array, not in a new one.")


def expect_price(runs, steps, sent, named):
    """The price of the closed forms. steps, sent (vectors): of a power of two of ranks."""
    for (p, length), run in runs.items():
        power = 2 ** (p.bit_length() - 1)  # so many values more may be sent where parts are uneven
        extra = int(p > power)  # who works for two sends a vector more; there are two steps more
        run.expect_sent(
            at_most=sent(power) + extra, unit=8 * length, named=named, rounding=8 * power
        )
        run.expect_messages(at_most=steps(power) + extra, named=named)
        run.expect_steps(exactly=steps(power) + 2 * extra, named=named)


def sums_of_groups(vectors):
    """By rank: the sum of ranks 0, 1, 6 and 7, or that of the others."""
    outer = vectors[0] + vectors[1] + vectors[6] + vectors[7]
    inner = vectors[2] + vectors[3] + vectors[4] + vectors[5]
    return [outer, outer, inner, inner, inner, inner, outer, outer]


def vectors_added(function, p):
    """Vectors that the busiest rank adds up, by a machine on which nothing else takes time."""
    vector = virtual.vector(np.ones(16 * p))
    machine = virtual.ideal(1e-15, 1e21, 1e9)
    return virtual.Cluster(p, machine=machine).run(function, vector).time * 1e9 / vector.nbytes


def vectors_between_nodes(halving, seats):
    """Vectors that cross between 4 nodes of 2 ranks each, if the ranks sit so."""
    vector = np.ones(64)
    run = virtual.Cluster(nodes=4, ranks_per_node=2).run(
        seated(halving, lambda comm: seats), vector
    )
    return sum(nbytes for _, nbytes in run.node_links.values()) / vector.nbytes


def bytes_sent(function, p, length):
    return virtual.trials(function, sum, ranks=[p], lengths=[length])[p, length].sent_bytes
