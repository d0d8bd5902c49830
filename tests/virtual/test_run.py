"""Cluster and Run: what goes in, what comes out, and the sentences of the expectations."""

import math

import numpy as np
import pytest
import virtual
from labkit import collectives
from labkit.checks import expectations
from labkit.errors import CheckFailed, LabError
from mpi4py import MPI


def ring_sum(comm, vector):
    collectives.ring_allreduce(comm, vector)
    return vector


def ones(p=8, length=16):
    return virtual.by_rank([np.full(length, rank + 1.0) for rank in range(p)])


def ran(fn, p=8, length=16, **more):
    return virtual.Cluster(nodes=p, **more).run(fn, ones(p, length))


def test_counters_links_and_node_links():
    def program(comm):
        if comm.rank == 0:
            comm.Send(np.zeros(10), dest=1)
            comm.Send(np.zeros(20), dest=2)
            comm.Send(np.zeros(30), dest=3)
        else:
            comm.Recv(np.zeros(30), source=0)
        return comm.rank

    run = virtual.Cluster(2, 2).run(program)
    assert run.results == [0, 1, 2, 3]
    assert (run.sent, run.sent_bytes) == ([3, 0, 0, 0], [480, 0, 0, 0])
    assert (run.received, run.received_bytes) == ([0, 1, 1, 1], [0, 80, 160, 240])
    assert run.links == {(0, 1): (1, 80), (0, 2): (1, 160), (0, 3): (1, 240)}
    assert run.node_links == {(0, 1): (2, 400)}
    assert run.steps == [3, 1, 2, 3]
    assert run.time == max(run.times)
    assert run.trace is None


def test_a_run_says_in_a_line_what_it_was():
    said = "14.2 µs, at most 14 messages and 224 bytes sent per rank, 14 steps"
    assert repr(ran(ring_sum)) == f"<ring_sum on 8 ranks of ideal: {said}>"
    large = virtual.vector(np.zeros(2), stands_for=1.23e6)
    assert "1.23 MB" in repr(virtual.Cluster(2).run(ring_sum, large))


BAD = [  # what is made, and what is said of it
    (lambda: virtual.Cluster(0), "A cluster's nodes is a whole number, 1 or more, not 0."),
    (lambda: virtual.Cluster(2.5), "nodes is a whole number, 1 or more, not 2.5"),
    (lambda: virtual.Cluster(True), "not True"),
    (lambda: virtual.Cluster(2, -1), "ranks_per_node is a whole number, 1 or more, not -1"),
    (lambda: virtual.Cluster(2, machine=7), "machine is a virtual.Machine or a name, not int"),
    (lambda: virtual.Link(1e-6, 0), "bandwidth is in bytes per second, above 0, not 0"),
    (lambda: virtual.Link(1e-6, "fast"), "bandwidth is in bytes per second"),
    (lambda: virtual.Link(-1, 1e9), "latency is a number of seconds, 0 or more, not -1"),
    (lambda: virtual.Link(1e-6, 1e9, gap=math.nan), "gap is a number of seconds"),
    (lambda: virtual.ideal().but(nics=0), "nics is a whole number, 1 or more, not 0"),
    (lambda: virtual.ideal().but(ranks_per_node=1.5), "ranks_per_node is a whole number"),
    (lambda: virtual.ideal().but(reduce=0), "reduce is a number above 0"),
    (lambda: virtual.ideal().but(inside=1e-6), "inside is a virtual.Link, not float"),
    (lambda: virtual.Cluster(2).run(3), r"takes a function fn\(comm, …\), not int"),
    (lambda: virtual.Cluster(2).run(len, x=virtual.by_rank([1])), "1 value, but .* has 2 ranks"),
    (lambda: virtual.by_rank(3), "by_rank takes a list with one value per rank, not int"),
    (lambda: virtual.Cluster(2).run(len, (i for i in ())), "its own: cannot pickle .* inside"),
    (lambda: ran(ring_sum).expect_steps(), "Say either at_most=… or exactly=…"),
    (lambda: ran(ring_sum).expect_results([1, 2]), "got a list of 2 for 8 ranks: it goes by rank"),
]


