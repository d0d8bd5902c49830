"""Lab 62's support: what a stage holds, and when ranks compute."""

from __future__ import annotations

import pytest
import torch
from labkit import launch, nets
from support import lab62


def compute_in_turns(comm):
    """Each rank computes after the rank before it."""
    (block,) = nets.torch_blocks((300, 300))
    pictures = torch.rand(200, 300)

    def step():
        if comm.rank:
            comm.recv(source=comm.rank - 1)
        block(pictures).sum().backward()
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
