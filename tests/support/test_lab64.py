"""Lab 64's support: the small GPT, what its training counts, published nets, sums of GPUs,
layouts."""

from __future__ import annotations

import numpy as np
import pytest
from labkit import launch
from support import lab64


def count_traffic(comm) -> tuple[list, float]:
    traffic = lab64.Traffic(comm)
    part = np.ones(10, np.float32)
    whole = np.ones(10 * comm.size, np.float32)
    traffic.Allreduce(part.copy(), part)
    traffic.Allgather(part, whole)
    traffic.Reduce_scatter_block(whole, part)
    traffic.Barrier()
    return traffic.arrays, traffic.sent


@pytest.mark.slow
def test_traffic_is_that_of_rings():
    for arrays, sent in launch.run(count_traffic, ranks=2):
        assert arrays == [("Allreduce", 40), ("Allgather", 80), ("Reduce_scatter_block", 80)]
        assert sent == 40 + 40 + 40


def test_published_nets_are_consistent_and_their_layouts_fit():
    for net, row in zip(lab64.published(), lab64.TABLE, strict=True):
        assert net.parameters / 1e9 == pytest.approx(float(net.name), rel=0.03)
        assert net.layout.gpus == net.gpus
        assert net.batch % (net.layout.data * net.layout.micro) == 0
        assert net.layers % net.layout.pipeline == net.heads % net.layout.tensor == 0
        assert net.hidden % net.heads == 0
        assert row[-2] * net.gpus / 1000 == pytest.approx(row[-1], rel=0.01)
        assert lab64.bytes_on_a_gpu(net, net.layout) < lab64.MEMORY
        found = list(lab64.layouts(net))
        assert net.layout._replace(micro=1) in found
        for layout in found:
            assert layout.gpus == net.gpus
            assert lab64.bytes_on_a_gpu(net, layout) <= lab64.MEMORY


def test_parts_of_a_step():
    net = lab64.published()[6]
    some = lab64.GPUs(0.5)
    cost = lab64.parts_of_step(net, net.layout, some)
    assert cost.arithmetic == pytest.approx(some.compute(net, net.batch) / net.gpus)
    # 48 micro-batches of 2 sequences in each of 24 pipelines of 8 stages
    assert cost.bubble == pytest.approx((cost.arithmetic + cost.allreduces) * 7 / 48)
    assert cost.total == pytest.approx(sum(cost))


def test_a_model_is_fitted():
    def of_arithmetic(net, layout, some):
        return some.compute(net, net.batch) / net.gpus

    nets = lab64.published()
    fitted = lab64.fit(of_arithmetic, nets[:1])
    assert fitted.share == pytest.approx(137 / 312, abs=0.005)
    assert lab64.error(of_arithmetic, nets[0], fitted) == pytest.approx(0, abs=0.01)