@pytest.mark.parametrize(("make", "sentence"), BAD)
def test_nonsense_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(LabError, match=sentence):
        make()


def test_ranks_are_placed_node_by_node():
    def where(comm):
        return comm.rank, comm.size, comm.Split_type(MPI.COMM_TYPE_SHARED).size

    assert virtual.Cluster(np.int64(2), 3).run(where).results == [(r, 6, 3) for r in range(6)]
    cluster = virtual.Cluster.of(5, 2)
    assert (cluster.size, cluster.nodes) == (5, 3)
    assert [result[2] for result in cluster.run(where).results] == [2, 2, 2, 2, 1]
    assert virtual.Cluster(2, None, "dgx1").size == 16
    assert repr(cluster) == "<3 nodes of ideal, 5 ranks>"


def test_every_rank_has_its_own_copy_of_what_can_change():
    constant, vector = np.arange(5.0), virtual.vector(np.zeros(4), stands_for=1e6)
    constant.flags.writeable = False

    def change(comm, array, pair, boxes, fixed, part, *, scale):
        array += comm.rank * scale
        pair["list"].append(comm.rank)
        return array, pair, boxes[0] is boxes[1], fixed is constant, part[:1].scale

    array, pair, box = np.zeros(3), {"list": []}, np.zeros(1)
    parts = virtual.by_rank([vector] * 3)
    run = virtual.Cluster(3).run(change, array, pair, [box, box], constant, parts, scale=2)
    assert not array.any()
    assert pair == {"list": []}
    assert [result[0][0] for result in run.results] == [0, 2, 4]
    assert [result[1]["list"] for result in run.results] == [[0], [1], [2]]
    assert [result[2:] for result in run.results] == [(True, True, 31250.0)] * 3


