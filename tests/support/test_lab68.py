"""Lab 68's support: the server's clock and rows, what requests see, and two pools that lose none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import virtual
from support import lab68
from torch.nn.functional import scaled_dot_product_attention

SIZES = lab68.Sizes(characters=20, hidden=16, heads=4, layers=2, places=32)
WORK = lab68.Work(prefill=0.05, step=lambda running: 0.01 + 0.001 * running, cache=1e6)


def keep_all(waiting, running, slots):
    """A scheduler that admits all and never lets anybody go before the end."""
    if running and any(request.left for request in running):
        return []
    gone = list(running)
    running[:] = list(waiting)
    waiting.clear()
    return gone


def attend(queries, keys, values, cache):
    """The answer of 68.1."""
    for name, new in (("keys", keys), ("values", values)):
        cache[name] = torch.cat((cache[name], new), 2)
    causal = queries.shape[2] > 1
    return scaled_dot_product_attention(queries, *cache.values(), is_causal=causal)


def test_a_batch_gives_each_request_the_tokens_that_it_gets_alone():
    net = lab68.GPT(SIZES).double()
    lengths = [1, 5, 3]
    coming = lab68.requests(net, lengths, 4, 10.0, "cpu")
    for request in coming:
        request.arrival = 0.0
    seconds = lab68.serve(net, coming, keep_all, 3, attend)
    for request, length in zip(coming, lengths, strict=True):
        alone = lab68.generate(net, request.prompt, length, attend)[0].tolist()
        assert request.tokens[:length] == alone
        assert len(request.times) == length
        assert sorted(request.times) == request.times
        assert request.returned <= seconds


def test_static_batches_take_as_long_as_their_longest():
    assert lab68.steps(keep_all, 8, [3, 1, 2]) == 3


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(lab68.one_pool, ()), (lab68.two_pools, (1,)), (lab68.two_pools, (2,))],
)
def test_pools_make_every_token_once_and_in_time(program, arguments):
    asked = lab68.demand(40, 10.0, 8)
    run = virtual.Cluster(1, 3, "h100_ndr").run(program, asked, WORK, *arguments)
    counts = np.zeros(40, int)
    for of_rank in run.results:
        for name, moments in of_rank.items():
            counts[name] += len(moments)
            assert moments == sorted(moments)
            assert all(moment > asked.arrivals[name] for moment in moments)
    assert counts.tolist() == asked.lengths
    assert lab68.seen(run, asked)["first token, median"] >= 999 * WORK.prefill


def test_an_idle_rank_sees_a_prefill_and_then_steps():
    asked = lab68.Demand([1.0], [3])
    (times,) = virtual.Cluster(1, 1, "h100_ndr").run(lab68.one_pool, asked, WORK).results
    assert times[0] == pytest.approx([1.05, 1.061, 1.072])
