"""Cluster and Run: what goes in, what comes out, and the sentences of the expectations."""

import numpy as np
import pytest
import virtual
from labkit import checks
from labkit.errors import CheckFailed, LabError
from mpi4py import MPI

from tests.labkit.checks.tried import tried
from tests.virtual import algorithms


def rank(comm):
    return comm.rank


def ring_sum(comm, vector):
    algorithms.ring_allreduce(comm, vector)
    return vector


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
    box = np.empty_like(vector)
    if comm.rank:
        comm.Send(vector, dest=0)
        return None
    for other in range(1, comm.size):
        comm.Recv(box, source=other)
        vector += box
    return vector


def ones(p=8, length=16):
    return virtual.by_rank([np.full(length, rank + 1.0) for rank in range(p)])


def ran(fn, p=8, length=16, **more):
    return virtual.Cluster(nodes=p, **more).run(fn, ones(p, length))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: virtual.Cluster(0), "A cluster's nodes is a whole number, 1 or more, not 0."),
        (lambda: virtual.Cluster(2.5), "nodes is a whole number, 1 or more, not 2.5"),
        (lambda: virtual.Cluster("2"), "nodes is a whole number, 1 or more, not '2'"),
        (lambda: virtual.Cluster(True), "not True"),
        (lambda: virtual.Cluster(2, -1), "ranks_per_node is a whole number, 1 or more, not -1"),
        (lambda: virtual.Cluster(2, machine=7), "machine is a virtual.Machine or a name, not int"),
        (lambda: virtual.Cluster(2).run(3), r"takes a function fn\(comm, …\), not int"),
        (
            lambda: virtual.Cluster(2).run(rank, virtual.by_rank([1])),
            "holds 1 value, but the cluster has 2 ranks",
        ),
        (
            lambda: virtual.Cluster(2).run(rank, x=virtual.by_rank([1] * 3)),
            "holds 3 values, but the cluster has 2",
        ),
        (lambda: virtual.by_rank(3), "by_rank takes a list with one value per rank, not int"),
        (
            lambda: virtual.Cluster(2).run(rank, (i for i in ())),
            "every rank gets its own: cannot pickle .* Make it inside",
        ),
    ],
)
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


def test_every_rank_has_its_own_copy_of_the_arguments():
    def change(comm, array, pair, boxes, *, scale):
        array += comm.rank * scale
        pair["list"].append(comm.rank)
        boxes[0][0] = 5
        return array, pair, boxes

    array, pair, box = np.zeros(3), {"list": []}, np.zeros(1)
    run = virtual.Cluster(3).run(change, array, pair, [box, box], scale=2)
    assert not array.any()
    assert not box.any()
    assert pair == {"list": []}
    assert [result[0][0] for result in run.results] == [0, 2, 4]
    assert [result[1]["list"] for result in run.results] == [[0], [1], [2]]
    assert all(result[2][0] is result[2][1] for result in run.results)


def test_what_nobody_can_change_is_not_copied():
    constant = np.arange(5.0)
    constant.flags.writeable = False
    run = virtual.Cluster(4).run(lambda comm, *values: values, constant, len, np, "text")
    assert all(values[0] is constant for values in run.results)
    assert run.results[0][1:] == (len, np, "text")
    same = np.zeros(2)
    twice = virtual.Cluster(2).run(lambda comm, first, second: first is second, same, same)
    assert twice.results == [True, True]


def test_vectors_keep_their_scale_on_their_way_in():
    vector = virtual.vector(np.zeros(4), stands_for=1e6)
    for argument in (
        vector,
        virtual.by_rank([vector, vector]),
    ):
        run = virtual.Cluster(2).run(lambda comm, part: (type(part), part[:1].scale), argument)
        assert run.results == [(virtual.Vector, 31250.0)] * 2


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
    line = (
        "<ring_sum on 8 ranks of ideal: 14.2 µs, at most 14 messages and 224 bytes sent per rank, 14 rounds>"
    )
    assert repr(ran(ring_sum)) == line
    assert "1.23 MB" in repr(virtual.Cluster(2).run(ring_sum, virtual.vector(np.zeros(2), stands_for=1.23e6)))


def test_expectations_that_are_met_are_counted():
    before, run = checks.looked_at(), ran(ring_sum)
    run.expect_results(np.full(16, 36.0))
    run.expect_sent(at_most=1.75, unit=128, named="a ring")
    run.expect_messages(exactly=14)
    run.expect_steps(at_most=14)
    assert checks.looked_at() >= before + 4
    tried("21.1", lambda: run.expect_steps(exactly=14))


def failing(expectation):
    with pytest.raises(CheckFailed) as caught:
        expectation()
    return str(caught.value)


