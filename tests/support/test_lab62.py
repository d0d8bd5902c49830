"""Lab 62's support: what a stage holds, and when ranks compute."""

from __future__ import annotations

import time

import pytest
import torch
from labkit import launch, nets
from labkit.profiling import clock
from support import lab62


def compute_in_turns(comm, later):
    """Each rank computes after the rank before it, on a host that was started `later` seconds
    after that one's."""
    for module in (clock, lab62):
        module.perf_counter = lambda: time.perf_counter() - later * comm.rank
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
@pytest.mark.parametrize("later", [0, 1000])
def test_spans_of_ranks_that_take_turns(later):
    spans, again = launch.run(compute_in_turns, later, ranks=2)
    assert spans == again
    for own in spans:
        assert [kind for kind, _, _ in own] == ["forward", "backward"]
        assert own[0][2] <= own[1][1]
    ended, begun = spans[0][1][2], spans[1][0][1]
    assert ended <= begun < ended + 500, "rank 1 begins when rank 0 has ended"
