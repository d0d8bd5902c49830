"""Lab 62's support: the best cut, what a stage holds, and when ranks compute."""

from __future__ import annotations

import itertools

import pytest
import torch
from labkit import launch, nets
from support import lab62


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_best_cut_is_that_of_all_cuts(stages):
    costs = [3, 1, 4, 1, 5, 9, 2, 6]
    cuts = itertools.combinations(range(1, len(costs)), stages - 1)
    edges = [(0, *places, len(costs)) for places in cuts]
    best = min(max(sum(costs[first:end]) for first, end in itertools.pairwise(cut)) for cut in edges)
    assert lab62.least_slowest(costs, stages) == best


def test_adam_holds_sixteen_bytes_a_parameter():
    (block,) = nets.torch_blocks((20, 30))
    optimizer = torch.optim.Adam(block.parameters())
    assert lab62.held(block, optimizer) == 4 * 630, "parameters alone"
    block(torch.rand(2, 20)).sum().backward()
    optimizer.step()
    assert lab62.held(block, optimizer) == 16 * 630


def compute_in_turns(comm):
    """Each rank computes after the rank before it."""
    (block,) = nets.torch_blocks((300, 300))
    pictures = torch.rand(200, 300)

    def step(stage):
        if comm.rank:
            comm.recv(source=comm.rank - 1)
        stage(pictures).sum().backward()
        if comm.rank < comm.size - 1:
            comm.send(None, dest=comm.rank + 1)

    return lab62.busy_spans(comm, block, step)


@pytest.mark.slow
def test_spans_of_ranks_that_take_turns():
    spans, again = launch.run(compute_in_turns, ranks=2)
    assert spans == again
    for own in spans:
        assert [kind for kind, _, _ in own] == ["forward", "backward"]
        assert own[0][2] <= own[1][1]
    assert spans[0][1][2] <= spans[1][0][1], "rank 1 begins when rank 0 has ended"
    lab62.draw_busy(spans, "In turns")
