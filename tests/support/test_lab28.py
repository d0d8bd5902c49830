"""Lab 28's support: networks, orders, the ways to sum, and what the data sheets say."""

from __future__ import annotations

import numpy as np
import pytest
import virtual
from support import lab28


@pytest.mark.parametrize("network", lab28.NETWORKS)
def test_latency_and_bytes_make_up_the_time(network):
    for nbytes in (4, 64_000):
        vector = virtual.vector(np.ones(64), stands_for=nbytes)
        machines = [None, *(lab28.free(network, what) for what in ("latency", "bytes"))]
        clusters = [lab28.connect(network, 8, machine) for machine in machines]
        whole, *parts = (cluster.run(lab28.allreduce, vector).time for cluster in clusters)
        assert whole == pytest.approx(sum(parts), rel=0.05)


def test_orders_are_told_and_counted():
    times = {"a": 1.0, "b": 1.04, "c": 2.0, "d": 9.0}
    assert lab28.ranked(times) == "a = b, c, d"
    assert lab28.judge(["b", "a", "c", "d"], times) == "b, a, c, d: 6 of 6 pairs are in order"
    assert lab28.judge(("d", "c", "a"), times) == "d, c, a: 0 of 3 pairs are in order"
    names = 'write names in parentheses, out of "a", "b", "c", "d"'
    for strange in (("a", "nothing"), ("a", "a"), ("a",), ["b", ["a"]], "ab", 3):
        assert lab28.judge(strange, times) == f"{strange} is no order of networks: {names}"


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 4), (4, 2)])
def test_the_torus_sums(nodes, per_node):
    vectors = [np.arange(10.0) * (rank + 1) for rank in range(nodes * per_node)]

    def total(comm, vector):
        lab28.torus_allreduce(comm, vector, per_node)
        return vector

    run = virtual.Cluster(nodes, per_node).run(total, virtual.by_rank(vectors))
    run.expect_results(sum(vectors))


def test_intensity_counts_parameters_once():
    assert lab28.intensity("fc6", 1, 4) == pytest.approx(0.5, rel=0.001)
    assert 200 < lab28.intensity("fc6", 256, 2) < 256
