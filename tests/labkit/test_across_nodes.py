"""across_nodes: the sum is right for every way, and its counts are those of the formulas in lab 43."""

import numpy as np
import pytest
from labkit import across_nodes, virtual
from labkit.errors import LabError


@pytest.mark.parametrize("way", across_nodes.WAYS)
@pytest.mark.parametrize(("nodes", "g"), [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (5, 2), (2, 8)])
def test_every_rank_holds_the_sum(way, nodes, g):
    for length in (1, nodes * g - 1, 5 * nodes * g + 3):
        vectors = [np.arange(length, dtype=float) + 10 * rank for rank in range(nodes * g)]
        buffers = [vector.copy() for vector in vectors]

        def program(comm, mine):
            across_nodes.allreduce(comm, mine, way, g)
            return mine

        cluster = virtual.Cluster(nodes, ranks_per_node=g)
        cluster.run(program, virtual.by_rank(buffers)).expect_results(sum(vectors))


def test_what_leaves_a_node():
    assert across_nodes.leaving("ring", 4, 4) == (pytest.approx(1.875), 30, 30)
    assert across_nodes.leaving("tree", 4, 4) == (2, 2, 10)
    assert across_nodes.leaving("torus", 4, 4) == (pytest.approx(1.5), 24, 12)
    assert across_nodes.leaving("hierarchical", 4, 4) == across_nodes.leaving("torus", 4, 4)
    assert across_nodes.leaving("ring", 1, 4)[:2] == (0, 0)


def test_copies_to_the_host_take_their_time():
    torus, slow = (across_nodes.run(way, 2, 4, 8e6, copy=1e9) for way in ("torus", "hierarchical"))
    assert slow.time - torus.time == pytest.approx(2 * 8e6 / 4 / 1e9)
    assert across_nodes.run("hierarchical", 2, 4, 8e6).time == pytest.approx(torus.time)


def test_an_unknown_way_is_refused():
    with pytest.raises(LabError, match="no way 'star'"):
        across_nodes.run("star", 2, 2, 1e6)
