"""labkit.collectives: the sum, at the price of the closed forms, also where nothing divides."""

import numpy as np
import pytest
import virtual
from labkit import collectives
from labkit.errors import LabError

RANKS = (1, 2, 3, 4, 5, 7, 8, 12, 16)
ALPHA, BANDWIDTH = 2e-6, 1e9


def steps(p: int) -> int:
    return (p - 1).bit_length()


def test_a_tree_sums_and_sends_whole_vectors():
    for (p, length), run in virtual.trials(collectives.tree_allreduce, sum, ranks=RANKS).items():
        run.expect_sent(at_most=steps(p) or 0, unit=8 * length)
        run.expect_messages(at_most=steps(p))
        run.expect_steps(exactly=2 * steps(p))


def test_a_ring_sums_and_sends_chunks():
    for (p, length), run in virtual.trials(collectives.ring_allreduce, sum, ranks=RANKS).items():
        run.expect_messages(exactly=2 * (p - 1))
        run.expect_steps(exactly=2 * (p - 1))
        assert max(run.sent_bytes) <= 8 * 2 * (length - length // p)


def test_reduce_and_broadcast_reach_whom_they_should():
    everyone = virtual.trials(
        collectives.tree_reduce, lambda v: [sum(v)] + [None] * (len(v) - 1), ranks=RANKS
    )
    assert all(sum(run.sent) == p - 1 for (p, _), run in everyone.items())
    virtual.trials(collectives.tree_broadcast, lambda v: v[0], ranks=RANKS)
    for root in range(5):
        virtual.trials(
            collectives.tree_broadcast, lambda v, root=root: v[root], ranks=[5], args=(root,)
        )
    with pytest.raises(LabError, match="root=2: with 2 ranks there is no such rank"):
        virtual.Cluster(2).run(collectives.tree_broadcast, np.ones(3), 2)
