"""Lab 66's support: published sizes, layouts, routings, what is counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from labkit import launch
from support import lab66


def test_published_model_is_consistent():
    net = lab66.DEEPSEEK_V3
    experts = net.layers * net.experts * 3 * net.hidden * net.inner
    assert 0.95 < experts / 671e9 < 1  # the report: 671 billion parameters in all
    assert net.gpus_of_a_stage == 128


def test_nodes_and_groups_of_a_token():
    net = lab66.DEEPSEEK_V3
    assert net.nodes_of_a_token(1) == 1
    drawn = np.random.default_rng(0).integers(0, 4, (100_000, net.chosen))
    different = np.mean([len(set(row)) for row in drawn[:20_000]])
    assert net.nodes_of_a_token(8) == pytest.approx(different, rel=0.01)
    assert net.groups_of_a_token(lab66.Layout(8, 8)) == net.nodes_of_a_token(8)
    assert net.groups_of_a_token(lab66.Layout(1, 64)) == net.groups_of_a_token(lab66.Layout(1, 32))


def test_layouts_use_less_memory_on_more_gpus():
    net = lab66.DEEPSEEK_V3
    found = lab66.layouts(net)
    assert lab66.Layout(1, 64) in found
    assert all(layout.tensor * layout.expert <= net.gpus_of_a_stage for layout in found)
    nbytes = [lab66.bytes_of_experts(net, layout) for layout in found if layout.tensor == 1]
    assert nbytes == sorted(nbytes, reverse=True)
    assert lab66.gradient_seconds(net, lab66.Layout(1, 128), lab66.H800) == 0


@pytest.mark.parametrize("share", [0.5, 0.75, 0.875])
def test_scores_send_their_share_to_rank_0(share):
    sizes = lab66.Sizes(count=8, chosen=2, tokens=64, wide=4)
    experts = lab66.scores_for(sizes, 2, share).topk(2, dim=1).indices
    assert float((experts < 4).float().mean()) == share
    for half in torch.bincount(experts.flatten(), minlength=8).split(4):
        assert half.max() - half.min() <= 1


def count_sent(comm) -> float:
    sent = lab66.Sent(comm)
    part = torch.ones(10)
    whole = torch.ones(10 * comm.size)
    sent.Allgather(part, whole)
    sent.Reduce_scatter_block(whole, part)
    sent.Alltoall(whole, torch.empty_like(whole))
    counts = [3, 7]
    arriving = [counts[comm.rank]] * 2
    sent.Alltoallv([part, counts], [torch.empty(sum(arriving)), arriving])
    return sent.nbytes


@pytest.mark.slow
def test_bytes_to_other_ranks_are_counted():
    sent = launch.run(count_sent, ranks=2, threads=1)
    assert sent == [40 + 40 + 40 + 4 * 7, 40 + 40 + 40 + 4 * 3]
