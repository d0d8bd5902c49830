"""Lab 64's support: the small GPT, what its training counts, published nets, sums of GPUs, layouts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import virtual
from labkit import launch
from labkit.errors import LabError
from support import lab64

SIZES = lab64.Sizes(characters=95, hidden=16, heads=4, layers=2, places=8)


def short_text() -> lab64.Text:
    return lab64.Text(20_000, SIZES.places, texts=2)


def sizes_of(text: lab64.Text) -> lab64.Sizes:
    return SIZES._replace(characters=len(text.corpus.vocabulary))


def test_the_first_loss_is_that_of_a_guess():
    text = short_text()
    trained = lab64.train(lab64.Alone(), lab64.whole, sizes_of(text), text, 2)
    assert trained.losses[0] == pytest.approx(math.log(len(text.corpus.vocabulary)), rel=0.1)
    assert (trained.calls, trained.added, trained.drift) == ({}, 0, 0)
    hidden = SIZES.hidden
    assert trained.in_layers == SIZES.layers * (12 * hidden**2 + 13 * hidden)
    assert trained.kept > 0


def test_a_batch_is_followed_by_itself():
    text = short_text()
    characters, following = text.batch(3)
    assert characters.shape == following.shape == (SIZES.places, 2)
    assert torch.equal(characters[1:], following[:-1])
    assert torch.equal(characters, text.batch(3)[0])
    assert not torch.equal(characters, text.batch(4)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_gathered_or_added_keeps_its_type(dtype):
    def both(comm):
        part = torch.full((1, 3), 1.0 + comm.rank, dtype=dtype)
        whole = lab64.gathered(comm, part)
        return whole.tolist(), lab64.added_part(comm, whole).tolist(), whole.dtype is dtype

    ones, twos = [1.0] * 3, [2.0] * 3
    expected = [([ones, twos], [[2.0] * 3], True), ([ones, twos], [[4.0] * 3], True)]
    assert virtual.Cluster(2).run(both).results == expected


def count_traffic(comm) -> tuple[dict, dict, float]:
    traffic = lab64.Traffic(comm)
    part = np.ones(10, np.float32)
    whole = np.ones(10 * comm.size, np.float32)
    traffic.Allreduce(part.copy(), part)
    traffic.Allgather(part, whole)
    traffic.Reduce_scatter_block(whole, part)
    traffic.Barrier()
    return traffic.calls, traffic.bytes, traffic.sent


@pytest.mark.slow
def test_traffic_is_that_of_rings():
    for calls, nbytes, sent in launch.run(count_traffic, ranks=2):
        assert calls == {"Allreduce": 1, "Allgather": 1, "Reduce_scatter_block": 1}
        assert nbytes == {"Allreduce": 40, "Allgather": 80, "Reduce_scatter_block": 80}
        assert sent == 40 + 40 + 40


def test_published_nets_are_consistent():
    for net, row in zip(lab64.published(), lab64.TABLE, strict=True):
        assert net.parameters / 1e9 == pytest.approx(float(net.name), rel=0.03)
        assert net.layout.gpus == net.gpus
        assert net.batch % (net.layout.data * net.layout.micro) == 0
        assert net.layers % net.layout.pipeline == 0
        assert net.heads % net.layout.tensor == 0
        assert net.hidden % net.heads == 0
        assert row[-2] * net.gpus / 1000 == pytest.approx(row[-1], rel=0.01)
        assert lab64.bytes_on_a_gpu(net, net.layout) < lab64.MEMORY


def test_gpus_place_their_groups():
    some = lab64.GPUs(0.5)
    assert some.allreduce(1, 1, 1e6) == 0
    inside = some.allreduce(8, 1, 1e8)
    assert some.allreduce(16, 1, 1e8) > 1.3 * inside, "two nodes"
    assert some.allreduce(8, 8, 1e8) > 5 * inside, "a GPU of each node"
    net = lab64.published()[0]
    assert some.compute(net, 2) == pytest.approx(2 * net.flops(1) / 156e12)


def test_layouts_come_out_even_and_fit():
    for net in lab64.published():
        found = list(lab64.layouts(net))
        assert found
        assert net.layout._replace(micro=1) in found
        for layout in found:
            assert layout.gpus == net.gpus
            assert lab64.bytes_on_a_gpu(net, layout) <= lab64.MEMORY
    assert not list(lab64.layouts(net, memory=1e9))


def test_parts_of_a_step():
    net = lab64.published()[6]
    some = lab64.GPUs(0.5)
    cost = lab64.parts_of_step(net, net.layout, some)
    assert cost.arithmetic == pytest.approx(some.compute(net, net.batch) / net.gpus)
    # 48 micro-batches of 2 sequences in each of 24 pipelines of 8 stages
    assert cost.bubble == pytest.approx((cost.arithmetic + cost.sums) * 7 / 48)
    assert cost.total == pytest.approx(sum(cost))


def test_a_model_is_fitted():
    def of_arithmetic(net, layout, some):
        return some.compute(net, net.batch) / net.gpus

    nets = lab64.published()
    fitted = lab64.fit(of_arithmetic, nets[:1])
    assert fitted.share == pytest.approx(137 / 312, abs=0.005)
    assert lab64.error(of_arithmetic, nets[0], fitted) == pytest.approx(0, abs=0.01)
    with pytest.raises(LabError, match="no speed is known"):
        lab64.error(of_arithmetic, nets[0]._replace(teraflops=None), fitted)