def whole_vectors(comm, vector):
    """Right, but every rank passes whole vectors on."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    passed, box = vector.copy(), np.empty_like(vector)
    for _ in range(comm.size - 1):
        comm.Sendrecv(passed, dest=right, recvbuf=box, source=left)
        passed[:] = box
        vector += box
    return vector


def to_the_root(comm, vector):
    """Rank 0 alone has the sum."""
    collectives.tree_reduce(comm, vector)
    return vector if comm.rank == 0 else None


def own(comm, vector):
    return vector


def mixed(comm, vector):
    return {"rank": comm.rank} if comm.rank else comm.rank


def drops_the_remainder(comm, vector):
    collectives.ring_allreduce(comm, vector[: len(vector) // comm.size * comm.size])


def wrong_on_rank_2(comm, vector):
    collectives.ring_allreduce(comm, vector)
    vector[-1] += comm.rank == 2


def waits_for_ever(comm, vector):
    comm.Recv(vector, source=(comm.rank + 1) % comm.size)


WHOLE, TREE = lambda: ran(whole_vectors), lambda: ran(collectives.tree_broadcast)
RIGHT = "The sum is right on every rank. But with 8 ranks "
SUM = np.full(16, 36.0)
SENTENCES = [  # a run, what is expected of it, and what is said: "" where it is met
    (lambda: ran(ring_sum), lambda run: run.expect_results(SUM), ""),
    (lambda: ran(ring_sum), lambda run: run.expect_sent(at_most=1.75, unit=128), ""),
    (lambda: ran(ring_sum), lambda run: run.expect_messages(exactly=14), ""),
    (lambda: ran(ring_sum), lambda run: run.expect_steps(at_most=14), ""),
    (lambda: ran(ring_sum, length=17), lambda run: run.expect_sent(1.75, unit=8 * 17, rounding=16), ""),
    (lambda: ran(ring_sum, length=17), lambda run: run.expect_sent(1.75, unit=8 * 17), "1.75 are enough."),
    (WHOLE, lambda run: (run.expect_results(SUM), run.expect_sent(1.75, unit=128, named="a ring")),
     f"{RIGHT}each rank sent 7.00 vectors; a ring sends 1.75."),
    (WHOLE, lambda run: (run.expect_results(SUM), run.expect_steps(3, named="a tree")),
     f"{RIGHT}it took 7 steps; a tree takes 3."),
    (WHOLE, lambda run: (run.expect_results(SUM), run.expect_messages(exactly=14)),
     f"{RIGHT}each rank sent 7 messages; it should be 14."),
    (TREE, lambda run: run.expect_sent(2, unit=128),
     "With 8 ranks rank 0 sent 3.00 vectors; 2.00 are enough."),
    (TREE, lambda run: run.expect_messages(exactly=[3, 2, 1, 1, 0, 0, 0, 0]), ""),
    (TREE, lambda run: run.expect_messages(exactly=[3, 2, 1, 0, 0, 0, 0, 0], named="the tree"),
     "With 8 ranks rank 3 sent 1 message; the tree sends 0."),
    (TREE, lambda run: run.expect_sent(100), "With 8 ranks rank 0 sent 384 bytes; 100 are enough."),
    (lambda: ran(to_the_root, p=4), lambda run: run.expect_results([np.full(16, 10.0)] + [None] * 3), ""),
    (lambda: ran(to_the_root, p=4), lambda run: run.expect_results(np.full(16, 10.0)),
     "With 4 ranks the sum is wrong on ranks 1 to 3 (it is right on rank 0). "
     "Rank 1: got None. Does the function return its result?"),
    (lambda: ran(own, 3, 2), lambda run: run.expect_results(np.full(2, 6.0), what="the mean"),
     "With 3 ranks the mean is wrong on every rank. Rank 0: 2 of 2 values are off; most at [0]: expected"),
    (lambda: ran(own, 3), lambda run: run.expect_results(np.zeros(3)), "expected shape (3,), got (16,)"),
    (lambda: ran(mixed, 3), lambda run: run.expect_results([0, {"rank": 1}, None], "the dictionary"), ""),
    (lambda: ran(mixed, 3), lambda run: run.expect_results([None, None, {"rank": 1}]), "Rank 2:"),
    (lambda: virtual.Cluster(7).run(ring_sum, np.full(4, 0.1, "f4")), lambda run: run.expect_results(
        np.full(4, 0.7)), ""),
    (lambda: virtual.Cluster(7).run(ring_sum, np.full(4, 0.1, "f4")), lambda run: run.expect_results(
        np.full(4, 0.7), rtol=1e-12), "With 7 ranks the sum is wrong"),
    # of many sizes
    (lambda: virtual.trials(drops_the_remainder, sum, what="the sum"), len,
     "With 2 ranks and 1 value the sum is wrong on every rank"),
    (lambda: virtual.trials(wrong_on_rank_2, sum, what="the sum"), len,
     "With 3 ranks and 48 values the sum is wrong on rank 2 (it is right on ranks 0 and 1)"),
    (lambda: virtual.trials(waits_for_ever, sum), len,
     "With 1 rank and 16 values: deadlock: rank 0 waits in Recv"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expectation", "sentence"), SENTENCES)
def test_an_expectation_is_met_or_says_what_is_wrong(make, expectation, sentence):
    before = expectations.looked_at()
    if not sentence:
        expectation(make())
        assert expectations.looked_at() > before
        return
    with pytest.raises((CheckFailed, LabError)) as caught:
        expectation(make())
    assert sentence in str(caught.value)


right, left = (lambda c: (c.rank + 1) % c.size), (lambda c: (c.rank - 1) % c.size)
STEPS = {  # on three ranks; in one step a rank sends at most one message and receives at most one
    "a chain": (2, lambda c, v: (
        c.rank > 0 and c.Recv(v, left(c)), c.rank < 2 and c.Send(v, right(c)))),
    "to all": (2, lambda c, v: c.Recv(v, 0) if c.rank else [c.Send(v, to) for to in (1, 2)]),
    "from all": (2, lambda c, v: c.Send(v, 0) if c.rank else [c.Recv(v, of) for of in (1, 2)]),
    "a ring": (1, lambda c, v: c.Sendrecv(v[:2].copy(), right(c), recvbuf=v[2:4], source=left(c))),
    "a ring of requests": (1, lambda c, v: MPI.Request.Waitall(
        [c.Irecv(v[2:4], left(c)), c.Isend(v[:2].copy(), dest=right(c))])),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_counted_as_on_paper(name):
    steps, program = STEPS[name]
    assert max(virtual.Cluster(3).run(program, np.zeros(4, np.float32)).steps) == steps
