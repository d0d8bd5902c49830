"""Lab 25's support: two levels with any root, and the tree that shares NICs."""

from __future__ import annotations

from operator import itemgetter

import pytest
import virtual
from labkit.collectives import tree_broadcast
from support import lab25


@pytest.mark.parametrize("root", [0, 6])
def test_two_levels_bring_the_vector_to_all(root):
    case = {"args": (root, 4, tree_broadcast), "what": f"the vector of root {root}"}
    virtual.trials(lab25.two_level, itemgetter(root), ranks=[8, 12], ranks_per_node=4, **case)


def test_the_tree_sends_24_vectors_through_each_of_two_nics():
    machine = virtual.machine("k80_fdr")
    n = 1e9
    inside = n / machine.inside.bandwidth
    between = n / machine.between.bandwidth
    for nics, vectors in ((2, 24), (16, 3)):
        time = lab25.tree_time(machine.but(nics=nics), n, 128)
        assert time == pytest.approx(4 * inside + vectors * between, rel=0.01)


def test_the_table_has_full_nodes_and_the_number_of_ranks_that_is_asked_for():
    ways = lab25.Ways(None, None, None, most_chunks=1, nccl_start=0.0)
    ways.seconds = lambda nbytes, ranks, machine: {"tree": float(ranks)}
    table = ways.table(virtual.machine("k80_fdr"), [8], 96)
    assert [ranks for _, ranks in table["tree"]] == [16, 32, 64, 96]


def test_a_step_is_the_sum_of_its_layers():
    seconds = {10: {"a": 1.0, "b": 3.0}, 20: {"a": 4.0, "b": 2.0}}
    parts = lab25.training_step(
        {"x": 10, "y": 20, "z": 10}, seconds.get, lambda nbytes: "a" if nbytes == 10 else "b"
    )
    assert parts["a"] == {"y": 4000, "the rest": 2000}
    assert parts["b"] == {"y": 2000, "the rest": 6000}
    assert parts["picked"] == {"y": 2000, "the rest": 2000}