def test_the_right_sum_by_too_many_bytes():
    run = ran(whole_vectors)
    run.expect_results(np.full(16, 36.0))
    assert failing(lambda: run.expect_sent(at_most=1.75, unit=128, named="a ring")) == (
        "The sum is right on every rank. But with 8 ranks each rank sent 7.00 vectors; a ring sends 1.75."
    )
    assert failing(lambda: run.expect_steps(at_most=3, named="a tree")) == (
        "The sum is right on every rank. But with 8 ranks it took 7 rounds; a tree takes 3."
    )
    assert failing(lambda: run.expect_messages(exactly=14)) == (
        "The sum is right on every rank. But with 8 ranks each rank sent 7 messages; it should be 14."
    )


def test_the_busiest_rank_is_named_where_ranks_differ():
    run = ran(lambda comm, vector: algorithms.tree_broadcast(comm, vector))
    sentence = failing(lambda: run.expect_sent(at_most=2, unit=128))
    assert sentence == "With 8 ranks rank 0 sent 3.00 vectors; 2.00 are enough."
    sentence = failing(lambda: run.expect_messages(exactly=[3, 2, 1, 0, 0, 0, 0, 0], named="the tree"))
    assert sentence == "With 8 ranks rank 3 sent 1 message; the tree sends 0."
    run.expect_messages(exactly=[3, 2, 1, 1, 0, 0, 0, 0])
    assert (
        failing(lambda: run.expect_sent(at_most=100)) == "With 8 ranks rank 0 sent 384 bytes; 100 are enough."
    )


def test_wrong_results_say_on_which_ranks():
    run = ran(to_the_root, p=4)
    run.expect_results([np.full(16, 10.0), None, None, None])
    assert failing(lambda: run.expect_messages(at_most=0)).startswith(
        "The sum is right on rank 0. But with 4 ranks"
    )
    assert failing(lambda: run.expect_results(np.full(16, 10.0))) == (
        "With 4 ranks the sum is wrong on ranks 1 to 3 (it is right on rank 0). "
        "Rank 1: got None. Does the function return its result?"
    )
    run = ran(lambda comm, vector: vector, p=3, length=2)
    assert failing(lambda: run.expect_results(np.full(2, 6.0), what="the mean")).startswith(
        "With 3 ranks the mean is wrong on every rank. Rank 0: 2 of 2 values are off; most at [0]: expected"
    )
    assert "expected shape (3,), got (2,)" in failing(lambda: run.expect_results(np.zeros(3)))
    run.results[1][1] = np.nan
    assert "got nan" in failing(
        lambda: run.expect_results(virtual.by_rank([np.full(2, r + 1.0) for r in range(3)]))
    )


def test_results_that_are_not_arrays():
    run = virtual.Cluster(3).run(lambda comm: {"rank": comm.rank, "name": "x"} if comm.rank else comm.rank)
    run.expect_results([0, {"rank": 1, "name": "x"}, None], "the dictionary")
    assert "Rank 2:" in failing(lambda: run.expect_results([None, None, {"rank": 1, "name": "x"}]))
    virtual.Cluster(2).run(rank).expect_results([0, 1])


def test_an_expectation_that_makes_no_sense():
    run = ran(ring_sum, p=4)
    for bad in (lambda: run.expect_steps(), lambda: run.expect_steps(at_most=1, exactly=2)):
        with pytest.raises(LabError, match="Say either at_most=… or exactly=…"):
            bad()
    with pytest.raises(LabError, match="expect_results got a list of 2 for 4 ranks: it goes by rank"):
        run.expect_results([1, 2])


def test_rounding_lets_uneven_chunks_pass():
    run = ran(ring_sum, length=17)
    with pytest.raises(CheckFailed):
        run.expect_sent(at_most=1.75, unit=8 * 17)
    run.expect_sent(at_most=1.75, unit=8 * 17, rounding=16)


def test_keyword_arguments_and_lists_by_rank():
    run = virtual.Cluster(3).run(
        lambda comm, *, text, all_: (text, all_), text=virtual.by_rank(["abc"] * 3), all_=[1]
    )
    assert run.results == [("abc", [1])] * 3


def test_short_floats_may_be_off_by_their_rounding():
    tenth = np.full(4, 0.1, np.float32)
    run = virtual.Cluster(7).run(ring_sum, tenth)
    run.expect_results(np.full(4, 0.7))
    sentence = failing(lambda: run.expect_results(np.full(4, 0.70002)))
    assert "expected 0.70002, got 0.7" in sentence
    with pytest.raises(CheckFailed):
        run.expect_results(np.full(4, 0.7), rtol=1e-12)
